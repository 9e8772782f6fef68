"""Simulates how messages reach subscribers through an overlay of brokers; used by experiments only."""
