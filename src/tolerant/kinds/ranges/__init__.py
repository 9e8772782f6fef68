"""Every change of the rows in a range, over shared channels."""
