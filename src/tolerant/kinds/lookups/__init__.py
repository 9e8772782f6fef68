"""Joins with a table that is looked up in its file."""
