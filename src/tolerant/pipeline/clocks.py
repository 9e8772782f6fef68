"""Which clock rows a shard goes by: one that is absurdly far ahead must not move time for ever.

A clock row moves time at once as long as it is not further ahead of the one before than `JUMP`, or a thousand periods.
One that is waits for the next clock row, which after a downtime comes 100 ms later. If that stands near it, both count;
if that continues from where time was, the first was wrong and becomes a dead letter. One that is behind the one
before counts as that one again. All of it is a function of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.pipeline.intake import DeadRow
from tolerant.streams import EARLIEST, LATEST, SECOND

JUMP = 366 * 24 * 3600 * SECOND
"""Microseconds that a single clock row may move time by."""

_PERIODS = 1000


@dataclass
class Clock(Restorable):
    """The clock rows of one partition or table; `period`: microseconds between adjustments."""

    FIELDS = Fields("period", "newest", "waiting")

    period: int
    newest: int | None = None
    waiting: int | None = None

    def take(self, at: int) -> tuple[list[int], list[DeadRow]]:
        """The times to go by from now on, in order, after a clock row of `at`; and the clock rows that count nothing.

        >>> clock = Clock(10 * SECOND)
        >>> clock.take(0), clock.take(3 * JUMP), clock.take(3 * JUMP + SECOND)[0]
        (([0], []), ([], []), [94867200000000, 94867201000000])
        """
        if not EARLIEST <= at <= LATEST:
            return [], [_refused(at, "its time must lie in the years 1 to 2199")]
        jump = max(JUMP, _PERIODS * self.period)
        waiting, self.waiting = self.waiting, None
        if self.newest is None or at <= self.newest + jump:
            return self._go_by([at]), [] if waiting is None else [self._lonely(waiting)]
        if waiting is None:
            self.waiting = at
            return [], []
        if abs(at - waiting) <= jump:
            return self._go_by([waiting, at]), []
        self.waiting = min(at, waiting)
        return [], [self._lonely(max(at, waiting))]

    def _go_by(self, times: list[int]) -> list[int]:
        """Time never goes back: rows that are ahead of an old clock row only are not ahead of time."""
        accepted = []
        for at in times:
            self.newest = at if self.newest is None else max(at, self.newest)
            accepted.append(self.newest)
        return accepted

    def _lonely(self, at: int) -> DeadRow:
        days = (at - (self.newest or 0)) // (24 * 3600 * SECOND)
        return _refused(at, f"it is {days:,} days ahead of the clock row before, and the next one did not bear it out")


def _refused(at: int, why: str) -> DeadRow:
    return DeadRow(f"a clock row does not count: {why}", kind="clock", at=at)
