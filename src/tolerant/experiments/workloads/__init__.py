"""Data like that of the seeds' experiments, where the recorded data themselves are not to be had."""

from tolerant.experiments.workloads.polled import polled_trace, portfolios
from tolerant.experiments.workloads.traffic import bursty_traffic

__all__ = ["bursty_traffic", "polled_trace", "portfolios"]
