"""Reads the recorded traces on which policies are compared: prices, cloud metrics, weather data
(`docs/design/filters.md` §5).
"""

from __future__ import annotations

import numpy as np

from tolerant.experiments.workloads.recorded import FOLDER, recorded
from tolerant.traces import Trace

RECORDED = {
    "markets": "markets-minute",
    "stocks": "stocks-daily",
    "cloud": "cloud-5min",
    "weather data": "weather-hourly",
}
"""The file of each trace."""


def available() -> list[str]:
    """Return the names of the traces that are available."""
    return [name for name, file in RECORDED.items() if recorded(file) is not None]


def scaled(name: str, ticks: int = 6000) -> Trace:
    """Return the first ticks of a recorded trace; prices scaled to 100 at the start, cloud metrics to a mean of 100."""
    if name not in RECORDED:
        raise ValueError(f"name must be one of {', '.join(RECORDED)}, got {name!r}")
    trace = recorded(RECORDED[name])
    if trace is None:
        raise ValueError(f"{RECORDED[name]}.parquet was not found; set {FOLDER} to the folder that has it")
    values = np.array(trace.values[:ticks])
    if name in ("markets", "stocks"):
        values = 100 * values / values[0]
    elif name == "cloud":
        values = 100 * values / values.mean(axis=0)
    return Trace(trace.items, values)
