"""Keeps the reported histories of suppressed items, and bounds the items by them as time passes.

A row that carries a history waits for the watermark like any other; until it is applied, the history bounds its item,
whatever its filter and its suppression. Applying the row ends the history (`filters.applying`).

Splits the interval at every new fact about an item; each split costs one scan of all items. To limit the splits when
thousands of items report histories, ranges are merged on a coarse grid of times: in each cell an item is bounded by the
hull of its ranges in that cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.transport.rows import TimedRange

_MOMENTS = 64
"""Most splits of an interval before histories are merged on the grid."""
_PIECES = 1000
"""Most ranges in a history, and most grid cells that it may cover."""
_CELLS = 8
"""Grid cells per latency allowance."""


class Told(NamedTuple):
    """Items and the bounds of each from now on; infinite where the reported history has ended."""

    item: Integers
    least: Floats
    most: Floats


@dataclass(frozen=True)
class _Way:
    """The ranges of an item's history that have not begun, in order, and the time at which the history ends."""

    pieces: tuple[TimedRange, ...]
    until: int

    def moments(self) -> Iterator[int]:
        yield from (piece.since for piece in self.pieces)
        yield self.until


class ReportedHistory:
    """Reported histories by item index; times are event times, `latency` is the latency allowance, microseconds."""

    def __init__(self, latency: int) -> None:
        self._cell = max(latency // _CELLS, 1)
        self._ways: dict[int, _Way] = {}
        self._due: dict[int, dict[int, None]] = {}  # moment → the items whose bounds change then

    def hear(self, item: int, way: Sequence[TimedRange], until: int, watermark: int) -> None:
        """Adds the history of an item, which ends just before `until`; ignores ranges that end by the watermark.

        Replaces an earlier history only if the new one covers the watermark and ends later.
        """
        known = self._ways.get(item)
        if not way or way[-1].since > until or until <= watermark:
            return
        if known is not None and (until <= known.until or way[0].since > watermark):
            return
        ends = [piece.since for piece in way[1:]] + [until]
        pieces = [piece for piece, end in zip(way, ends, strict=True) if end > max(watermark, piece.since)]
        if len(pieces) > _PIECES or (until - watermark) // self._cell > _PIECES:
            return  # no source keeps this much
        if pieces and len(self._due) + len(pieces) > _MOMENTS:
            pieces = self._coarsened(pieces, until, watermark)
        if pieces:
            self._keep(item, _Way(tuple(pieces), -(-until // self._cell) * self._cell))

    def _coarsened(self, pieces: Sequence[TimedRange], until: int, watermark: int) -> list[TimedRange]:
        """Merges ranges on the grid: for each cell that they cover from its beginning, the hull of the ranges in it."""
        found: list[TimedRange] = []
        ends = [piece.since for piece in pieces[1:]] + [until]
        first = max(watermark, pieces[0].since) // self._cell * self._cell
        for begin in range(first, until, self._cell):
            end = begin + self._cell
            there = [
                p for p, ended in zip(pieces, ends, strict=True) if p.since < end and ended > max(begin, watermark)
            ]
            if there[0].since <= max(begin, watermark):
                found.append(TimedRange(begin, min(p.least for p in there), max(p.most for p in there)))
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
        """Ends the histories of these items at `at`."""
        for item in items:
            if item in self._ways:
                self._keep(item, _Way((), at))

    def next(self, until: int) -> int | None:
        """The next time at which the bounds of an item change, or None if that is after `until`."""
        return min((moment for moment in self._due if moment <= until), default=None)

    def reach(self, at: int) -> Told:
        """Advances to `at`; returns the items whose bounds change, with the bounds that hold from now on."""
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
        """The state as plain values, for `load`."""
        return [[item, way.pieces, way.until] for item, way in self._ways.items()]

    def load(self, values: list[Any]) -> None:
        """Restores what `state` returned."""
        self._ways, self._due = {}, {}
        for item, pieces, until in values:
            self._keep(int(item), _Way(tuple(TimedRange(*piece) for piece in pieces), until))
