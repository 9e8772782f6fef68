"""Limits of a server: concurrent requests, requests per second, requested pauses; and whether it responds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one server: concurrent requests, requests per second (None: any number); seconds per request; largest
    response in bytes; how often a request is retried after a broken connection, and the first pause before that.
    """

    at_once: int = 8
    per_second: float | None = None
    timeout: float = 5.0
    largest: int = 1 << 20
    retries: int = 1
    pause: float = 0.1

    def __post_init__(self) -> None:
        if self.at_once < 1 or self.largest < 1 or self.retries < 0:
            raise ValueError(f"at_once and largest must be at least 1, retries not negative, got {self}")
        if not (self.timeout > 0 and self.pause >= 0) or (self.per_second is not None and not self.per_second > 0):
            raise ValueError(f"timeout and per_second must be positive, pause not negative, got {self}")


SUSPECTS = 3
"""Failures in a row, each for items that used to succeed, after which a server counts as down."""
PROBE_EVERY = 5.0
"""Longest time between two probes of a server that is down, in seconds."""


class Host:
    """Enforces one server's limits, and decides whether it is down. `clock`: monotonic seconds. tick: seconds.

    A server is down when several requests in a row have failed for items that used to succeed, or all of its items
    fail. Then one item at a time is requested, until it responds: items that fail by themselves do not bring a server
    down, and one that is back is used at once.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float], tick: float = 1.0) -> None:
        self._limits, self._clock = limits, clock
        self._longest = max(1, int(PROBE_EVERY / tick))
        self._room = asyncio.Semaphore(limits.at_once)
        self._free_at = 0.0
        self._tried: dict[str, int] = {}  # by item: the number of its last request
        self._failing: set[str] = set()  # items whose last request failed
        self._suspects: set[str] = set()  # of those that failed since the last response, one per request
        self._requests = self._probes = self._probe_at = 0
        self.down = False
        """Whether only probes go to it."""
        self.suspended_until = 0.0
        """By the clock: no request before."""

    def suspend(self, seconds: float) -> None:
        """Send no request for `seconds`; an earlier, longer pause stays."""
        self.suspended_until = max(self.suspended_until, self._clock() + seconds)

    @property
    def suspended(self) -> bool:
        """Whether the server has asked for a pause that is not over."""
        return self._clock() < self.suspended_until

    # -- availability -----------------------------------------------------------------------------------------------

    @property
    def items(self) -> Collection[str]:
        """The items that were ever requested from it."""
        return self._tried.keys()

    def requested(self, items: Collection[str]) -> None:
        """Record one request for these items."""
        self._requests += 1
        self._tried.update(dict.fromkeys(items, self._requests))

    def answered(self, items: Collection[str]) -> bool:
        """Record a response for these items; return whether the server was down until now."""
        self._failing.difference_update(items)
        self._suspects.clear()
        was_down, self.down, self._probes = self.down, False, 0
        return was_down

    def failed(self, items: Collection[str], tick: int) -> None:
        """Record a failed request for these items at tick `tick`; the next probe is after 1, 2, 4, … ticks."""
        if not items:
            return
        if not self._failing.issuperset(items):
            self._suspects.add(min(items))
        self._failing.update(items)
        if self.down and tick < self._probe_at:
            return  # it was under way when the server went down
        if self.down or len(self._suspects) >= SUSPECTS or self._failing.issuperset(self._tried):
            self.down = True
            self._probe_at = tick + min(1 << self._probes, self._longest)
            self._probes = min(self._probes + 1, 30)

    def forget(self, gone: Collection[str]) -> None:
        """Forget items that are no longer requested."""
        for item in gone:
            self._tried.pop(item, None)
        self._failing.difference_update(gone)
        self._suspects.difference_update(gone)

    def probe(self, candidates: Collection[str], tick: int) -> str | None:
        """Choose the item with which to probe a server that is down; None: not yet. Prefers an item whose last request
        succeeded, then the one requested longest ago.
        """
        if not candidates or tick < self._probe_at:
            return None
        return min(candidates, key=lambda item: (item in self._failing, self._tried.get(item, 0), item))

    # -- limits -----------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Host:
        await self._room.acquire()
        try:
            await self._wait_for_turn()
        except BaseException:
            self._room.release()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._room.release()

    async def _wait_for_turn(self) -> None:
        if self._limits.per_second is None:
            return
        now = self._clock()
        turn = max(now, self._free_at)
        self._free_at = turn + 1.0 / self._limits.per_second
        if turn > now:
            await asyncio.sleep(turn - now)
