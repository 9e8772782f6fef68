"""Keeps a view's groups: counts, sums and extremes of each, so that rows can be removed as well as added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Key = tuple[Any, ...]
Columns = Mapping[str, Sequence[Any]]
"""Rows as columns, named as in the delta and full SQL of `tolerant.sql.view_select`."""

_NAN = float("nan")


def group_key(values: Iterable[Any]) -> Key:
    """Return the key of the group with these values, under which all NaN are one, as they are to Spark.

    >>> group_key([1, float("nan")]) == group_key([1, float("nan")])
    True
    """
    # A tuple takes values that are the same object for equal; two NaN are not equal otherwise.
    return tuple(_NAN if isinstance(value, float) and math.isnan(value) else value for value in values)


@dataclass
class ViewGroup:
    """`rows` of the join; of each argument how many are not null and their sum; of each MIN and MAX the value."""

    rows: int
    counts: list[int]
    sums: list[Any]
    extremes: list[Any]


def _added(total: Any, change: Any) -> Any:
    """The sum of two numbers: whole ones have 64 bits, as those of an engine, and go round."""
    added = total + change
    return (added + 2**63) % 2**64 - 2**63 if isinstance(added, int) else added


class ViewGroups:
    """The groups of a view, updated by changes.

    A group is removed when it has no rows left, unless all rows are one group (`everything`). Counts do not determine
    an extreme that was, or may have been, removed: such groups are *stale* until `replace` sets them. So are groups
    whose sums are not finite, which no later change would correct.

    >>> groups = ViewGroups(keys=1, summed=(0,), arguments=1, extremes=(("min", 0),))
    >>> added = {"k0": ["a"], "n": [2], "c0": [2], "s0": [7.0], "i0": [3.0], "o0": [None]}
    >>> groups.merge(added), groups.by_key["a",].extremes
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
        self.by_key: dict[Key, ViewGroup] = {}
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        self.by_key = {(): self._empty()} if self._everything else {}

    def merge(self, delta: Columns) -> tuple[list[Key], list[Key]]:
        """Apply a delta to the groups; return the keys of those touched, and of those that are now stale."""
        touched, stale = [], []
        for key, row in self._rows(delta):
            group = self.by_key.get(key) or self._empty()
            group.rows += row["n"] or 0
            for argument in range(self._arguments):
                group.counts[argument] += row[f"c{argument}"] or 0
            for argument in self._summed:
                change = row[f"s{argument}"]
                group.sums[argument] = 0 if group.counts[argument] == 0 else _added(group.sums[argument], change or 0)
            unsure = [self._merge_extreme(group, index, row) for index in range(len(self._extremes))]
            self._keep(key, group)
            touched.append(key)
            if key in self.by_key and (any(unsure) or not all(map(math.isfinite, group.sums))):
                stale.append(key)
        return touched, stale

    def replace(self, keys: Iterable[Key], full: Columns) -> None:
        """Replace these groups by the rows of the full SQL; remove those that it lacks."""
        for key in keys:
            self.by_key.pop(key, None)
        self.clear() if self._everything else None
        for key, row in self._rows(full):
            counts = [row[f"c{argument}"] or 0 for argument in range(self._arguments)]
            sums = [(row[f"s{i}"] or 0) if i in self._summed else 0 for i in range(self._arguments)]
            extremes = [row[f"e{index}"] for index in range(len(self._extremes))]
            self._keep(key, ViewGroup(row["n"] or 0, counts, sums, extremes))

    def value(self, key: Key, kind: str, index: int) -> Any:
        """Return the value of a view's column for a group: its kind and index are those of
        `tolerant.sql.view_select.Part`.
        """
        group = self.by_key[key]
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
            yield group_key(row[f"k{index}"] for index in range(self._keys)), row

    def _merge_extreme(self, group: ViewGroup, index: int, row: Mapping[str, Any]) -> bool:
        """Return whether the extreme is unknown: a removed value is as extreme as the one kept."""
        fn, argument = self._extremes[index]
        if group.counts[argument] == 0:
            group.extremes[index] = None
            return False
        choose = min if fn == "min" else max
        came, went = row[f"i{index}"], row[f"o{index}"]
        known = [value for value in (group.extremes[index], came) if value is not None]
        group.extremes[index] = choose(known) if known else None
        return went is not None and (not known or choose(went, group.extremes[index]) == went)

    def _keep(self, key: Key, group: ViewGroup) -> None:
        if group.rows or self._everything:
            self.by_key[key] = group
        else:
            self.by_key.pop(key, None)

    def _empty(self) -> ViewGroup:
        return ViewGroup(0, [0] * self._arguments, [0] * self._arguments, [None] * len(self._extremes))
