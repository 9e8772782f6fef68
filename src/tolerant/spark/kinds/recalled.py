"""What items on leave have told of where they have been, and when that is to be reckoned with.

The row that tells it waits for its time like any other, and until then it is known where its item was. What an item
tells is true whatever its leave and its filter are. With the row itself it is forgotten (`filters.applying`).

Time is stopped wherever something else becomes known of an item, which takes a look at everybody. So there are not many
such moments: when thousands of items tell their ways, those are told apart by a coarser grid of times, in each cell of
which an item is taken to have been wherever it was in that cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.transport.rows import Piece

_MOMENTS = 64
"""At which time is stopped, at most, before it is by the grid."""
_PIECES = 1000
"""Of a way, and cells that it may stretch over, at most."""
_CELLS = 8
"""Of the grid, in the time that answers wait."""


class Told(NamedTuple):
    """Items, and between which values each is from now on; infinite: that is not known any more."""

    item: Integers
    least: Floats
    most: Floats


@dataclass(frozen=True)
class _Way:
    """The pieces of an item's way that are still to come, the next one first, and when to forget it for good."""

    pieces: tuple[Piece, ...]
    until: int

    def moments(self) -> Iterator[int]:
        yield from (piece.since for piece in self.pieces)
        yield self.until


class Recalled:
    """The ways of items, by index, in event time, microseconds; `latency`: how long answers wait."""

    def __init__(self, latency: int) -> None:
        self._cell = max(latency // _CELLS, 1)
        self._ways: dict[int, _Way] = {}
        self._due: dict[int, dict[int, None]] = {}  # moment → the items of which something else is known then

    def hear(self, item: int, way: Sequence[Piece], until: int, horizon: int) -> None:
        """An item tells where it was until just before `until`; what is said of before the horizon is of no use any
        more. In the place of what it has told before comes only what is of now and of longer.
        """
        known = self._ways.get(item)
        if not way or way[-1].since > until or until <= horizon:
            return
        if known is not None and (until <= known.until or way[0].since > horizon):
            return
        ends = [piece.since for piece in way[1:]] + [until]
        pieces = [piece for piece, end in zip(way, ends, strict=True) if end > max(horizon, piece.since)]
        if len(pieces) > _PIECES or (until - horizon) // self._cell > _PIECES:
            return  # nobody remembers so much
        if pieces and len(self._due) + len(pieces) > _MOMENTS:
            pieces = self._coarsened(pieces, until, horizon)
        if pieces:
            self._keep(item, _Way(tuple(pieces), -(-until // self._cell) * self._cell))

    def _coarsened(self, pieces: Sequence[Piece], until: int, horizon: int) -> list[Piece]:
        """The same by the grid: in each cell what is said of any part of it, if it is of all of it."""
        found: list[Piece] = []
        ends = [piece.since for piece in pieces[1:]] + [until]
        first = max(horizon, pieces[0].since) // self._cell * self._cell
        for begin in range(first, until, self._cell):
            end = begin + self._cell
            there = [p for p, ended in zip(pieces, ends, strict=True) if p.since < end and ended > max(begin, horizon)]
            if there[0].since <= max(begin, horizon):
                found.append(Piece(begin, min(p.least for p in there), max(p.most for p in there)))
        return found

    def _keep(self, item: int, way: _Way) -> None:
        self._drop(item)
        self._ways[item] = way
        for moment in way.moments():
            self._due.setdefault(moment, {})[item] = None

    def _drop(self, item: int) -> None:
        way = self._ways.pop(item, None)
        for moment in way.moments() if way is not None else ():
            items = self._due[moment]
            items.pop(item, None)
            if not items:
                del self._due[moment]

    def forget(self, items: Iterable[int], at: int) -> None:
        """Whatever these items have told holds until `at` only."""
        for item in items:
            if item in self._ways:
                self._keep(item, _Way((), at))

    def next(self, until: int) -> int | None:
        """When next something else is known of an item, if that is not after `until`."""
        return min((moment for moment in self._due if moment <= until), default=None)

    def reach(self, at: int) -> Told:
        """Time comes to `at`: what is known from now on, of the items of which that is something else."""
        due = dict.fromkeys(item for moment in sorted(self._due) if moment <= at for item in self._due[moment])
        found: dict[int, tuple[float, float]] = {}
        for item in due:
            way = self._ways[item]
            begun = sum(piece.since <= at for piece in way.pieces)
            found[item] = (-np.inf, np.inf) if way.until <= at else way.pieces[begun - 1][1:]
            if way.until <= at:
                self._drop(item)
            else:
                self._keep(item, _Way(way.pieces[begun:], way.until))
        ends = np.array(list(found.values()), np.float64).reshape(len(found), 2)
        return Told(np.array(list(found), np.int64), ends[:, 0], ends[:, 1])

    def state(self) -> list[Any]:
        """Everything, for `load`."""
        return [[item, way.pieces, way.until] for item, way in self._ways.items()]

    def load(self, values: list[Any]) -> None:
        """Become what `state` said."""
        self._ways, self._due = {}, {}
        for item, pieces, until in values:
            self._keep(int(item), _Way(tuple(Piece(*piece) for piece in pieces), until))
