"""Joins of two tables on equality with ranges, or on a band."""
