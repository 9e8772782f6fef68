"""The sums that a source may filter instead of its items (`specs/1-filters.md` §2.8): which there are, whether they
pay, and what they come to.

A sum is an item like any other to the filters, with a handle of its own; here is what only sums have. It exists as
soon as all its items have a value. Nothing here sends anything: `SourceCore` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.aggregation import EVERY
from tolerant.filters.forms import ITEMS, QUERIES, Moves, Shape, better_form
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled
from tolerant.transport import forms

_NOBODY = np.zeros(0, np.int64)

Register: TypeAlias = Callable[[Iterable[str]], Integers]
"""From keys to handles."""


class SumSet:
    """Sums that are filtered all or none, and how they and their items have moved since they were last judged."""

    def __init__(self, told: forms.Sums, handles: Integers) -> None:
        self.told = told
        self.handles = handles
        """Of the items."""
        self.sums = _NOBODY
        """Handles of the sums, while they are filtered."""
        self.broken = False
        """An item is gone: these sums will not be again."""
        self.wished = QUERIES
        """The form last asked for, while the sums are filtered."""
        self.judged: int | None = None
        """The boundary of the last look; None: nothing has been measured yet."""
        sizes = [len(part) for part in told.parts]
        self._start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(sizes, np.int64))])
        self._places = np.fromiter((place for part in told.parts for place in part), np.int64, sum(sizes))
        self._weights = np.fromiter((w for part in told.weights for w in part), np.float64, sum(sizes))
        self._begin()

    @property
    def name(self) -> str:
        """What it is known by: the key of its first sum."""
        return self.told.keys[0]

    @property
    def active(self) -> bool:
        """Whether its sums are filtered."""
        return len(self.sums) > 0

    def entries(self) -> tuple[Integers, Integers, Floats]:
        """Where each sum starts, and the handles and weights of its items."""
        return self._start, self.handles[self._places], self._weights

    def _begin(self) -> None:
        """Measure anew."""
        n, m = len(self.handles), len(self.told.keys)
        self._ticks = 0
        self._before: Floats | None = None
        self._items, self._sums = np.zeros((3, n)), np.zeros((3, m))

    def observe(self, last: Floats, known: Flags, ticks: int) -> None:
        """So many ticks end, with these last values by handle."""
        if not known[self.handles].all():
            self._begin()
            return
        values = last[self.handles]
        if self._before is not None:
            changes = values - self._before
            self._ticks += ticks
            _note(self._items, changes)
            _note(self._sums, _dot(self._start, self._places, self._weights, changes))
        self._before = values

    def better(self, drifts_count: bool, period: int) -> str:
        """The form that pays, by what was measured since this was last asked. `drifts_count`: a steady change has to be
        sent, as nobody predicts it. `period`: ticks of one.
        """
        told, form = self.told, QUERIES if self.active and self.wished == QUERIES else ITEMS
        ticks = self._ticks
        if not ticks:
            return form
        alone = np.array([np.inf if width is None else width for width in told.alone])
        shape = Shape(self._start, self._places, self._weights, np.array(told.shares), alone)
        moves = [_moves(one, ticks, drifts_count) for one in (self._items, self._sums)]
        self._begin()
        return better_form(form, shape, moves[0], moves[1], EVERY * period)


class Told(NamedTuple):
    """What new rows of forms ask for: sets that are over, and sets whose sums are to be filtered."""

    over: list[SumSet]
    begun: list[SumSet]


class Sums:
    """All sums of a source. `predicts`: whether its filters follow steady changes; `period`: ticks of one."""

    every = EVERY
    """Boundaries between two looks."""

    def __init__(self, predicts: bool, period: int) -> None:
        self._predicts, self._period = predicts, period
        self._told: dict[int, forms.Forms] = {}
        self.sets: dict[str, SumSet] = {}
        self._tick: int | None = None
        self._look = 0  # the boundary at which a form has to be looked at
        self._matrix: _Matrix | None = None
        self._filtered: bool | None = None

    def tell(self, rows: Iterable[forms.Forms], register: Register) -> Told:
        """Take rows in any order, repeated or not: the greatest version of a shard counts."""
        over: list[SumSet] = []
        for row in rows:
            held = self._told.get(row.shard)
            if held is not None and row.version <= held.version:
                continue
            self._told[row.shard] = row
            listed = {one.keys for one in row.sets}
            for name in [one.keys[0] for one in held.sets] if held else []:
                if name in self.sets and self.sets[name].told.keys not in listed:
                    over.append(self.sets.pop(name))
            for one in row.sets:
                if one.keys[0] in self.sets:
                    self.sets[one.keys[0]].told = one
                else:
                    self.sets[one.keys[0]] = SumSet(one, register(one.items))
        self._changed()
        self._look = 0
        begun = [one for one in self.sets.values() if one.told.formed and not one.active and not one.broken]
        return Told(over, begun)

    def begin(self, one: SumSet, register: Register) -> None:
        """From now on the sums of this set are filtered."""
        one.sums, one.wished = register(one.told.keys), QUERIES
        self._changed()

    def end(self, sets: Sequence[SumSet]) -> Integers:
        """Their sums are no longer filtered; the handles that they had."""
        handles = np.concatenate([_NOBODY, *(one.sums for one in sets)])
        for one in sets:
            one.sums = _NOBODY
        self._changed()
        return handles

    def having(self, handle: int) -> list[SumSet]:
        """The sets that have this item or sum."""
        return [one for one in self.sets.values() if handle in one.handles or handle in one.sums]

    @property
    def filtered(self) -> bool:
        """Whether any sums are."""
        if self._filtered is None:
            self._filtered = any(one.active for one in self.sets.values())
        return self._filtered

    def touched(self, handles: Integers, known: Flags) -> Integers:
        """The handles of the filtered sums that new values of these items change, where all items have one."""
        matrix = self._made(len(known))
        found = _touched(handles, matrix.item_start, matrix.item_sums, len(matrix.sums))
        return matrix.sums[found[_whole(found, matrix.start, matrix.items, known)]]

    def values(self, sums: Integers, last: Floats) -> Floats:
        """What these sums, by handle, come to; each is added up in one order, always."""
        matrix = self._made(len(last))
        return _dot_some(matrix.place[sums], matrix.start, matrix.items, matrix.weights, last)

    def pass_tick(self, tick: int, last: Floats, known: Flags) -> None:
        """Time comes to a tick, or stays in one; `last` has the values before it."""
        if self._tick is not None and tick > self._tick:
            for one in self.sets.values():
                if not one.broken:
                    one.observe(last, known, tick - self._tick)
        self._tick = tick if self._tick is None else max(tick, self._tick)

    def judge(self, passed: int) -> list[tuple[SumSet, str]]:
        """When so many boundaries have passed: sets whose form was looked at now, and the better one."""
        if passed < self._look:
            return []
        found = []
        for one in self.sets.values():
            if one.judged is None:
                one.judged = passed
            elif passed - one.judged >= self.every and not one.broken:
                one.judged = passed
                found.append((one, self.better(one)))
        self._look = self.every + min((one.judged or passed for one in self.sets.values()), default=passed)
        return found

    def better(self, one: SumSet) -> str:
        """The form that pays for a set."""
        return one.better(not self._predicts, self._period)

    def _changed(self) -> None:
        self._matrix = self._filtered = None

    def _made(self, size: int) -> _Matrix:
        if self._matrix is None or len(self._matrix.item_start) <= size:
            self._matrix = _matrix([one for one in self.sets.values() if one.active], size)
        return self._matrix


class _Matrix(NamedTuple):
    """All filtered sums: their handles, and compressed rows by sum and by item; `place` of a sum's handle."""

    sums: Integers
    start: Integers
    items: Integers
    weights: Floats
    item_start: Integers
    item_sums: Integers
    place: Integers


def _matrix(sets: Sequence[SumSet], size: int) -> _Matrix:
    entries = [one.entries() for one in sets]
    sums = np.concatenate([_NOBODY, *(one.sums for one in sets)])
    sizes = np.concatenate([_NOBODY, *(np.diff(start) for start, _, _ in entries)])
    items = np.concatenate([_NOBODY, *(handles for _, handles, _ in entries)])
    weights = np.concatenate([np.zeros(0), *(own for _, _, own in entries)])
    owner = np.repeat(np.arange(len(sums)), sizes)
    order = np.argsort(items, kind="stable")
    item_start = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=size))])
    place = np.zeros(size, np.int64)
    place[sums] = np.arange(len(sums))
    return _Matrix(sums, np.concatenate([[0], np.cumsum(sizes)]), items, weights, item_start, owner[order], place)


@compiled
def _touched(handles: Integers, item_start: Integers, item_sums: Integers, count: int) -> Integers:
    flags = np.zeros(count, np.bool_)
    for handle in handles:
        for position in range(item_start[handle], item_start[handle + 1]):
            flags[item_sums[position]] = True
    return np.flatnonzero(flags)


@compiled
def _whole(which: Integers, start: Integers, items: Integers, known: Flags) -> Flags:
    found = np.ones(which.size, np.bool_)
    for k in range(which.size):
        for position in range(start[which[k]], start[which[k] + 1]):
            if not known[items[position]]:
                found[k] = False
    return found


@compiled
def _dot_some(which: Integers, start: Integers, items: Integers, weights: Floats, values: Floats) -> Floats:
    found = np.empty(which.size)
    for k in range(which.size):
        total = 0.0
        for position in range(start[which[k]], start[which[k] + 1]):
            total += weights[position] * values[items[position]]
        found[k] = total
    return found


def _dot(start: Integers, items: Integers, weights: Floats, values: Floats) -> Floats:
    return _dot_some(np.arange(len(start) - 1), start, items, weights, values)


def _note(sums: NDArray[np.float64], changes: Floats) -> None:
    """Add up squares, changes and the number of changes, float64[3, n]."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums[0] += changes**2
        sums[1] += changes
    sums[2] += changes != 0.0


def _moves(sums: NDArray[np.float64], ticks: int, drifts_count: bool) -> Moves:
    square, mean, changing = sums / ticks
    if not drifts_count:
        with np.errstate(over="ignore", invalid="ignore"):
            square = np.maximum(square - mean**2, 0.0)
    return Moves(square, changing)
