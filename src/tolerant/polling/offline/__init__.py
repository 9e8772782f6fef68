"""What experiments use and no live poller does: simulation over a recorded trace, and the optima to compare with."""
