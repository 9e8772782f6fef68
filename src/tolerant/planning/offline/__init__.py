"""What experiments use and no pipeline does: plans run over a recorded trace, and cosines from sketches."""
