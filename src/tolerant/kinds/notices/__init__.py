"""Exact aggregates over a range, published when they change."""
