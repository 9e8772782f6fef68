"""A hash map from integers to integers, for millions of entries: array storage, batched operations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import mixed

_EMPTY = -1
_SMALLEST = 64


class IntegerMap:
    """int64 → int64 ≥ 0, by open addressing; O(1) amortised per key, about 32 bytes per entry at most.

    >>> places = IntegerMap()
    >>> places.put_many(np.array([70, 80, 70]), np.array([0, 1, 2])).tolist()
    [True, True, False]
    >>> places.get_many(np.array([80, 90, 70])).tolist()
    [1, -1, 0]
    """

    def __init__(self) -> None:
        self._keys = np.zeros(_SMALLEST, np.int64)
        self._values = np.full(_SMALLEST, _EMPTY, np.int64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put_many(self, keys: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add each new key with its value; returns which keys were added. An existing key keeps its value."""
        self._make_room(len(keys))
        added = _put(self._keys, self._values, _whole(keys), _whole(values))
        self._size += int(np.count_nonzero(added))
        return added

    def get_many(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of these keys; −1 for a missing key."""
        return _get(self._keys, self._values, _whole(keys))

    def pop_many(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Remove these keys and return their values; −1 for a missing key, or one that occurred before in `keys`."""
        values = _pop(self._keys, self._values, _whole(keys))
        self._size -= int(np.count_nonzero(values != _EMPTY))
        return values

    def _make_room(self, more: int) -> None:
        needed = 2 * (self._size + more)
        if needed <= len(self._keys):
            return
        used = self._values != _EMPTY
        keys, values = self._keys[used], self._values[used]
        capacity = 1 << (needed - 1).bit_length()
        self._keys = np.zeros(capacity, np.int64)
        self._values = np.full(capacity, _EMPTY, np.int64)
        _put(self._keys, self._values, keys, values)


def _whole(array: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(array, np.int64)


@compiled
def _preferred(key: int, mask: int) -> int:
    """The preferred slot of a key."""
    return int(np.int64(mixed(np.uint64(key)) & np.uint64(mask)))


@compiled
def _find(table: NDArray[np.int64], values: NDArray[np.int64], key: int) -> int:
    """The slot of a key, or the empty slot for it."""
    mask = len(table) - 1
    slot = _preferred(key, mask)
    while values[slot] != -1 and table[slot] != key:
        slot = (slot + 1) & mask
    return slot


@compiled
def _put(
    table: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64], new_values: NDArray[np.int64]
) -> NDArray[np.bool_]:
    added = np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        slot = _find(table, values, keys[i])
        if values[slot] == -1:
            table[slot] = keys[i]
            values[slot] = new_values[i]
            added[i] = True
    return added


@compiled
def _get(table: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    result = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        result[i] = values[_find(table, values, keys[i])]
    return result


@compiled
def _pop(table: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    mask = len(table) - 1
    result = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        slot = _find(table, values, keys[i])
        result[i] = values[slot]
        if values[slot] == -1:
            continue
        # Close the gap: entries displaced by the removed one move back towards their preferred slot.
        gap, other = slot, (slot + 1) & mask
        while values[other] != -1:
            if ((other - _preferred(table[other], mask)) & mask) >= ((other - gap) & mask):
                table[gap] = table[other]
                values[gap] = values[other]
                gap = other
            other = (other + 1) & mask
        values[gap] = -1
    return result
