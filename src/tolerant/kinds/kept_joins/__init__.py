"""Joins that keep n rows."""
