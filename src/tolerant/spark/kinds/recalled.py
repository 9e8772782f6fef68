"""What items on leave have told of where they have been, and when that is to be reckoned with.

The row that tells it waits for its time like any other, and until then it is known where its item was. What an item
tells is true whatever its leave and its filter are, so that nothing is at risk if the row itself comes to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.transport.rows import Piece


class Told(NamedTuple):
    """Items, and between which values each is from now on; infinite: that is not known any more."""

    item: Integers
    least: Floats
    most: Floats


@dataclass(frozen=True)
class _Way:
    """The pieces of an item's way that are still to come, the next one first, and when the last one ends."""

    pieces: tuple[Piece, ...]
    until: int

    @property
    def next(self) -> int:
        return self.pieces[0].since if self.pieces else self.until


class Recalled:
    """The ways of items, by index, in event time, microseconds."""

    def __init__(self) -> None:
        self._ways: dict[int, _Way] = {}

    def hear(self, item: int, way: Sequence[Piece], until: int, horizon: int) -> None:
        """An item tells where it was until just before `until`; what is said of before the horizon is of no use any
        more. In the place of what it has told before comes only what is of now and of longer.
        """
        known = self._ways.get(item)
        if until <= horizon or (known is not None and (until <= known.until or way[0].since > horizon)):
            return
        ends = [piece.since for piece in way[1:]] + [until]
        self._ways[item] = _Way(tuple(piece for piece, end in zip(way, ends, strict=True) if end > horizon), until)

    def forget(self, items: Iterable[int], at: int) -> None:
        """Whatever these items have told holds until `at` only."""
        for item in items:
            if item in self._ways:
                self._ways[item] = _Way((), at)

    def next(self, until: int) -> int | None:
        """When next something else is known of an item, if that is not after `until`."""
        return min((way.next for way in self._ways.values() if way.next <= until), default=None)

    def reach(self, at: int) -> Told:
        """Time comes to `at`: what is known from now on, of the items of which that is something else."""
        found: dict[int, tuple[float, float]] = {}
        for item, way in list(self._ways.items()):
            if way.next > at:
                continue
            begun = sum(piece.since <= at for piece in way.pieces)
            if way.until <= at:
                found[item] = -np.inf, np.inf
                del self._ways[item]
            else:
                found[item] = way.pieces[begun - 1][1:]
                self._ways[item] = _Way(way.pieces[begun:], way.until)
        ends = np.array(list(found.values()), np.float64).reshape(len(found), 2)
        return Told(np.array(list(found), np.int64), ends[:, 0], ends[:, 1])

    def state(self) -> list[Any]:
        """Everything, for `load`."""
        return [[item, way.pieces, way.until] for item, way in self._ways.items()]

    def load(self, values: list[Any]) -> None:
        """Become what `state` said."""
        self._ways = {
            int(item): _Way(tuple(Piece(*piece) for piece in pieces), until) for item, pieces, until in values
        }
