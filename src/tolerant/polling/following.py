"""Bringing a poller to where another one is, from what that one wrote down of its pulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tolerant.polling.poller import Poller

LEAP = 1_000
"""So many ticks without a pull are passed over at once: nobody was there to ask."""


class PullLike(Protocol):
    """A pull as it was written down; kind: "value", "unchanged" or "failed"."""

    @property
    def item(self) -> str:
        """What was asked for."""

    @property
    def tick(self) -> int:
        """When it was."""

    @property
    def kind(self) -> str:
        """What came of it."""

    @property
    def value(self) -> float | None:
        """What came; None of a failed one."""


def reach(poller: Poller, tick: int) -> Iterator[tuple[int | None, int]]:
    """Bring a poller to a tick as if it had been asked at each; (before, now) of every step, after it was made."""
    while poller.now is None or poller.now < tick:
        before = poller.now
        following = tick if before is None or tick - before > LEAP else before + 1
        poller.due(following)
        yield before, following


def learn(poller: Poller, pull: PullLike) -> bool:
    """Teach a poller, which has come to the pull's time, what it says; False: no query refers to the item."""
    if pull.item not in poller or poller.now is None:
        return False
    tick = min(pull.tick, poller.now)
    if pull.kind == "failed" or pull.value is None:
        poller.failed(pull.item, tick)
    else:
        poller.pulled(pull.item, pull.value, tick)
    return True
