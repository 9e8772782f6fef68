"""Aggregates over a stream that is polled."""
