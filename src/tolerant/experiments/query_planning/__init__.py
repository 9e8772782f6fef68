"""Figures of [GR07], planning of continuous aggregation queries over aggregators."""
