"""Replays recorded pulls into a poller, which then is where the one that made them was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tolerant.polling.poller import Poller

LEAP = 1_000
"""A gap of more ticks than this without a pull is skipped at once: no poller was running."""


class RecordedPull(Protocol):
    """A pull as it was recorded; kind: "value", "unchanged" or "failed"."""

    @property
    def item(self) -> str:
        """The item that was pulled."""

    @property
    def tick(self) -> int:
        """The tick of the pull."""

    @property
    def kind(self) -> str:
        """The outcome."""

    @property
    def value(self) -> float | None:
        """The value; None if the pull failed."""


def advance_to(poller: Poller, tick: int) -> Iterator[tuple[int | None, int]]:
    """Advance a poller to a tick as if `due` had been called at each; yields (before, now) after every step."""
    while poller.now is None or poller.now < tick:
        before = poller.now
        following = tick if before is None or tick - before > LEAP else before + 1
        poller.due(following)
        yield before, following


def replay_pull(poller: Poller, pull: RecordedPull) -> bool:
    """Apply a recorded pull to a poller that has been advanced to its tick; False: no query refers to the item."""
    if pull.item not in poller or poller.now is None:
        return False
    tick = min(pull.tick, poller.now)
    if pull.kind == "failed" or pull.value is None:
        poller.failed(pull.item, tick)
    else:
        poller.pulled(pull.item, pull.value, tick)
    return True
