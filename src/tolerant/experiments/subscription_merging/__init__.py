"""Figures of [CBGM], merging of range subscriptions into channels."""
