"""Checks recorded plans against their definitions; used by experiments and tests only."""
