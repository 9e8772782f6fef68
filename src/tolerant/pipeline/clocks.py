"""Which clock rows a shard goes by: a single one that is far ahead of the others must not move time.

A clock row moves time at once as long as it is no further ahead of the one before than `longest_jump`. One that is
waits for the next clock row, which after a downtime comes 100 ms later: if that stands near it, both count; if that
moves time from where it was, the first one counts nothing and becomes a dead letter, and so does the earlier of two
that are far from each other. One that is behind the one before counts as that one again, and says nothing about a row
that waits. The very first clock row waits in the same way, unless it names the pipeline that it is from. All of it is a
function of the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.pipeline.intake import DeadRow
from tolerant.streams import EARLIEST, LATEST, SECOND, StreamOptions

MINUTE = 60 * SECOND


def longest_jump(options: StreamOptions) -> int:
    """How far a single clock row may move time, microseconds: a minute, a lease or two ticks, whichever is longest.

    Clock rows come every 100 ms; in a replay, where they are in trace time, every tick.

    >>> longest_jump(StreamOptions()), longest_jump(StreamOptions(tick=3600 * SECOND))
    (60000000, 7200000000)
    """
    return max(MINUTE, options.lease, 2 * options.tick)


@dataclass
class Clock(Restorable):
    """The clock rows of one partition or table; `jump`: how far a single one may move time, microseconds."""

    FIELDS = Fields("newest", "waiting")

    jump: int
    newest: int | None = None
    waiting: int | None = None

    def take(self, at: int, *, is_named: bool = False) -> tuple[list[int], list[DeadRow]]:
        """The times to go by from now on, in order, after a clock row of `at`; and the clock rows that count nothing.

        is_named: it names the pipeline that it is from, so that it may be the first.

        >>> clock = Clock(MINUTE)
        >>> clock.take(0, is_named=True), clock.take(3 * MINUTE), clock.take(3 * MINUTE + SECOND)[0]
        (([0], []), ([], []), [180000000, 181000000])
        """
        if not EARLIEST <= at <= LATEST:
            return [], [_refused(at, "its time must lie in the years 1 to 2199")]
        if self.newest is not None and at <= self.newest:
            return [self.newest], []  # time never goes back: rows that are ahead of it only are not ahead of time
        waiting, self.waiting = self.waiting, None
        if is_named if self.newest is None else at <= self.newest + self.jump:
            return self._go_by([at]), self._lonely(waiting)
        if waiting is not None and abs(at - waiting) <= self.jump:
            return self._go_by([waiting, at]), []
        self.waiting = at
        return [], self._lonely(waiting)

    def _go_by(self, times: list[int]) -> list[int]:
        accepted = []
        for at in times:
            self.newest = at if self.newest is None else max(at, self.newest)
            accepted.append(self.newest)
        return accepted

    def _lonely(self, at: int | None) -> list[DeadRow]:
        if at is None or (self.newest is not None and at <= self.newest):
            return []
        if self.newest is None:
            ahead = "it is the first"
        else:
            ahead = f"it is {(at - self.newest) // SECOND:,} seconds ahead of the clock row before"
        return [_refused(at, f"{ahead}, and the next one did not bear it out")]


def _refused(at: int, why: str) -> DeadRow:
    return DeadRow(f"a clock row does not count: {why}", kind="clock", at=at)
