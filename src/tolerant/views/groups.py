"""What a view holds: for each group counts, sums and extremes, so that rows can go as well as come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Key = tuple[Any, ...]
Columns = Mapping[str, Sequence[Any]]
"""Rows by the column, as the delta's and the full SQL of `tolerant.sql.viewing` name them."""


@dataclass
class Group:
    """`rows` of the join; of each argument how many are not null and their sum; of each MIN and MAX the value."""

    rows: int
    counts: list[int]
    sums: list[Any]
    extremes: list[Any]


class Groups:
    """The groups of a view, and what changes make of them.

    A group goes when it has no rows left, unless all rows are one group (`everything`). An extreme that went, or may
    have, cannot be known from counts: such groups are *stale* until `replace` says what they are. So are those whose
    sums are no finite numbers, which no later change would mend.

    >>> groups = Groups(keys=1, summed=(0,), arguments=1, extremes=(("min", 0),))
    >>> come = {"k0": ["a"], "n": [2], "c0": [2], "s0": [7.0], "i0": [3.0], "o0": [None]}
    >>> groups.merge(come), groups.held["a",].extremes
    (([('a',)], []), [3.0])
    >>> groups.merge({"k0": ["a"], "n": [-1], "c0": [-1], "s0": [-3.0], "i0": [None], "o0": [3.0]})[1]
    [('a',)]
    """

    def __init__(
        self,
        keys: int,
        arguments: int,
        summed: Sequence[int] = (),
        extremes: Sequence[tuple[Literal["min", "max"], int]] = (),
        *,
        everything: bool = False,
    ) -> None:
        self._keys, self._arguments, self._summed = keys, arguments, tuple(summed)
        self._extremes, self._everything = tuple(extremes), everything
        self.held: dict[Key, Group] = {}
        self.clear()

    def clear(self) -> None:
        """No rows at all."""
        self.held = {(): self._empty()} if self._everything else {}

    def merge(self, delta: Columns) -> tuple[list[Key], list[Key]]:
        """Take what changes did to the groups; the keys of those touched, and of those that are stale now."""
        touched, stale = [], []
        for key, row in self._rows(delta):
            group = self.held.get(key) or self._empty()
            group.rows += row["n"] or 0
            for argument in range(self._arguments):
                group.counts[argument] += row[f"c{argument}"] or 0
            for argument in self._summed:
                change = row[f"s{argument}"]
                group.sums[argument] = 0 if group.counts[argument] == 0 else group.sums[argument] + (change or 0)
            unsure = [self._take_extreme(group, index, row) for index in range(len(self._extremes))]
            self._keep(key, group)
            touched.append(key)
            if key in self.held and (any(unsure) or not all(map(math.isfinite, group.sums))):
                stale.append(key)
        return touched, stale

    def replace(self, keys: Iterable[Key], full: Columns) -> None:
        """Let these groups be what the full SQL says of them: none at all where it has no such group."""
        for key in keys:
            self.held.pop(key, None)
        self.clear() if self._everything else None
        for key, row in self._rows(full):
            counts = [row[f"c{argument}"] or 0 for argument in range(self._arguments)]
            sums = [(row[f"s{i}"] or 0) if i in self._summed else 0 for i in range(self._arguments)]
            extremes = [row[f"e{index}"] for index in range(len(self._extremes))]
            self._keep(key, Group(row["n"] or 0, counts, sums, extremes))

    def value(self, key: Key, kind: str, index: int) -> Any:
        """What a column of the view is for a group: its kind and index are those of `tolerant.sql.viewing.Part`."""
        group = self.held[key]
        match kind:
            case "key":
                return key[index]
            case "rows":
                return group.rows
            case "count":
                return group.counts[index]
        if group.counts[index] == 0:
            return None
        match kind:
            case "sum":
                return group.sums[index]
            case "avg":
                return group.sums[index] / group.counts[index]
            case _:
                return group.extremes[self._extremes.index((kind, index))]

    def _rows(self, columns: Columns) -> Iterable[tuple[Key, dict[str, Any]]]:
        names = list(columns)
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(names, values, strict=True))
            yield tuple(row[f"k{index}"] for index in range(self._keys)), row

    def _take_extreme(self, group: Group, index: int, row: Mapping[str, Any]) -> bool:
        """Whether the extreme cannot be told: what went is as extreme as what is left."""
        fn, argument = self._extremes[index]
        if group.counts[argument] == 0:
            group.extremes[index] = None
            return False
        choose = min if fn == "min" else max
        came, went = row[f"i{index}"], row[f"o{index}"]
        known = [value for value in (group.extremes[index], came) if value is not None]
        group.extremes[index] = choose(known) if known else None
        return went is not None and (not known or choose(went, group.extremes[index]) == went)

    def _keep(self, key: Key, group: Group) -> None:
        if group.rows or self._everything:
            self.held[key] = group
        else:
            self.held.pop(key, None)

    def _empty(self) -> Group:
        return Group(0, [0] * self._arguments, [0] * self._arguments, [None] * len(self._extremes))
