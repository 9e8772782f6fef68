"""The subscriptions to a template: their parameters, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.integers import IntegerMap
from tolerant.relations.changes import DTYPES
from tolerant.relations.texts import packed_texts, unpacked_texts

_ID = "id"
_SMALLEST = 16


class Subscriptions:
    """Ids and parameters of any number of subscriptions: an array for the ids and one for each parameter.

    `parameters`: name → SQL type. Adding and removing is O(1) amortised each; a number takes 8 bytes, an id 8 and its
    place in the index 32 at most.

    >>> held = Subscriptions({"low": "DOUBLE", "high": "DOUBLE"})
    >>> held.add_many(np.array([5, 6]), {"low": np.array([20.0, 0.0]), "high": np.array([60.0, 1.0])}).tolist()
    [True, True]
    >>> held.remove_many(np.array([5])).tolist(), held.ids().tolist(), held.columns()["high"].tolist()
    ([True], [6], [1.0])
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)
        self._size = 0
        self._slots = IntegerMap()
        self._held: dict[str, NDArray[Any]] = {_ID: np.zeros(_SMALLEST, np.int64)}
        for name, type_name in self.parameters.items():
            self._held[f"parameter.{name}"] = np.zeros(_SMALLEST, DTYPES[type_name])

    def __len__(self) -> int:
        return self._size

    def ids(self) -> NDArray[np.int64]:
        """All ids, int64[n], in the order of `columns`."""
        return self._held[_ID][: self._size].copy()

    def columns(self) -> dict[str, NDArray[Any]]:
        """All parameters: name → array[n]."""
        return {name: self._held[f"parameter.{name}"][: self._size].copy() for name in self.parameters}

    def of(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The parameters of these subscriptions.

        Raises:
            KeyError: there is no subscription of one of the ids.
        """
        slots = self._slots.get_many(ids)
        if (slots < 0).any():
            raise KeyError(int(ids[slots < 0][0]))
        return {name: self._held[f"parameter.{name}"][slots] for name in self.parameters}

    def add_many(self, ids: NDArray[np.int64], parameters: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Add subscriptions; which ids were new. Those that were there already stay as they are."""
        for name in self.parameters:
            if len(parameters[name]) != len(ids):
                raise ValueError(f"parameter {name!r} must be one for each of the {len(ids)} ids")
        new = self._slots.get_many(ids) < 0
        kept, first = np.unique(ids[new], return_index=True)
        chosen = np.flatnonzero(new)[np.sort(first)]
        added = np.zeros(len(ids), np.bool_)
        added[chosen] = True
        start, self._size = self._size, self._size + len(kept)
        self._slots.put_many(ids[chosen], np.arange(start, self._size))
        given = {_ID: ids, **{f"parameter.{name}": parameters[name] for name in self.parameters}}
        for name, values in given.items():
            self._make_room(name)
            self._held[name][start : self._size] = values[chosen]
        return added

    def holds(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the ids are there."""
        found: NDArray[np.bool_] = self._slots.get_many(ids) >= 0
        return found

    def put(self, name: str, ids: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Give a parameter of these subscriptions, which are there, other values."""
        self._held[f"parameter.{name}"][self._slots.get_many(ids)] = values

    def remove_many(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Remove subscriptions; which of the ids were there (of an id that stands twice, the first)."""
        slots = self._slots.pop_many(ids)
        there = slots >= 0
        gone = np.sort(slots[there])
        size = self._size - len(gone)
        staying = np.ones(len(gone), np.bool_)
        staying[gone[gone >= size] - size] = False
        movers, gaps = size + np.flatnonzero(staying), gone[gone < size]
        for held in self._held.values():
            held[gaps] = held[movers]
            held[size : self._size] = 0  # nothing is kept alive by an empty place
        moved = self._held[_ID][gaps]
        self._slots.pop_many(moved)
        self._slots.put_many(moved, gaps)
        self._size = size
        return there

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays, for `tolerant.kernels.snapshots.pack`."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, held in self._held.items():
            if held.dtype == object:
                arrays[name], arrays[f"{name}.lengths"] = packed_texts(held[: self._size])
            else:
                arrays[name] = held[: self._size].copy()
        return arrays

    @classmethod
    def load(cls, parameters: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> Subscriptions:
        """The subscriptions that `state` was taken of; they go on exactly as those."""
        found = cls(parameters)
        columns = {}
        for name, type_name in parameters.items():
            packed = arrays[f"parameter.{name}"]
            is_text = DTYPES[type_name] is object
            columns[name] = unpacked_texts(packed, arrays[f"parameter.{name}.lengths"]) if is_text else packed
        found.add_many(arrays[_ID], columns)
        return found

    def _make_room(self, name: str) -> None:
        held = self._held[name]
        if self._size > len(held):
            larger = np.zeros(2 * self._size, held.dtype)
            larger[: len(held)] = held
            self._held[name] = larger
