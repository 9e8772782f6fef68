"""Generates data like that of the papers' experiments, whose recordings are not public."""

from tolerant.experiments.workloads.packet_traffic import bursty_traffic
from tolerant.experiments.workloads.stock_prices import polled_trace, portfolios

__all__ = ["bursty_traffic", "polled_trace", "portfolios"]
