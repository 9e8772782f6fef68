"""Who shares a channel, decided at boundaries: the live plan of one template, with sizes from the rows seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Fields, State
from tolerant.kinds.ranges.sharing import Sharing
from tolerant.merging import Costs, Merger, RowCounts, RowRates, merge
from tolerant.merging.sizes import planar, reach

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST = 1e18
"""An end beyond it counts as this, for the plan alone: what is sent does not depend on it."""

_UNION = 400
"""Different rectangles, at most, for which a plan of "union" is made, in about a second: everyone is compared with
everyone, however far apart. Above, groups are those of "box", whose union is smaller still.
"""

_PIECES = 1000
"""Different rectangles, at most, for which a plan of "pieces" is made at once. Above, it is made part by part: only
those that overlap gain by it, so that little is lost.
"""

_PARTS = 5
"""Parts, at most; above, only equal rectangles share a channel: groups of "box" would be cut into far too many."""

_MANY = 8
"""One subscription in so many that changed: merge afresh, as repairing one by one takes longer."""

_REVIEW = 30
"""Boundaries with rows between two looks whether merging afresh would be cheaper; a look also comes whenever twice as
many rows have been seen, as the first sizes are rough.
"""

_UNITS = 3000
"""Different rectangles, at most, that are compared all with all: where a channel costs much and rows are few, everyone
is worth comparing with everyone."""

_PAIRS = 3e6
"""Pairs worth comparing, at most, for rectangles to be taken as they are."""

_SAMPLE = 64

_WORTH = 0.99
"""Merging afresh moves many: it has to cost less than this part of what there is."""


class Regrouping:
    """The plan of a template's channels. Everything is a function of the calls: the same log gives the same groups."""

    FIELDS = Fields("_planned", "_at", "_noticed", "_reviewed", "_since", "_seed", "_grain", parts=["seen"])

    def __init__(self, sharing: Sharing, dimensions: int) -> None:
        self._sharing = sharing
        self.costs = Costs(sharing.channel, sharing.transfer, sharing.waste)
        self.seen = RowRates(dimensions)
        self._merger: Merger | None = None
        self._planned = np.zeros(0, np.int64)  # the ids in it, ascending
        self._at = 0  # the last boundary with rows or changes, in periods
        self._noticed = 0  # rows seen up to it
        self._reviewed = 0  # rows seen at the last review
        self._since = 0  # boundaries since
        self._seed = 0
        self._grain = np.zeros(dimensions)  # rectangles are taken to be as wide as multiples of it; 0: as they are

    def groups(self, period: int, ids: Integers, rectangles: Floats) -> Integers | None:
        """The group of each subscription at the boundary of this number, int64[n] (any numbers); None: as before.

        `ids` int64[n] and `rectangles` float64[n, 2d]: those that there are now.
        """
        if self._sharing.method == "none":
            return None
        changed = any(map(len, self._changed(ids)))
        if not changed and self.seen.rows == self._noticed:
            return None
        self.seen.on_period_end(max(1, period - self._at) if self._at else 1)
        self._at, self._noticed, self._since = period, self.seen.rows, self._since + 1
        size = self.seen.size()
        if size is None or not self.seen.rows:
            return None
        due = self.seen.rows >= 2 * self._reviewed or self._since >= _REVIEW
        if not (due or changed):
            return None
        if due:
            self._reviewed, self._since = self.seen.rows, 0
        if self._sharing.procedure != "box":
            distinct, equal = np.unique(rectangles, axis=0, return_inverse=True)
            if self._sharing.procedure == "pieces" or len(distinct) <= _UNION:
                self._planned = np.sort(ids)
                return self._merged(distinct, equal.reshape(-1), rectangles, size)
        return self._kept(period, ids, rectangles, size, due)

    def _changed(self, ids: Integers) -> tuple[Integers, Integers]:
        """Returns the subscriptions added and those removed since the last plan."""
        return np.setdiff1d(ids, self._planned), np.setdiff1d(self._planned, ids)

    def size(self) -> RowCounts | None:
        """Estimates the rows per period of rectangles from the rows seen so far; None if there is no estimate."""
        return self.seen.size()

    def _merged(self, distinct: Floats, equal: Integers, rectangles: Floats, size: RowCounts) -> Integers:
        """Groups found by comparing all pairs; `equal` int64[n]: which of the distinct rectangles each one is."""
        if len(distinct) > _PIECES * _PARTS:
            return equal
        part = tiles(distinct, _PIECES)[equal]
        labels, free = np.empty(len(rectangles), np.int64), 0
        for number in range(int(part.max(initial=-1)) + 1):
            members = np.flatnonzero(part == number)
            merged = merge(rectangles[members], self.costs, size=size, procedure=self._sharing.procedure).groups
            for label, group in enumerate(merged, free):
                labels[members[list(group)]] = label
            free += len(merged)
        return labels

    def _kept(self, period: int, ids: Integers, rectangles: Floats, size: RowCounts, due: bool) -> Integers:
        """The groups of the live plan, which takes in what changed."""
        added, gone = self._changed(ids)
        place = np.argsort(ids)
        if self._merger is None or _MANY * (len(added) + len(gone)) > len(ids):
            self._grain = grain(rectangles, self.costs, size)
            self._seed, self._merger = period, self._afresh(period, ids[place], rectangles[place], size)
        else:
            self._merger.reprice(size=size)
            if len(gone):
                self._merger.remove_many(gone.tolist())
            if len(added):
                which = place[np.searchsorted(ids[place], added)]
                self._merger.add_many(added.tolist(), coarse(rectangles[which], self._grain), fresh=False)
            if due:
                self._grain = grain(rectangles, self.costs, size)
                other = self._afresh(period, ids[place], rectangles[place], size)
                if other.cost < _WORTH * self._merger.cost:
                    self._seed, self._merger = period, other
        self._planned = ids[place]
        labels = np.empty(len(ids), np.int64)
        for label, group in self._merger.channels().items():
            labels[place[np.searchsorted(self._planned, np.array(group, np.int64))]] = label
        return labels

    def _afresh(self, seed: int, ids: Integers, rectangles: Floats, size: RowCounts) -> Merger:
        merger = Merger(self.costs, size=size, seed=seed)
        merger.add_many(ids.tolist(), coarse(rectangles, self._grain))
        return merger

    def state(self) -> State:
        """The sizes that were seen and the plan, for a snapshot."""
        merger = None if self._merger is None else self._merger.state()
        return State(seen=self.FIELDS.state(self), merger=merger)

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        seen, merger = state.exactly("seen", "merger")
        self.FIELDS.load(self, seen)
        size = self.seen.size()
        if merger is not None and size is not None:
            self._merger = Merger.load(self.costs, merger, size=size, seed=self._seed)


def tiles(rectangles: Floats, room: int) -> Integers:
    """Numbers int64[n] of parts of at most `room` neighbours: halved by their centres, along the longer side, again and
    again.
    """
    half = rectangles.shape[1] // 2
    centres = rectangles[:, :half] + rectangles[:, half:]
    tile, waiting, count = np.zeros(len(rectangles), np.int64), [np.arange(len(rectangles))], 0
    while waiting:
        part = waiting.pop()
        if len(part) <= room:
            tile[part] = count
            count += 1
            continue
        axis = int(np.argmax(np.ptp(centres[part], axis=0)))
        order = part[np.argsort(centres[part, axis], kind="stable")]
        waiting += [order[: len(order) // 2], order[len(order) // 2 :]]
    return tile


def grain(rectangles: Floats, costs: Costs, size: RowCounts) -> Floats:
    """How coarsely to look at rectangles float64[n, 2d], float64[d], so that merging them takes seconds at most.

    0 where few pairs are worth comparing; else so that no more than `_UNITS` of them differ. What is lost is small
    beside what a channel then costs: the rows in a strip as wide as the grain.
    """
    n, half = len(rectangles), rectangles.shape[1] // 2
    exact = np.zeros(half)
    if n <= _UNITS:
        return exact
    content = costs.channel / (costs.transfer + costs.waste) if costs.transfer + costs.waste > 0 else np.inf
    sample = rectangles[np.linspace(0, n - 1, _SAMPLE).astype(np.int64)]
    met = 0
    for x1, y1, x2, y2 in planar(sample).tolist():
        window = reach(x1, y1, x2, y2, content, size.table)
        apart = [
            (rectangles[:, axis] > window[2 + axis]) | (rectangles[:, half + axis] < window[axis])
            for axis in range(half)
        ]
        met += n - int(np.count_nonzero(np.any(apart, axis=0)))
    if met / _SAMPLE * n / 2 <= _PAIRS:
        return exact
    low, high = rectangles[:, :half].min(axis=0), rectangles[:, half:].max(axis=0)
    for cells in 2 ** np.arange(15, -1, -1):
        cell = (high - low) / cells
        steps = np.rint(coarse(rectangles, cell) / np.tile(np.where(cell > 0, cell, 1.0), 2)).astype(np.int64)
        # One word a rectangle, by the steps from the first on: of four ends none takes more than 16 bits.
        words = ((steps - steps.min(axis=0)) << (16 * np.arange(2 * half))).sum(axis=1)
        if len(np.unique(words)) <= _UNITS:
            return cell
    return high - low


def coarse(rectangles: Floats, step: Floats) -> Floats:
    """The rectangles float64[n, 2d] made wider, to multiples of `step` float64[d]; 0: as they are."""
    half = len(step)
    if not step.any():
        return rectangles
    unit = np.where(step > 0, step, 1.0)
    low, high = rectangles[:, :half], rectangles[:, half:]
    wide = [np.where(step > 0, np.floor(low / unit) * unit, low), np.where(step > 0, np.ceil(high / unit) * unit, high)]
    return np.concatenate(wide, axis=1)


def renumbered(before: Integers, groups: Integers, ids: Integers, free: int) -> tuple[Integers, int]:
    """The channels of subscriptions in these groups, int64[n], and the next number that is free.

    A group keeps the channel that most of its members were on before (below 0: their own); who is alone has a channel
    of their own, ~id.
    """
    labels, counts = np.unique(groups, return_inverse=True, return_counts=True)[1:]
    shared = counts[labels] > 1
    channels = ~ids
    pairs, votes = np.unique(
        np.stack([labels[shared & (before >= 0)], before[shared & (before >= 0)]], axis=1), axis=0, return_counts=True
    )
    number = np.full(len(counts), -1, np.int64)
    taken: set[int] = set()
    for at in np.lexsort((pairs[:, 1], pairs[:, 0], -votes)).tolist():
        label, channel = pairs[at].tolist()
        if number[label] < 0 and channel not in taken:
            number[label] = channel
            taken.add(channel)
    opened = np.flatnonzero((number < 0) & (counts > 1))
    # In the order of their smallest member, so that it does not matter how groups were named.
    smallest = np.full(len(counts), np.iinfo(np.int64).max)
    np.minimum.at(smallest, labels, ids)
    opened = opened[np.argsort(smallest[opened])]
    number[opened] = free + np.arange(len(opened))
    channels[shared] = number[labels[shared]]
    return channels, free + len(opened)
