"""Late rows by source, for `tolerant status`."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Fields, Restorable

MOST = 1000
"""Sources that are told apart: who sends to a table may invent any number of them."""


class LateSources(Restorable):
    """Of each source the number of its late rows and the longest delay of one; all that are too many are one, ""."""

    FIELDS = Fields("_sources")

    def __init__(self) -> None:
        self._sources: dict[str, list[int]] = {}

    def count(self, source: str, delay: int, rows: int = 1) -> None:
        """Add late rows; `delay`: the longest time from the event time of one to its arrival, microseconds.

        >>> late = LateSources()
        >>> late.count("web-1", 700_000), late.count("web-1", 600_000, rows=2)
        (None, None)
        >>> late.record()
        {'web-1': [3, 700000]}
        """
        name = source if source in self._sources or len(self._sources) < MOST else ""
        count, longest = self._sources.get(name, (0, 0))
        self._sources[name] = [count + rows, max(longest, delay)]

    def count_all(self, sources: Iterable[str], delays: NDArray[np.int64]) -> None:
        """Add a late row of each of these sources."""
        for source, delay in zip(sources, delays.tolist(), strict=True):
            self.count(source, delay)

    def record(self) -> dict[str, list[int]]:
        """By source: its late rows, and the longest delay, as JSON values."""
        return self._sources
