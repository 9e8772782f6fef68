"""The parameters of the subscriptions to a template, as arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.integers import IntegerMap
from tolerant.kernels.snapshots import State
from tolerant.relations.row_changes import DTYPES

_ID = "id"
_SMALLEST = 16


class SubscriptionTable:
    """Ids and parameters of subscriptions: one array for the ids and one per parameter.

    `parameters`: name → SQL type. Adding and removing is O(1) amortised each; a number takes 8 bytes, an id 8 and at
    most 32 in the index.

    >>> ranges = SubscriptionTable({"low": "DOUBLE", "high": "DOUBLE"})
    >>> ranges.add_many(np.array([5, 6]), {"low": np.array([20.0, 0.0]), "high": np.array([60.0, 1.0])}).tolist()
    [True, True]
    >>> ranges.remove_many(np.array([5])).tolist(), ranges.ids().tolist(), ranges.columns()["high"].tolist()
    ([True], [6], [1.0])
    """

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = dict(parameters)
        self._size = 0
        self._slots = IntegerMap()
        self._arrays: dict[str, NDArray[Any]] = {_ID: np.zeros(_SMALLEST, np.int64)}
        for name, type_name in self.parameters.items():
            self._arrays[f"parameter.{name}"] = np.zeros(_SMALLEST, DTYPES[type_name])

    def __len__(self) -> int:
        return self._size

    def ids(self) -> NDArray[np.int64]:
        """Return all ids, int64[n], in the order of `columns`."""
        return self._arrays[_ID][: self._size].copy()

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return all parameters: name → array[n]."""
        return {name: self._arrays[f"parameter.{name}"][: self._size].copy() for name in self.parameters}

    def of(self, ids: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the parameters of these subscriptions.

        Raises:
            KeyError: an id has no subscription.
        """
        slots = self._slots.get_many(ids)
        if (slots < 0).any():
            raise KeyError(int(ids[slots < 0][0]))
        return {name: self._arrays[f"parameter.{name}"][slots] for name in self.parameters}

    def add_many(self, ids: NDArray[np.int64], parameters: Mapping[str, NDArray[Any]]) -> NDArray[np.bool_]:
        """Add subscriptions and return which ids were new; existing ones are not changed."""
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
            self._arrays[name][start : self._size] = values[chosen]
        return added

    def holds(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of the ids exist."""
        exists: NDArray[np.bool_] = self._slots.get_many(ids) >= 0
        return exists

    def put(self, name: str, ids: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Set a parameter of these subscriptions, which must exist, to other values."""
        self._arrays[f"parameter.{name}"][self._slots.get_many(ids)] = values

    def remove_many(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Remove subscriptions and return which of the ids existed (of a repeated id, the first)."""
        slots = self._slots.pop_many(ids)
        there = slots >= 0
        gone = np.sort(slots[there])
        size = self._size - len(gone)
        staying = np.ones(len(gone), np.bool_)
        staying[gone[gone >= size] - size] = False
        movers, gaps = size + np.flatnonzero(staying), gone[gone < size]
        for array in self._arrays.values():
            array[gaps] = array[movers]
            array[size : self._size] = 0  # an unused place keeps no object alive
        moved = self._arrays[_ID][gaps]
        self._slots.pop_many(moved)
        self._slots.put_many(moved, gaps)
        self._size = size
        return there

    def state(self) -> State:
        """Return ids and parameters, for a snapshot."""
        return State(ids=self.ids(), parameters=State(self.columns()))

    @classmethod
    def load(cls, parameters: Mapping[str, str], state: State) -> SubscriptionTable:
        """Restore the table from what `state` returned; it behaves as the original."""
        restored, (ids, columns) = cls(parameters), state.exactly("ids", "parameters")
        restored.add_many(ids, dict(zip(parameters, columns.exactly(*parameters), strict=True)))
        return restored

    def _make_room(self, name: str) -> None:
        array = self._arrays[name]
        if self._size > len(array):
            larger = np.zeros(2 * self._size, array.dtype)
            larger[: len(array)] = array
            self._arrays[name] = larger
