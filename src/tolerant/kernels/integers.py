"""A map from integers to integers for millions of them: arrays instead of objects, many at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import mixed

_EMPTY = -1
_SMALLEST = 64


class IntegerMap:
    """int64 → int64 ≥ 0, by open addressing; O(1) amortised each, about 32 bytes an entry at most.

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
        """Add each key that is not there yet, with its value; which ones were added. A key that is there keeps its
        value.
        """
        self._make_room(len(keys))
        added = _put(self._keys, self._values, _whole(keys), _whole(values))
        self._size += int(np.count_nonzero(added))
        return added

    def get_many(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of these keys; −1 where a key is not there."""
        return _get(self._keys, self._values, _whole(keys))

    def pop_many(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The values of these keys, which are taken out; −1 where a key is not there, or stood before in `keys`."""
        found = _pop(self._keys, self._values, _whole(keys))
        self._size -= int(np.count_nonzero(found != _EMPTY))
        return found

    def _make_room(self, more: int) -> None:
        needed = 2 * (self._size + more)
        if needed <= len(self._keys):
            return
        held = self._values != _EMPTY
        keys, values = self._keys[held], self._values[held]
        capacity = 1 << (needed - 1).bit_length()
        self._keys = np.zeros(capacity, np.int64)
        self._values = np.full(capacity, _EMPTY, np.int64)
        _put(self._keys, self._values, keys, values)


def _whole(array: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.ascontiguousarray(array, np.int64)


@compiled
def _home(key: int, mask: int) -> int:
    """Where a key would like to be."""
    return int(np.int64(mixed(np.uint64(key)) & np.uint64(mask)))


@compiled
def _find(held: NDArray[np.int64], values: NDArray[np.int64], key: int) -> int:
    """The place of the key, or the empty one where it would go."""
    mask = len(held) - 1
    place = _home(key, mask)
    while values[place] != -1 and held[place] != key:
        place = (place + 1) & mask
    return place


@compiled
def _put(
    held: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64], given: NDArray[np.int64]
) -> NDArray[np.bool_]:
    added = np.zeros(len(keys), np.bool_)
    for i in range(len(keys)):
        place = _find(held, values, keys[i])
        if values[place] == -1:
            held[place] = keys[i]
            values[place] = given[i]
            added[i] = True
    return added


@compiled
def _get(held: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        found[i] = values[_find(held, values, keys[i])]
    return found


@compiled
def _pop(held: NDArray[np.int64], values: NDArray[np.int64], keys: NDArray[np.int64]) -> NDArray[np.int64]:
    mask = len(held) - 1
    found = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        place = _find(held, values, keys[i])
        found[i] = values[place]
        if values[place] == -1:
            continue
        # Close the gap: whoever stands further along only because this place was taken moves up.
        gap, other = place, (place + 1) & mask
        while values[other] != -1:
            if ((other - _home(held[other], mask)) & mask) >= ((other - gap) & mask):
                held[gap] = held[other]
                values[gap] = values[other]
                gap = other
            other = (other + 1) & mask
        values[gap] = -1
    return found
