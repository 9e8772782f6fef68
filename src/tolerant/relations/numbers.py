"""Small numbers for the rows of a table, by which an index refers to them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.relations.row_changes import Changes

Integers = NDArray[np.int64]


class RowNumbers:
    """Assigns a small number to each row of a table.

    A row that is replaced gets another number. A number is reused only after `settle` was called after the deletion of
    its row, so that both rows of a replacement can be referred to until then. The numbers are a function of the changes
    and of when `settle` was called.

    >>> numbers = RowNumbers()
    >>> source, at = np.zeros(3, np.int32), np.array([1, 2, 2])
    >>> keys = np.array(["a", "a", "a"], object)
    >>> effects = Changes(np.array([True, False, True]), keys, at, source, ("shop",), np.arange(1, 4), {})
    >>> numbers.apply(effects).tolist(), numbers.of(keys[:1]).tolist(), numbers.keys(np.array([1])).tolist()
    ([0, 0, 1], [1], ['a'])
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._key: list[str] = []  # by number
        self._free: list[int] = []
        self._deleted: list[int] = []

    def __len__(self) -> int:
        return len(self._number)

    def apply(self, effects: Changes) -> Integers:
        """Apply effects that `Relation.apply` returned; the number of the row of each, int64[n]."""
        numbers = np.empty(len(effects), np.int64)
        for index, (insert, key) in enumerate(zip(effects.insert.tolist(), effects.keys.tolist(), strict=True)):
            if insert:
                numbers[index] = self._number[key] = self._new(key)
            else:
                numbers[index] = self._number.pop(key)
                self._deleted.append(int(numbers[index]))
        return numbers

    def settle(self) -> None:
        """Free the numbers of deleted rows: no caller refers to them any more."""
        for number in self._deleted:
            self._key[number] = ""
        self._free += self._deleted
        self._deleted = []

    def of(self, keys: NDArray[np.object_]) -> Integers:
        """Return the numbers of the rows with these keys, which must exist."""
        return np.fromiter(map(self._number.__getitem__, keys.tolist()), np.int64, len(keys))

    def keys(self, numbers: Integers) -> NDArray[np.object_]:
        """Return the keys of the rows with these numbers, which exist or were deleted since `settle`."""
        texts = np.empty(len(numbers), object)
        texts[:] = [self._key[number] for number in numbers.tolist()]
        return texts

    def state(self, keys: NDArray[np.object_]) -> State:
        """Return the numbers of rows in the order of these keys, for a snapshot; `settle` must have been called."""
        return State(numbers=self.of(keys), free=np.array(self._free, np.int64))

    @classmethod
    def load(cls, keys: NDArray[np.object_], state: State) -> RowNumbers:
        """Restore the numbers from what `state` returned."""
        restored, (numbers, free) = cls(), state.exactly("numbers", "free")
        restored._free = free.tolist()
        restored._key = [""] * (len(numbers) + len(free))
        restored._number = dict(zip(keys.tolist(), numbers.tolist(), strict=True))
        for key, number in restored._number.items():
            restored._key[number] = key
        return restored

    def _new(self, key: str) -> int:
        if self._free:
            number = self._free.pop()
            self._key[number] = key
            return number
        self._key.append(key)
        return len(self._key) - 1
