"""The sums that a source may filter instead of its items (`docs/design/filters.md` §2.8): which are offered, whether
they cost fewer updates, and their values.

To the filters a sum is an item like any other, with a handle of its own; this module has what only sums need. A sum
exists as soon as all its items have a value. Nothing here sends rows: `SourceCore` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.form_choice import EVERY
from tolerant.filters.form_costs import ITEMS, QUERIES, ChangeRates, SumShape, better_form
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import as_python
from tolerant.transport import sums

_NO_HANDLES = np.zeros(0, np.int64)

Register: TypeAlias = Callable[[Iterable[str]], Integers]
"""Maps keys to handles."""


class SourceSumGroup:
    """Sums that are filtered all or none, and how they and their items have moved since the last comparison."""

    def __init__(self, offer: sums.Sums, handles: Integers) -> None:
        self.offer = offer
        self.handles = handles
        """Handles of the items."""
        self.sums = _NO_HANDLES
        """Handles of the sums, while they are filtered."""
        self.broken = False
        """An item is gone: these sums are never filtered again."""
        self.requested_form = QUERIES
        """The form last requested, while the sums are filtered."""
        self.compared: int | None = None
        """The period in which costs were last compared; None: nothing has been measured yet."""
        sizes = [len(part) for part in offer.parts]
        self._start = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(sizes, np.int64))])
        self._places = np.fromiter((place for part in offer.parts for place in part), np.int64, sum(sizes))
        self._weights = np.fromiter((w for part in offer.weights for w in part), np.float64, sum(sizes))
        self._restart_measurement()

    @property
    def name(self) -> str:
        """The group's name: the key of its first sum."""
        return self.offer.keys[0]

    @property
    def active(self) -> bool:
        """Whether its sums are filtered."""
        return len(self.sums) > 0

    def entries(self) -> tuple[Integers, Integers, Floats]:
        """Return the start of each sum's entries, and the handles and weights of its items."""
        return self._start, self.handles[self._places], self._weights

    def _restart_measurement(self) -> None:
        n, m = len(self.handles), len(self.offer.keys)
        self._ticks = 0
        self._before: Floats | None = None
        self._items, self._sums = np.zeros((3, n)), np.zeros((3, m))

    def observe(self, last: Floats, known: Flags, ticks: int) -> None:
        """Measure how items and sums moved in the `ticks` that end; `last` has the last values by handle."""
        if not known[self.handles].all():
            self._restart_measurement()
            return
        values = last[self.handles]
        if self._before is not None:
            changes = values - self._before
            self._ticks += ticks
            _accumulate(self._items, changes)
            _accumulate(self._sums, _dot(self._start, self._places, self._weights, changes))
        self._before = values

    def better(self, drifts_count: bool, period: int) -> str:
        """Return the cheaper form by the measurements since the last call. `drifts_count`: a steady change has to be
        sent, as it is not predicted. `period`: ticks per period.
        """
        offer, form = self.offer, QUERIES if self.active and self.requested_form == QUERIES else ITEMS
        ticks = self._ticks
        if not ticks:
            return form
        alone = np.array([np.inf if width is None else width for width in offer.alone])
        shape = SumShape(self._start, self._places, self._weights, np.array(offer.shares), alone)
        moves = [_moves(totals, ticks, drifts_count) for totals in (self._items, self._sums)]
        self._restart_measurement()
        with as_python():  # some milliseconds, once in 50 periods
            return better_form(form, shape, moves[0], moves[1], EVERY * period)


class SumGroupChanges(NamedTuple):
    """Groups that new offers withdraw, and groups whose sums are to be filtered now."""

    withdrawn: list[SourceSumGroup]
    to_begin: list[SourceSumGroup]


class SourceSums:
    """All sums of a source. `predicts`: whether its filters follow steady changes; `period`: ticks per period."""

    every = EVERY
    """Periods between two comparisons of costs."""

    def __init__(self, predicts: bool, period: int) -> None:
        self._predicts, self._period = predicts, period
        self._offers: dict[int, sums.SumOffers] = {}  # by shard
        self.groups: dict[str, SourceSumGroup] = {}
        self._tick: int | None = None
        self._compare_at = 0  # the period in which the next group has to be compared
        self._matrix: _Matrix | None = None
        self._filtered: bool | None = None

    def apply_offers(self, offers: Iterable[sums.SumOffers], register: Register) -> SumGroupChanges:
        """Apply offers in any order, repeated or not: the greatest version of a shard counts."""
        withdrawn: list[SourceSumGroup] = []
        for offer in offers:
            previous = self._offers.get(offer.shard)
            if previous is not None and offer.version <= previous.version:
                continue
            self._offers[offer.shard] = offer
            listed = {offered.keys for offered in offer.sets}
            for name in [offered.keys[0] for offered in previous.sets] if previous else []:
                if name in self.groups and self.groups[name].offer.keys not in listed:
                    withdrawn.append(self.groups.pop(name))
            for offered in offer.sets:
                if offered.keys[0] in self.groups:
                    self.groups[offered.keys[0]].offer = offered
                else:
                    self.groups[offered.keys[0]] = SourceSumGroup(offered, register(offered.items))
        self._invalidate()
        self._compare_at = 0
        to_begin = [group for group in self.groups.values() if group.offer.formed and not group.active]
        return SumGroupChanges(withdrawn, [group for group in to_begin if not group.broken])

    def begin(self, group: SourceSumGroup, register: Register) -> None:
        """Filter the sums of this group from now on."""
        group.sums, group.requested_form = register(group.offer.keys), QUERIES
        self._invalidate()

    def end(self, groups: Sequence[SourceSumGroup]) -> Integers:
        """Stop filtering the sums of these groups; return the handles that the sums had."""
        handles = np.concatenate([_NO_HANDLES, *(group.sums for group in groups)])
        for group in groups:
            group.sums = _NO_HANDLES
        self._invalidate()
        return handles

    def containing(self, handle: int) -> list[SourceSumGroup]:
        """Return the groups that have this item or sum."""
        return [group for group in self.groups.values() if handle in group.handles or handle in group.sums]

    @property
    def filtered(self) -> bool:
        """Whether any sums are filtered."""
        if self._filtered is None:
            self._filtered = any(group.active for group in self.groups.values())
        return self._filtered

    def affected(self, handles: Integers, known: Flags) -> Integers:
        """Return the handles of the filtered sums that new values of these items change, where all items have one."""
        matrix = self._current_matrix(len(known))
        places = _affected(handles, matrix.item_start, matrix.item_sums, len(matrix.sums))
        return matrix.sums[places[_complete(places, matrix.start, matrix.items, known)]]

    def values(self, sums: Integers, last: Floats) -> Floats:
        """Return the values of these sums, by handle; the terms of each are always added in the same order."""
        matrix = self._current_matrix(len(last))
        return _dot_some(matrix.place[sums], matrix.start, matrix.items, matrix.weights, last)

    def pass_tick(self, tick: int, last: Floats, known: Flags) -> None:
        """Advance to a tick, or stay in one; `last` has the values before it."""
        if self._tick is not None and tick > self._tick:
            for group in self.groups.values():
                if not group.broken:
                    group.observe(last, known, tick - self._tick)
        self._tick = tick if self._tick is None else max(tick, self._tick)

    def compare(self, passed: int) -> list[tuple[SourceSumGroup, str]]:
        """Compare the costs of groups that are due after `passed` periods; return each with its cheaper form."""
        if passed < self._compare_at:
            return []
        compared = []
        for group in self.groups.values():
            if group.compared is None:
                group.compared = passed
            elif passed - group.compared >= self.every and not group.broken:
                group.compared = passed
                compared.append((group, self.better(group)))
        self._compare_at = self.every + min(
            (group.compared or passed for group in self.groups.values()), default=passed
        )
        return compared

    def better(self, group: SourceSumGroup) -> str:
        """Return the cheaper form of a group."""
        return group.better(not self._predicts, self._period)

    def _invalidate(self) -> None:
        self._matrix = self._filtered = None

    def _current_matrix(self, size: int) -> _Matrix:
        if self._matrix is None or len(self._matrix.item_start) <= size:
            self._matrix = _matrix([group for group in self.groups.values() if group.active], size)
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


def _matrix(groups: Sequence[SourceSumGroup], size: int) -> _Matrix:
    entries = [group.entries() for group in groups]
    sums = np.concatenate([_NO_HANDLES, *(group.sums for group in groups)])
    sizes = np.concatenate([_NO_HANDLES, *(np.diff(start) for start, _, _ in entries)])
    items = np.concatenate([_NO_HANDLES, *(handles for _, handles, _ in entries)])
    weights = np.concatenate([np.zeros(0), *(own for _, _, own in entries)])
    owner = np.repeat(np.arange(len(sums)), sizes)
    order = np.argsort(items, kind="stable")
    item_start = np.concatenate([[0], np.cumsum(np.bincount(items, minlength=size))])
    place = np.zeros(size, np.int64)
    place[sums] = np.arange(len(sums))
    return _Matrix(sums, np.concatenate([[0], np.cumsum(sizes)]), items, weights, item_start, owner[order], place)


def _affected(handles: Integers, item_start: Integers, item_sums: Integers, count: int) -> Integers:
    flags = np.zeros(count, np.bool_)
    flags[item_sums[_entries(handles, item_start).positions]] = True
    return np.flatnonzero(flags)


def _complete(which: Integers, start: Integers, items: Integers, known: Flags) -> Flags:
    positions, owner = _entries(which, start)
    return np.bincount(owner[~known[items[positions]]], minlength=len(which)) == 0


def _dot_some(which: Integers, start: Integers, items: Integers, weights: Floats, values: Floats) -> Floats:
    positions, owner = _entries(which, start)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = weights[positions] * values[items[positions]]
        totals: Floats = np.bincount(owner, terms, len(which)).astype(np.float64, copy=False)
    return totals


class _Entries(NamedTuple):
    """Entries of some rows of a compressed matrix, row by row, and to which of the rows each belongs."""

    positions: Integers
    owner: Integers


def _entries(rows: Integers, start: Integers) -> _Entries:
    sizes = start[rows + 1] - start[rows]
    owner = np.repeat(np.arange(len(rows)), sizes)
    return _Entries(np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes - start[rows], sizes), owner)


def _dot(start: Integers, items: Integers, weights: Floats, values: Floats) -> Floats:
    return _dot_some(np.arange(len(start) - 1), start, items, weights, values)


def _accumulate(sums: NDArray[np.float64], changes: Floats) -> None:
    """Add up squares, changes and the number of changes, float64[3, n]."""
    with np.errstate(over="ignore", invalid="ignore"):
        sums[0] += changes**2
        sums[1] += changes
    sums[2] += changes != 0.0


def _moves(sums: NDArray[np.float64], ticks: int, drifts_count: bool) -> ChangeRates:
    square, mean, changing = sums / ticks
    if not drifts_count:
        with np.errstate(over="ignore", invalid="ignore"):
            square = np.maximum(square - mean**2, 0.0)
    return ChangeRates(square, changing)
