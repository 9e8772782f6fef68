"""What a server allows: requests at once, requests a second, and pauses that it asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Of one server: requests at once, requests a second (None: any number); seconds that one may take; largest answer
    in bytes; how often a request is tried again at once after a connection that broke, and the first pause before that.
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


class Host:
    """Keeps one server's limits. `clock`: seconds that only grow."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self._limits, self._clock = limits, clock
        self._room = asyncio.Semaphore(limits.at_once)
        self._free_at = 0.0
        self.suspended_until = 0.0
        """By the clock: no request before."""

    def suspend(self, seconds: float) -> None:
        """Leave the server alone for so long; an earlier, longer pause stays."""
        self.suspended_until = max(self.suspended_until, self._clock() + seconds)

    @property
    def suspended(self) -> bool:
        """Whether the server wants no requests now."""
        return self._clock() < self.suspended_until

    async def __aenter__(self) -> Host:
        await self._room.acquire()
        try:
            await self._take_turn()
        except BaseException:
            self._room.release()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._room.release()

    async def _take_turn(self) -> None:
        if self._limits.per_second is None:
            return
        now = self._clock()
        turn = max(now, self._free_at)
        self._free_at = turn + 1.0 / self._limits.per_second
        if turn > now:
            await asyncio.sleep(turn - now)
