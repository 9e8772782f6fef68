"""Bounded aggregates over a stream that edge sources feed."""
