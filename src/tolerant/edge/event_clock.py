"""Event time of one source: stamps that never go back, and the ticks and adjustment periods between them."""

from __future__ import annotations

from tolerant.kernels.decay import periods_passed
from tolerant.streams import StreamOptions
from tolerant.transport.rows import NO_TIME

LEAP = 1000
"""More ticks or periods than this are not made up for one by one, after a sleep."""

_GRACE = 20
"""Readings up to a twentieth of a tick after it count as readings at the tick."""


class EventClock:
    """The event time that a source has reached, and what it has confirmed of it. All times are microseconds."""

    def __init__(self, options: StreamOptions) -> None:
        self.now = NO_TIME
        """The stamp of the newest event."""
        self.through = NO_TIME
        """Everything up to this stamp has been drained: nothing may be stamped with it any more."""
        self.last_row = NO_TIME
        """The stamp of the newest row."""
        self.periods = 0
        """Adjustment periods that have ended."""
        self.tick, self.period = options.tick, options.boundary
        self._lease = options.lease
        self._grace = min(options.tick // _GRACE, options.latency // 4)

    @property
    def started(self) -> bool:
        """Whether anything has happened yet."""
        return self.now != NO_TIME

    def start(self, at: int) -> None:
        """Begin at `at`, with the periods that have ended by then."""
        self.periods, self.last_row = self.periods_at(at), at

    def stamp(self, now: int) -> int:
        """Return the event time of what happens at `now`: equal stamps are one transaction, and none goes back."""
        steps_back = now < self.now or now <= self.through
        return self.now + 1 if steps_back else now

    def nearest(self, now: int) -> int:
        """Return the tick just before `now`, if `now` is within its grace and the tick is not over here; else `now`."""
        tick = now // self.tick * self.tick
        return tick if now - tick <= self._grace and tick > max(self.now, self.through) else now

    def periods_at(self, at: int) -> int:
        """Return how many periods have ended at `at`."""
        return periods_passed(at, self.period)

    def next_tick(self, tick: int, at: int) -> int | None:
        """Return the time of the tick to stop at next on the way from tick number `tick` to `at`; None: none."""
        following = (tick + 1) * self.tick
        return None if following > at else self._leap(following, at // self.tick * self.tick, self.tick)

    def next_periods(self, at: int, *, idle: bool) -> int:
        """Return how many periods have ended where to stop next on the way to `at`. `idle`: nothing can happen at their
        ends.
        """
        following, last = (self.periods + 1) * self.period, self.periods_at(at) * self.period
        return (last if idle else self._leap(following, last, self.period)) // self.period

    def _leap(self, following: int, last: int, step: int) -> int:
        # After a sleep of very many steps, and of more than a lease, straight to the last one: the source was stale
        # meanwhile, so no answer relied on its filters.
        return last if last - following > max(LEAP * step, self._lease) else following
