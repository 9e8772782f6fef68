"""Assigns each id of a row or subscription a dense number, its slot."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.notifications.range_arguments import Integers


class Identifiers:
    """Slots of hashable ids; slots of removed ids are reused.

    >>> known = Identifiers()
    >>> known.add("a"), known.add("b"), known.remove("a"), known.add("c")
    (0, 1, 0, 0)
    """

    def __init__(self) -> None:
        self._slots: dict[Hashable, int] = {}
        self._ids: list[Hashable] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._slots)

    def room(self) -> int:
        """Return how many slots have been given, including those that are free again."""
        return len(self._ids)

    def slot(self, id: Hashable) -> int | None:
        """Return the slot of an id, None if it is unknown."""
        return self._slots.get(id)

    def add(self, id: Hashable) -> int:
        """Return the slot of a new id."""
        _refuse_nan([id])
        if self._free:
            slot = self._free.pop()
            self._ids[slot] = id
        else:
            slot = len(self._ids)
            self._ids.append(id)
        self._slots[id] = slot
        return slot

    def add_many(self, ids: Sequence[Hashable]) -> Integers:
        """Return the slots of new ids, which must differ."""
        _refuse_nan(ids)
        if self._free:
            return np.fromiter(map(self.add, ids), np.int64, len(ids))
        begin = len(self._ids)
        self._ids += ids
        self._slots.update(zip(ids, range(begin, len(self._ids)), strict=True))
        return np.arange(begin, len(self._ids))

    def remove(self, id: Hashable) -> int:
        """Remove a known id; return its slot."""
        slot = self._slots.pop(id)
        self._ids[slot] = None
        self._free.append(slot)
        return slot

    def slots(self, ids: Sequence[Hashable]) -> Integers:
        """Return the slots of many ids; −1 where one is unknown."""
        return np.fromiter(map(self._slots.get, ids, repeat(-1)), np.int64, len(ids))

    def slots_or_new(self, ids: Sequence[Hashable]) -> Integers:
        """Return the slots of many ids; unknown ids are added."""
        slots = self.slots(ids)
        new = np.flatnonzero(slots < 0).tolist()
        _refuse_nan(ids[at] for at in new)
        for at in new:
            slot = self._slots.get(ids[at])
            slots[at] = self.add(ids[at]) if slot is None else slot
        return slots

    def load(self, ids: Sequence[Hashable]) -> None:
        """Start with these ids, in slots 0, 1, …"""
        _refuse_nan(ids)
        slots = dict(zip(ids, range(len(ids)), strict=True))
        if len(slots) != len(ids):
            seen: set[Hashable] = set()
            twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
            raise ValueError(f"ids must differ, got {twice!r} twice")
        self._slots, self._ids, self._free = slots, list(ids), []

    def all(self) -> tuple[list[Hashable], Integers]:
        """Return all ids and their slots."""
        return list(self._slots), np.fromiter(self._slots.values(), np.int64, len(self._slots))


def _refuse_nan(ids: Iterable[Hashable]) -> None:
    if any(id != id for id in ids):
        raise ValueError("id must equal itself, got NaN")


def listed(ids: Any) -> list[Hashable]:
    """Return ids given as an array or any sequence, as plain Python values."""
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def id_array(ids: Iterable[Hashable]) -> NDArray[Any]:
    """Return ids as int64[n] if all of them are such integers, otherwise as objects."""
    ids = list(ids)
    if all(type(id) is int for id in ids):
        try:
            return np.array(ids, np.int64)
        except OverflowError:
            pass
    array = np.empty(len(ids), object)
    array[:] = ids
    return array
