"""The stored rows: sorted by (b, c, id) in flat arrays, found by id through a second order; 28 bytes a row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.arrays import Floats, Integers, Places
from tolerant.joins.bisection import START, first_at_least
from tolerant.kernels.compiled import borrowing, compiled


class Sorted(NamedTuple):
    """Rows in order: of two with equal b the one of smaller c, then of smaller id, comes first."""

    b: Floats
    c: Floats
    id: Integers


class Rows:
    """Rows (b, c) by id. Changes wait until the order is asked for, and are then merged into it: O(m), no sort of all.

    A band join has no c: it is 0 everywhere.
    """

    def __init__(self) -> None:
        self._b, self._c = np.zeros(0), np.zeros(0)
        self._id = np.zeros(0, np.int64)
        self._by_id = np.zeros(0, np.int32)  # places in the order, by increasing id
        self._size = 0
        self._new: dict[int, tuple[float, float]] = {}
        self._gone: dict[int, int] = {}  # id → its place

    def __len__(self) -> int:
        return self._size - len(self._gone) + len(self._new)

    def __contains__(self, row: int) -> bool:
        return row in self._new or (row not in self._gone and self._place(row) >= 0)

    def insert(self, row: int, b: float, c: float = 0.0) -> None:
        """Add a row; its values were checked before."""
        row = checks.identifier("row", row)
        if row in self:
            raise ValueError(f"row must be new, got {row}, which is there already")
        self._new[row] = (b, c)

    def delete(self, row: int) -> None:
        """Take a row away."""
        row = checks.identifier("row", row)
        if row in self._new:
            del self._new[row]
            return
        place = -1 if row in self._gone else self._place(row)
        if place < 0:
            raise ValueError(f"row must be there, got {row}, which is not")
        self._gone[row] = place

    def insert_many(self, rows: ArrayLike, b: Floats, c: Floats) -> None:
        """Add rows, all or none."""
        ids = checks.integers("rows", rows)
        self.order()
        checks.new_ids("rows", ids, ids[self._places(ids) >= 0])
        self._merge(ids, b, c)

    def delete_many(self, rows: ArrayLike) -> None:
        """Take rows away, all or none."""
        ids = checks.integers("rows", rows)
        self.order()
        self._drop(self.places_of(ids))

    def places_of(self, ids: Integers) -> Integers:
        """Where these rows stand in the order.

        Raises:
            ValueError: one of them is not there, or stands twice.
        """
        self.order()
        places = self._places(ids)
        if (places < 0).any():
            raise ValueError(f"rows must be there, got {int(ids[places < 0][0])}, which is not")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("rows must be different, got one twice")
        return places

    def order(self) -> Sorted:
        """The rows in order; views that the next change makes invalid."""
        if self._gone:
            self._drop(np.fromiter(self._gone.values(), np.int64, len(self._gone)))
            self._gone.clear()
        if self._new:
            ids = np.fromiter(self._new, np.int64, len(self._new))
            values = np.array(list(self._new.values()))
            self._new.clear()
            self._merge(ids, values[:, 0], values[:, 1])
        size = self._size
        return Sorted(self._b[:size], self._c[:size], self._id[:size])

    def bytes(self) -> int:
        """What the arrays take."""
        return self._b.nbytes + self._c.nbytes + self._id.nbytes + self._by_id.nbytes

    def _place(self, row: int) -> int:
        return int(_place_of(self._id, self._by_id, self._size, row))

    def _places(self, ids: Integers) -> Integers:
        return _places_of(self._id, self._by_id, self._size, ids)

    def _merge(self, ids: Integers, b: Floats, c: Floats) -> None:
        self._make_room(len(ids))
        by_id = np.argsort(ids)
        if len(ids) == 1:
            order = np.zeros(1, np.int64)
        else:
            order = np.lexsort((ids, c, b))
        _insert(
            Sorted(self._b, self._c, self._id), self._by_id, self._size,
            Sorted(b[order], c[order], ids[order]), ids[by_id], np.argsort(order)[by_id],
        )  # fmt: skip
        self._size += len(ids)

    def _drop(self, places: Integers) -> None:
        places = np.sort(places)
        _delete(Sorted(self._b, self._c, self._id), self._by_id, self._size, places)
        self._size -= len(places)

    def _make_room(self, more: int) -> None:
        needed = self._size + more
        if needed <= len(self._b):
            return
        # Room for an eighth more: a row added alone then costs no new arrays, and a row stays below 32 bytes.
        room = needed if not self._size else needed + needed // 8
        for name in ("_b", "_c", "_id", "_by_id"):
            held = getattr(self, name)
            larger = np.zeros(room, held.dtype)
            larger[: self._size] = held[: self._size]
            setattr(self, name, larger)


@borrowing
def slice_of(b: Floats, value: float) -> tuple[int, int]:
    """Where the rows whose b equals the value (exactly; −0.0 = 0.0) begin and end."""
    size = len(b)
    start = first_at_least(b, START, size, 0.0, value)
    if start == size or b[start] != value:
        return start, start
    step, at = 1, start
    stop = start
    while at < size and b[at] == value:
        stop = at + 1
        at += step
        step <<= 1
    at = min(at, size)
    while stop < at:
        middle = (stop + at) >> 1
        if b[middle] == value:
            stop = middle + 1
        else:
            at = middle
    return start, stop


@borrowing
def _place_of(ids: Integers, by_id: Places, size: int, row: int) -> int:
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if ids[by_id[middle]] < row:
            low = middle + 1
        else:
            high = middle
    if low < size and ids[by_id[low]] == row:
        return int(by_id[low])
    return -1


@compiled
def _places_of(ids: Integers, by_id: Places, size: int, rows: Integers) -> Integers:
    found = np.empty(len(rows), np.int64)
    for k in range(len(rows)):
        found[k] = _place_of(ids, by_id, size, rows[k])
    return found


@borrowing
def _before(held: Sorted, i: int, new: Sorted, j: int) -> bool:
    """Whether held row i comes before new row j."""
    if held.b[i] != new.b[j]:
        return held.b[i] < new.b[j]
    if held.c[i] != new.c[j]:
        return held.c[i] < new.c[j]
    return held.id[i] < new.id[j]


@compiled
def _insert(held: Sorted, by_id: Places, size: int, new: Sorted, ids: Integers, rank: Integers) -> None:
    """Merge sorted new rows into the arrays from behind, in place; `ids`: the new ones sorted, `rank`: their place
    among the new.
    """
    count = len(ids)
    before = np.empty(count, np.int64)  # how many held rows come before each new one
    i, at = size - 1, size + count - 1
    for j in range(count - 1, -1, -1):
        low, high = 0, i + 1
        while low < high:
            middle = (low + high) >> 1
            if _before(held, middle, new, j):
                low = middle + 1
            else:
                high = middle
        before[j] = low
        while i >= low:
            held.b[at], held.c[at], held.id[at] = held.b[i], held.c[i], held.id[i]
            i -= 1
            at -= 1
        held.b[at], held.c[at], held.id[at] = new.b[j], new.c[j], new.id[j]
        at -= 1
    _shift(by_id, size, before)
    # The order by id, merged from behind too.
    i, at = size - 1, size + count - 1
    for j in range(count - 1, -1, -1):
        while i >= 0 and held.id[by_id[i]] > ids[j]:
            by_id[at] = by_id[i]
            i -= 1
            at -= 1
        by_id[at] = before[rank[j]] + rank[j]
        at -= 1


@compiled
def _shift(by_id: Places, size: int, before: Integers) -> None:
    """Add to each place how many new rows stand before it."""
    count = len(before)
    if count == 1:
        first = before[0]
        for k in range(size):
            if by_id[k] >= first:
                by_id[k] += 1
        return
    moved = np.zeros(size + 1, np.int32)
    j = 0
    for i in range(size):
        while j < count and before[j] <= i:
            j += 1
        moved[i] = i + j
    for k in range(size):
        by_id[k] = moved[by_id[k]]


@compiled
def _delete(held: Sorted, by_id: Places, size: int, places: Integers) -> None:
    """Close the gaps at sorted `places`, in both orders."""
    count = len(places)
    if count == 0:
        return
    kept = 0
    if count == 1:
        gone = places[0]
        for k in range(size):
            place = by_id[k]
            if place != gone:
                by_id[kept] = place - 1 if place > gone else place
                kept += 1
    else:
        moved = np.empty(size, np.int32)
        j = 0
        for i in range(size):
            if j < count and places[j] == i:
                moved[i] = -1
                j += 1
            else:
                moved[i] = i - j
        for k in range(size):
            place = moved[by_id[k]]
            if place >= 0:
                by_id[kept] = place
                kept += 1
    j, at = 1, places[0]
    for i in range(places[0] + 1, size):
        if j < count and places[j] == i:
            j += 1
            continue
        held.b[at], held.c[at], held.id[at] = held.b[i], held.c[i], held.id[i]
        at += 1
