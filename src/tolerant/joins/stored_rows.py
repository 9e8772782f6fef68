"""The stored rows: sorted by (b, c, id) in flat arrays, with a second order by id for lookup; 28 bytes per row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.bisection import START, first_at_least
from tolerant.kernels.array_types import Floats, Integers, Places
from tolerant.kernels.compiled import compiled, compiled_no_refcount


class SortedRows(NamedTuple):
    """Rows in order of b, equal b in order of c, equal c in order of id."""

    b: Floats
    c: Floats
    id: Integers


class StoredRows:
    """Rows (b, c) by id. Changes are buffered until the order is needed, and are then merged into it: O(m), no sort of
    all rows.

    A band join has no c: it is 0 everywhere.
    """

    def __init__(self) -> None:
        self._b, self._c = np.zeros(0), np.zeros(0)
        self._id = np.zeros(0, np.int64)
        self._by_id = np.zeros(0, np.int32)  # places in the order, by increasing id
        self._size = 0
        self._new: dict[int, tuple[float, float]] = {}
        self._deleted: dict[int, int] = {}  # id → its place

    def __len__(self) -> int:
        return self._size - len(self._deleted) + len(self._new)

    def __contains__(self, row: int) -> bool:
        return row in self._new or (row not in self._deleted and self._place(row) >= 0)

    def insert(self, row: int, b: float, c: float = 0.0) -> None:
        """Add a row; its values were checked before."""
        row = checks.identifier("row", row)
        if row in self:
            raise ValueError(f"row must be new, got {row}, which is there already")
        self._new[row] = (b, c)

    def delete(self, row: int) -> None:
        """Delete a row."""
        row = checks.identifier("row", row)
        if row in self._new:
            del self._new[row]
            return
        place = -1 if row in self._deleted else self._place(row)
        if place < 0:
            raise ValueError(f"row must be there, got {row}, which is not")
        self._deleted[row] = place

    def insert_many(self, rows: ArrayLike, b: Floats, c: Floats) -> None:
        """Add rows, all or none."""
        ids = checks.integers("rows", rows)
        self.order()
        checks.new_ids("rows", ids, ids[self._places(ids) >= 0])
        self._merge(ids, b, c)

    def delete_many(self, rows: ArrayLike) -> None:
        """Delete rows, all or none."""
        ids = checks.integers("rows", rows)
        self.order()
        self._drop(self.places_of(ids))

    def places_of(self, ids: Integers) -> Integers:
        """Return the places of these rows in the order.

        Raises:
            ValueError: one of them does not exist, or occurs twice.
        """
        self.order()
        places = self._places(ids)
        if (places < 0).any():
            raise ValueError(f"rows must be there, got {int(ids[places < 0][0])}, which is not")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("rows must be different, got one twice")
        return places

    def order(self) -> SortedRows:
        """Return the rows in order, as views that the next change invalidates."""
        if self._deleted:
            self._drop(np.fromiter(self._deleted.values(), np.int64, len(self._deleted)))
            self._deleted.clear()
        if self._new:
            ids = np.fromiter(self._new, np.int64, len(self._new))
            values = np.array(list(self._new.values()))
            self._new.clear()
            self._merge(ids, values[:, 0], values[:, 1])
        size = self._size
        return SortedRows(self._b[:size], self._c[:size], self._id[:size])

    def bytes(self) -> int:
        """Return the size of the arrays."""
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
            SortedRows(self._b, self._c, self._id), self._by_id, self._size,
            SortedRows(b[order], c[order], ids[order]), ids[by_id], np.argsort(order)[by_id],
        )  # fmt: skip
        self._size += len(ids)

    def _drop(self, places: Integers) -> None:
        places = np.sort(places)
        _delete(SortedRows(self._b, self._c, self._id), self._by_id, self._size, places)
        self._size -= len(places)

    def _make_room(self, more: int) -> None:
        needed = self._size + more
        if needed <= len(self._b):
            return
        # Room for an eighth more: adding a single row then needs no new arrays, and a row stays below 32 bytes.
        room = needed if not self._size else needed + needed // 8
        for name in ("_b", "_c", "_id", "_by_id"):
            array = getattr(self, name)
            larger = np.zeros(room, array.dtype)
            larger[: self._size] = array[: self._size]
            setattr(self, name, larger)


@compiled_no_refcount
def slice_of(b: Floats, value: float) -> tuple[int, int]:
    """Return where the rows whose b equals the value (exactly; −0.0 = 0.0) begin and end."""
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


@compiled_no_refcount
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
    places = np.empty(len(rows), np.int64)
    for k in range(len(rows)):
        places[k] = _place_of(ids, by_id, size, rows[k])
    return places


@compiled_no_refcount
def _before(stored: SortedRows, i: int, new: SortedRows, j: int) -> bool:
    """Whether stored row i is ordered before new row j."""
    if stored.b[i] != new.b[j]:
        return stored.b[i] < new.b[j]
    if stored.c[i] != new.c[j]:
        return stored.c[i] < new.c[j]
    return stored.id[i] < new.id[j]


@compiled
def _insert(stored: SortedRows, by_id: Places, size: int, new: SortedRows, ids: Integers, rank: Integers) -> None:
    """Merge sorted new rows into the arrays from behind, in place.

    `ids` are the new ids, sorted; `rank` is the place of each among the new rows.
    """
    count = len(ids)
    before = np.empty(count, np.int64)  # how many stored rows come before each new one
    i, at = size - 1, size + count - 1
    for j in range(count - 1, -1, -1):
        low, high = 0, i + 1
        while low < high:
            middle = (low + high) >> 1
            if _before(stored, middle, new, j):
                low = middle + 1
            else:
                high = middle
        before[j] = low
        while i >= low:
            stored.b[at], stored.c[at], stored.id[at] = stored.b[i], stored.c[i], stored.id[i]
            i -= 1
            at -= 1
        stored.b[at], stored.c[at], stored.id[at] = new.b[j], new.c[j], new.id[j]
        at -= 1
    _shift(by_id, size, before)
    # Merge the order by id from behind, too.
    i, at = size - 1, size + count - 1
    for j in range(count - 1, -1, -1):
        while i >= 0 and stored.id[by_id[i]] > ids[j]:
            by_id[at] = by_id[i]
            i -= 1
            at -= 1
        by_id[at] = before[rank[j]] + rank[j]
        at -= 1


@compiled
def _shift(by_id: Places, size: int, before: Integers) -> None:
    """Add to each place the number of new rows before it."""
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
def _delete(stored: SortedRows, by_id: Places, size: int, places: Integers) -> None:
    """Close the gaps at sorted `places`, in both orders."""
    count = len(places)
    if count == 0:
        return
    kept = 0
    if count == 1:
        deleted = places[0]
        for k in range(size):
            place = by_id[k]
            if place != deleted:
                by_id[kept] = place - 1 if place > deleted else place
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
        stored.b[at], stored.c[at], stored.id[at] = stored.b[i], stored.c[i], stored.id[i]
        at += 1
