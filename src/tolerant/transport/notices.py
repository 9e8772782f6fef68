"""The rows of `notices.<template>`: one says to many subscribers what has become of their answers.

A row of MIN, MAX and DISTINCT concerns the ranges [x1, x2] in a rectangle: outer_low < x1 ≤ inner_low and inner_high ≤
x2 < outer_high. The new answer of MIN and MAX is the best of `value` and of the heights of those `points` that the
range has; of DISTINCT `value` has come, or is `gone`. For COUNT, SUM and AVG the change itself travels, the row before
and after it, and concerns the ranges that hold either.

`step` numbers the changes of the table, as in deliveries: a function of the log. No subscription is concerned by two
rows of one step, but for two values of DISTINCT. `at` is the change's event time, microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.transport.changes import ARROW

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

RECTANGLE = ("inner_low", "inner_high", "outer_low", "outer_high")
"""The columns that say whom a row of MIN, MAX or DISTINCT concerns."""

_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64())])
_WHEN = [("step", pa.int64()), ("at", pa.int64())]
_WHOM = [(name, pa.float64()) for name in RECTANGLE]


EXTREMES = pa.schema([*_WHEN, ("value", pa.float64()), *_WHOM, ("points", pa.list_(_POINT))])
"""Rows of MIN and MAX; an infinite `value`: no row is left."""


def values_schema(type_name: str) -> pa.Schema:
    """Rows of DISTINCT over a column of this SQL type."""
    return pa.schema([*_WHEN, ("value", ARROW[type_name]), *_WHOM, ("gone", pa.bool_())])


def totals_schema(type_name: str | None) -> pa.Schema:
    """Rows of SUM and AVG over a column of this SQL type, or of COUNT (None); null: there is no such row."""
    places = [("old_x", pa.float64()), ("new_x", pa.float64())]
    heights = [] if type_name is None else [("old_y", ARROW[type_name]), ("new_y", ARROW[type_name])]
    return pa.schema([*_WHEN, *places, *heights])


@dataclass(frozen=True, eq=False)
class Packed:
    """Messages of MIN or MAX as they travel: n of them.

    `change` int64[n]: which change each is of. `lines` float64[n, 5]: value and rectangle. `begins` int64[n + 1]: where
    the points of each begin in `points` float64[p, 2], place and height.
    """

    change: Integers
    lines: Floats
    begins: Integers
    points: Floats

    def take(self, which: NDArray[np.bool_]) -> Packed:
        """Those where the flags are true."""
        counts = np.diff(self.begins)
        kept = np.repeat(which, counts)
        begins = np.append(0, np.cumsum(counts[which]))
        return Packed(self.change[which], self.lines[which], begins, self.points[kept])


def extremes_batch(packed: Packed, steps: Integers, at: Integers) -> pa.RecordBatch:
    """Notices of MIN or MAX; `steps` and `at` of each change."""
    points = pa.StructArray.from_arrays(
        [pa.array(np.ascontiguousarray(column)) for column in packed.points.T.reshape(2, -1)], fields=list(_POINT)
    )
    lists = pa.ListArray.from_arrays(pa.array(packed.begins.astype(np.int32)), points, type=pa.list_(_POINT))
    arrays = [pa.array(steps[packed.change]), pa.array(at[packed.change]), *_columns(packed.lines), lists]
    return pa.record_batch(arrays, schema=EXTREMES)


def values_batch(
    type_name: str, steps: Integers, at: Integers, values: list[Any], rectangles: Floats, gone: list[bool]
) -> pa.RecordBatch:
    """Notices of DISTINCT, an entry of each argument a row; `rectangles` float64[n, 4]."""
    schema = values_schema(type_name)
    arrays = [pa.array(steps), pa.array(at), pa.array(values, ARROW[type_name]), *_columns(rectangles), pa.array(gone)]
    return pa.record_batch(arrays, schema=schema)


@dataclass(frozen=True, eq=False)
class RowChanges:
    """The changes of rows, one entry per row and transaction: n of them.

    `had`, `has` bool[n]: whether there was one before, and is one after. `old_x`, `new_x` float64[n] and `old_y`,
    `new_y` array[n] are of no account where there is none.
    """

    keys: NDArray[np.object_]
    at: Integers
    steps: Integers
    had: NDArray[np.bool_]
    has: NDArray[np.bool_]
    old_x: Floats
    new_x: Floats
    old_y: NDArray[Any]
    new_y: NDArray[Any]

    def __len__(self) -> int:
        return len(self.keys)

    def take(self, which: NDArray[Any]) -> RowChanges:
        """Those at these indices, or where the flags are true."""
        return RowChanges(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


def totals_batch(type_name: str | None, changes: RowChanges) -> pa.RecordBatch:
    """Notices of COUNT, SUM or AVG: the changes as they are."""
    arrays = [pa.array(changes.steps), pa.array(changes.at)]
    arrays += [pa.array(changes.old_x, mask=~changes.had), pa.array(changes.new_x, mask=~changes.has)]
    if type_name is not None:
        arrow = ARROW[type_name]
        arrays += [pa.array(changes.old_y, arrow, mask=~changes.had), pa.array(changes.new_y, arrow, mask=~changes.has)]
    return pa.record_batch(arrays, schema=totals_schema(type_name))


def _columns(lines: Floats) -> list[pa.Array]:
    return [pa.array(column) for column in np.ascontiguousarray(lines.T)]
