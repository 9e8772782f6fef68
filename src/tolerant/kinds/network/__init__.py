"""Aggregates over a network of aggregators."""
