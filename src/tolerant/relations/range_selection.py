"""Range selection: which subscriptions a row matches, where each selects all rows in ranges of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled
from tolerant.kernels.integers import IntegerMap
from tolerant.relations.box_tree import BoxTree
from tolerant.relations.order import ordered, ordered_ends

End: TypeAlias = str | int | float
"""An end of a range: a number, or the name of a parameter."""

TAIL = 2048
"""Largest number of new subscriptions in the small tree that is rebuilt for each batch of them."""


@dataclass(frozen=True)
class ColumnRange:
    """`column BETWEEN low AND high`, both ends included; `type` is the column's SQL type, a numeric one."""

    column: str
    type: str
    low: End
    high: End


def exact_ends(ranges: Sequence[ColumnRange], size: int, parameters: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return the ends of `size` subscriptions, int64[size, 2d], lows before highs.

    A row is in the ranges of a subscription if and only if its `exact_places` are between these ends.
    """
    lows, highs = [], []
    for column in ranges:
        given = [
            np.asarray(parameters[end]) if isinstance(end, str) else np.full(size, end)
            for end in (column.low, column.high)
        ]
        if any(len(values) != size for values in given):
            raise ValueError(f"parameters of column {column.column!r} must be one for each of the {size} ids")
        low, high = ordered_ends(given[0], given[1], column.type)
        lows.append(low)
        highs.append(high)
    return np.stack([*lows, *highs], axis=1)


def exact_places(ranges: Sequence[ColumnRange], columns: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    """Return the places of rows, int64[m, d], comparable with `exact_ends`."""
    return np.stack([ordered(columns[part.column], part.type) for part in ranges], axis=1)


class RangeSelection:
    """Subscriptions to a template with a range on each of d columns (one or two); finds those that a row matches.

    Ids are integers; each subscription has its own ends. Comparisons are exact for every type. For n subscriptions:

    - `add_many`, `remove_many`: O(log² n) amortised each. New subscriptions are in a short tail at first, then in trees
      (`BoxTree`) that double in size, so that each is built into a tree O(log n) times; removed ones are marked, and
      cleared when they outnumber the rest.
    - `matching`: at worst O(n^(1 − 1/2d) + k) for a row that matches k subscriptions: √n for one column, n^¾ for two.
      Far less where ranges are short.
    - memory: about 8·(4d + 7) bytes per subscription, and as much again while subscriptions change.

    The result depends on which subscriptions exist, not on the order of their changes. So a snapshot need not contain
    any of this: it is rebuilt from the `SubscriptionTable`.

    >>> areas = RangeSelection([ColumnRange("x", "DOUBLE", "low", "high")])
    >>> _ = areas.add_many(np.array([7, 8]), {"low": np.array([0.0, 5.0]), "high": np.array([5.0, 9.0])})
    >>> rows, ids = areas.matching({"x": np.array([5.0, 7.5, 10.0])})
    >>> rows.tolist(), ids.tolist()
    ([0, 0, 1], [7, 8, 8])
    """

    def __init__(self, ranges: Sequence[ColumnRange]) -> None:
        if not ranges:
            raise ValueError("ranges must be one or more, got none")
        self.ranges = tuple(ranges)
        self._tail: BoxTree | None = None  # over the subscriptions that are in no other tree
        self._clear()

    def __len__(self) -> int:
        return len(self._entries)

    def add_many(self, ids: NDArray[np.int64], parameters: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Add subscriptions with an array per parameter, parallel to `ids`; returns which ids were new.

        Subscriptions that exist already are not changed.
        """
        ends = exact_ends(self.ranges, len(ids), parameters)
        first = self._used
        places = np.arange(first, first + len(ids))
        added = self._entries.put_many(ids, places)
        if not added.all():
            # Numbered again without gaps: an unused place would never be cleared.
            self._entries.pop_many(ids[added])
            ids, ends = ids[added], ends[added]
            self._entries.put_many(ids, places[: len(ids)])
        self._append(ids, ends)
        return added

    def remove_many(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Remove subscriptions; returns which of the ids existed."""
        places = self._entries.pop_many(ids)
        there = places >= 0
        self._alive[places[there]] = False
        if self._used > 2 * len(self) + TAIL:
            self._compact()
        return there

    def matching(self, columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For rows given as one array per column, return the pairs (row, id of a subscription that it matches),
        int64[k] each.

        Sorted by row, then by id.
        """
        points = exact_places(self.ranges, columns)
        parts = [tree.containing(points, self._alive) for tree in self._all_trees()]
        counts = np.zeros(len(points), np.int64)
        for rows, _ in parts:
            counts += np.bincount(rows, minlength=len(points))
        ids, ends = np.empty(counts.sum(), np.int64), np.cumsum(counts)
        free = ends - counts
        for rows, places in parts:
            _place(rows, self._ids[places], free, ids)
        _sort_each(ends, ids)
        return np.repeat(np.arange(len(points)), counts), ids

    def _all_trees(self) -> list[BoxTree]:
        """The trees, including that of the tail, which is built when it is first needed."""
        if self._tail is None and self._indexed < self._used:
            places = np.arange(self._indexed, self._used)
            self._tail = BoxTree.of(self._box[places], places)
        return self._trees if self._tail is None else [*self._trees, self._tail]

    def _clear(self) -> None:
        self._entries = IntegerMap()  # id → its place in the arrays
        self._ids = np.zeros(TAIL, np.int64)
        self._alive = np.zeros(TAIL, np.bool_)
        self._box = np.zeros((TAIL, 2 * len(self.ranges)), np.int64)
        self._used = 0  # places
        self._indexed = 0  # places in trees; the others are the tail
        self._trees: list[BoxTree] = []
        self._tail = None

    def _append(self, ids: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        start, end = self._used, self._used + len(ids)
        if end > len(self._ids):
            room = max(end, 2 * len(self._ids))
            self._ids = _enlarged(self._ids, room)
            self._alive = _enlarged(self._alive, room)
            self._box = _enlarged(self._box, room)
        self._ids[start:end], self._alive[start:end], self._box[start:end] = ids, True, ends
        self._used = end
        self._tail = None
        if end - self._indexed > TAIL:
            self._build_tree()

    def _build_tree(self) -> None:
        """Build a tree of the tail and of the trees that are not much larger."""
        places = [np.arange(self._indexed, self._used)]
        size = len(places[0])
        while self._trees and len(self._trees[-1]) <= 2 * size:
            places.append(self._trees.pop().entries)
            size += len(places[-1])
        chosen = np.concatenate(places)
        chosen = chosen[self._alive[chosen]]
        if len(chosen):
            self._trees.append(BoxTree.of(self._box[chosen], chosen))
        self._indexed = self._used

    def _compact(self) -> None:
        kept = np.flatnonzero(self._alive[: self._used])
        ids, box = self._ids[kept], self._box[kept]
        self._clear()
        self._entries.put_many(ids, np.arange(len(ids)))
        self._append(ids, box)


def _enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


@compiled
def _place(
    rows: NDArray[np.int64], matched: NDArray[np.int64], free: NDArray[np.int64], ids: NDArray[np.int64]
) -> None:
    """Write the ids matched by each row to the next free place of that row."""
    for i in range(len(rows)):
        ids[free[rows[i]]] = matched[i]
        free[rows[i]] += 1


@compiled
def _sort_each(ends: NDArray[np.int64], ids: NDArray[np.int64]) -> None:
    """Sort the ids of each row in place; `ends` are the ends of the rows' ids."""
    start = 0
    for end in ends:
        if end - start > 1:
            ids[start:end].sort()
        start = end
