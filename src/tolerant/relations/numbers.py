"""Numbers for a table's rows: what an index of rows calls them, while each is there as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.relations.changes import Changes

Integers = NDArray[np.int64]


class RowNumbers:
    """A small number for each row that there is. A row that is replaced has another number afterwards; a number is
    free again once `settle` was called after its row has gone, so that both rows of a replacement can be spoken of.

    The numbers are a function of the changes and of when `settle` was called.

    >>> numbers = RowNumbers()
    >>> who, at = np.zeros(3, np.int32), np.array([1, 2, 2])
    >>> keys = np.array(["a", "a", "a"], object)
    >>> effects = Changes(np.array([True, False, True]), keys, at, who, ("shop",), np.arange(1, 4), {})
    >>> numbers.take(effects).tolist(), numbers.of(keys[:1]).tolist(), numbers.keys(np.array([1])).tolist()
    ([0, 0, 1], [1], ['a'])
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self._key: list[str] = []  # by number
        self._free: list[int] = []
        self._going: list[int] = []

    def __len__(self) -> int:
        return len(self._number)

    def take(self, effects: Changes) -> Integers:
        """The numbers of the rows that these changes are about, int64[n]: what `Relation.apply` gave, in order."""
        found = np.empty(len(effects), np.int64)
        for index, (insert, key) in enumerate(zip(effects.insert.tolist(), effects.keys.tolist(), strict=True)):
            if insert:
                found[index] = self._number[key] = self._new(key)
            else:
                found[index] = self._number.pop(key)
                self._going.append(int(found[index]))
        return found

    def settle(self) -> None:
        """Nobody speaks of rows that have gone any more."""
        for number in self._going:
            self._key[number] = ""
        self._free += self._going
        self._going = []

    def of(self, keys: NDArray[np.object_]) -> Integers:
        """The numbers of the rows with these keys, which are there."""
        return np.fromiter(map(self._number.__getitem__, keys.tolist()), np.int64, len(keys))

    def keys(self, numbers: Integers) -> NDArray[np.object_]:
        """The keys of the rows with these numbers, which are there or have gone since `settle`."""
        found = np.empty(len(numbers), object)
        found[:] = [self._key[number] for number in numbers.tolist()]
        return found

    def state(self, keys: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for rows in the order of these keys; all has been settled."""
        return {"numbers": self.of(keys), "free": np.array(self._free, np.int64)}

    @classmethod
    def load(cls, keys: NDArray[np.object_], arrays: Mapping[str, NDArray[Any]]) -> RowNumbers:
        """What `state` was taken of."""
        made, numbers = cls(), arrays["numbers"].tolist()
        made._free = arrays["free"].tolist()
        made._key = [""] * (len(numbers) + len(made._free))
        made._number = dict(zip(keys.tolist(), numbers, strict=True))
        for key, number in made._number.items():
            made._key[number] = key
        return made

    def _new(self, key: str) -> int:
        if self._free:
            number = self._free.pop()
            self._key[number] = key
            return number
        self._key.append(key)
        return len(self._key) - 1
