"""Keeps the reported histories of suppressed items, and bounds the items by them as time passes.

A row that carries a history waits for the watermark like any other; until it is applied, the history bounds its item,
whatever its filter and its suppression. Applying the row ends the history (`filters.row_application`).

Splits the interval at every new fact about an item; each split costs one scan of all items. To limit the splits when
thousands of items report histories, ranges are merged on a coarse grid of times: in each cell an item is bounded by the
hull of its ranges in that cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tolerant.filters.state import Floats, Integers
from tolerant.kernels.snapshots import State
from tolerant.transport.rows import TimedRange

_MOST_SPLITS = 64
"""Most splits of an interval before histories are merged on the grid."""
_MOST_RANGES = 1000
"""Most ranges in a history, and most grid cells that it may cover."""
_CELLS = 8
"""Grid cells per latency allowance."""


class KnownBounds(NamedTuple):
    """Items and the bounds of each from now on; infinite where the reported history has ended."""

    item: Integers
    least: Floats
    most: Floats


@dataclass(frozen=True)
class _History:
    """The ranges of an item's history that have not begun, in order, and the time at which the history ends."""

    ranges: tuple[TimedRange, ...]
    until: int

    def splits(self) -> Iterator[int]:
        yield from (reported.since for reported in self.ranges)
        yield self.until


class ReportedHistory:
    """Reported histories by item index; times are event times, `latency` is the latency allowance, microseconds."""

    def __init__(self, latency: int) -> None:
        self._cell = max(latency // _CELLS, 1)
        self._histories: dict[int, _History] = {}
        self._due: dict[int, dict[int, None]] = {}  # moment → the items whose bounds change then

    def add(self, item: int, history: Sequence[TimedRange], until: int, watermark: int) -> None:
        """Adds the history of an item, which ends just before `until`; ignores ranges that end by the watermark.

        Replaces an earlier history only if the new one covers the watermark and ends later.
        """
        known = self._histories.get(item)
        if not history or history[-1].since > until or until <= watermark:
            return
        if known is not None and (until <= known.until or history[0].since > watermark):
            return
        ends = [reported.since for reported in history[1:]] + [until]
        ranges = [reported for reported, end in zip(history, ends, strict=True) if end > max(watermark, reported.since)]
        if len(ranges) > _MOST_RANGES or (until - watermark) // self._cell > _MOST_RANGES:
            return  # no source keeps this much
        if ranges and len(self._due) + len(ranges) > _MOST_SPLITS:
            ranges = self._coarsened(ranges, until, watermark)
        if ranges:
            self._keep(item, _History(tuple(ranges), -(-until // self._cell) * self._cell))

    def _coarsened(self, ranges: Sequence[TimedRange], until: int, watermark: int) -> list[TimedRange]:
        """Merges ranges on the grid: for each cell that they cover from its beginning, the hull of the ranges in it."""
        hulls: list[TimedRange] = []
        ends = [reported.since for reported in ranges[1:]] + [until]
        first = max(watermark, ranges[0].since) // self._cell * self._cell
        for begin in range(first, until, self._cell):
            end = begin + self._cell
            there = [
                p for p, ended in zip(ranges, ends, strict=True) if p.since < end and ended > max(begin, watermark)
            ]
            if there[0].since <= max(begin, watermark):
                hulls.append(TimedRange(begin, min(p.least for p in there), max(p.most for p in there)))
        return hulls

    def _keep(self, item: int, history: _History) -> None:
        self._drop(item)
        self._histories[item] = history
        for moment in history.splits():
            self._due.setdefault(moment, {})[item] = None

    def _drop(self, item: int) -> None:
        history = self._histories.pop(item, None)
        for moment in history.splits() if history is not None else ():
            items = self._due[moment]
            items.pop(item, None)
            if not items:
                del self._due[moment]

    def forget(self, items: Iterable[int], at: int) -> None:
        """Ends the histories of these items at `at`."""
        for item in items:
            if item in self._histories:
                self._keep(item, _History((), at))

    def next(self, until: int) -> int | None:
        """Returns the next time at which the bounds of an item change, or None if that is after `until`."""
        return min((moment for moment in self._due if moment <= until), default=None)

    def advance_to(self, at: int) -> KnownBounds:
        """Advances to `at`; returns the items whose bounds change, with the bounds that hold from now on."""
        due = dict.fromkeys(item for moment in sorted(self._due) if moment <= at for item in self._due[moment])
        bounds: dict[int, tuple[float, float]] = {}
        for item in due:
            history = self._histories[item]
            begun = sum(reported.since <= at for reported in history.ranges)
            bounds[item] = (-np.inf, np.inf) if history.until <= at else history.ranges[begun - 1][1:]
            if history.until <= at:
                self._drop(item)
            else:
                self._keep(item, _History(history.ranges[begun:], history.until))
        ends = np.array(list(bounds.values()), np.float64).reshape(len(bounds), 2)
        return KnownBounds(np.array(list(bounds), np.int64), ends[:, 0], ends[:, 1])

    def state(self) -> State:
        """The histories that have not ended, for a snapshot."""
        return State(histories=[[item, known.ranges, known.until] for item, known in self._histories.items()])

    def load(self, state: State) -> None:
        """Restores what `state` returned."""
        (histories,) = state.exactly("histories")
        self._histories, self._due = {}, {}
        for item, ranges, until in histories:
            self._keep(int(item), _History(tuple(TimedRange(*reported) for reported in ranges), until))
