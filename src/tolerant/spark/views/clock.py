"""The time, as a pipeline of views measures it; a test has its own."""

from __future__ import annotations

import time
from typing import Protocol

from tolerant.streams import SECOND


class Clock(Protocol):
    """What tells the time."""

    def wall(self) -> int:
        """Microseconds since 1970, as the clocks of those who ask for views have it; never goes back."""
        ...

    def elapsed(self) -> float:
        """Seconds, for durations."""
        ...


class SystemClock:
    """This machine's."""

    def __init__(self) -> None:
        self._last = 0

    def wall(self) -> int:
        """See `Clock.wall`."""
        self._last = max(self._last, time.time_ns() * SECOND // 1_000_000_000)
        return self._last

    def elapsed(self) -> float:
        """See `Clock.elapsed`."""
        return time.perf_counter()
