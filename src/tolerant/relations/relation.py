"""The current rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.versions import COUNTER_BITS, epoch_of
from tolerant.relations.changes import DTYPES, Changes, empty_columns
from tolerant.relations.texts import packed_texts, unpacked_texts
from tolerant.streams import Column

_KEY = "key"
_SMALLEST = 16


class Relation:
    """A table's rows, kept as one growing array a column, and what changes make of them.

    Changes with one `at` that stand next to each other are one transaction: what counts is how the rows were before
    it and how they are after it. An insert of a key that is there replaces the row. `apply` takes O(k log k) for k
    changes whatever the number of rows; memory goes with the rows that there are, not with those that there were.

    >>> from tolerant.streams import Column
    >>> stock = Relation((Column("id", "INT"), Column("price", "DOUBLE")))
    >>> row = {"id": np.array([7]), "price": np.array([2.5])}
    >>> who, keys = np.array([0], np.int32), np.array(["7"], object)
    >>> effect = stock.apply(Changes(np.array([True]), keys, np.array([1000]), who, ("shop",), np.array([1]), row))
    >>> len(effect), effect.row(0), len(stock)
    (1, {'id': 7, 'price': 2.5}, 1)

    Attributes:
        unknown: how many deletions named a row that was not there; they were ignored.
        duplicates: how many changes had been applied before, by their source and sequence; they were ignored.
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.definition = columns
        self.unknown = 0
        self.duplicates = 0
        self._size = 0
        self._columns = empty_columns(columns, _SMALLEST)
        self._keys: NDArray[np.object_] = np.empty(_SMALLEST, object)
        self._slots: dict[str, int] = {}
        # By source and epoch the newest sequence applied. Not by source alone: after a restart on a clock that went
        # back, rows of the new epoch may apply before rows of the old one.
        self._heard: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def keys(self) -> NDArray[np.object_]:
        """The key texts of all rows, in the order of `rows`."""
        return self._keys[: self._size].copy()

    def rows(self) -> dict[str, NDArray[Any]]:
        """All rows, an array a column; the order has no meaning, but the same changes give the same."""
        return {name: column[: self._size].copy() for name, column in self._columns.items()}

    def of(self, keys: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
        """The rows with these keys, which are there: an array a column."""
        slots = np.fromiter(map(self._slots.__getitem__, keys.tolist()), np.int64, len(keys))
        return {name: column[slots] for name, column in self._columns.items()}

    def apply(self, changes: Changes) -> Changes:
        """Apply the changes in their order; what they changed in effect.

        A row that was replaced gives a deletion of the old one and an insertion of the new one, next to each other; a
        transaction that leaves a row as it was gives nothing for it. What a source said in one epoch must come in the
        order of its sequences, over all calls; within a call the order does not matter for that.
        """
        changes = changes.take(self.unheard(changes))
        if not len(changes):
            return self._nothing(changes)
        slots, keys = self._find(changes.keys)
        steps = _Steps(changes, slots, self._size)
        self.unknown += steps.unknown
        effects = self._effects(changes, steps)
        self._write(changes, steps, keys)
        return effects

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        arrays: dict[str, NDArray[Any]] = {}
        texts = {_KEY: self._keys, **{f"column.{name}": column for name, column in self._columns.items()}}
        for name, array in texts.items():
            if array.dtype == object:
                arrays[name], arrays[f"{name}.lengths"] = packed_texts(array[: self._size])
            else:
                arrays[name] = array[: self._size].copy()
        heard = [[source, sequence] for (source, _), sequence in self._heard.items()]
        return arrays, {"heard": heard, "unknown": self.unknown, "duplicates": self.duplicates}

    @classmethod
    def load(
        cls, columns: tuple[Column, ...], arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]
    ) -> Relation:
        """The relation that `state` was taken of; it goes on exactly as that one."""
        relation = cls(columns)
        relation._keys = unpacked_texts(arrays[_KEY], arrays[f"{_KEY}.lengths"])
        relation._size = len(relation._keys)
        relation._slots = dict(zip(relation._keys.tolist(), range(relation._size), strict=True))
        for column in columns:
            name = f"column.{column.name}"
            is_text = DTYPES[column.type] is object
            held = unpacked_texts(arrays[name], arrays[f"{name}.lengths"]) if is_text else arrays[name].copy()
            relation._columns[column.name] = held
        relation._heard = {(source, epoch_of(sequence)): sequence for source, sequence in values["heard"]}
        relation.unknown, relation.duplicates = values["unknown"], values["duplicates"]
        return relation

    def unheard(self, changes: Changes) -> NDArray[np.int64]:
        """The indices of the changes that have not been applied before, nor stand twice among these; they have been
        heard then.
        """
        order = np.lexsort((changes.sequence, changes.source))  # stable: of equal ones the first stays the first
        source, sequence = changes.source[order], changes.sequence[order]
        epoch = sequence >> COUNTER_BITS
        new = np.ones(len(order), np.bool_)
        new[1:] = (source[1:] != source[:-1]) | (sequence[1:] != sequence[:-1])
        begins = np.append(True, (source[1:] != source[:-1]) | (epoch[1:] != epoch[:-1]))
        cuts = [*np.flatnonzero(begins[: len(order)]).tolist(), len(order)]
        for start, end in pairwise(cuts):
            who = changes.sources[source[start]], int(epoch[start])
            new[start:end] &= sequence[start:end] > self._heard.get(who, 0)
            self._heard[who] = max(self._heard.get(who, 0), int(sequence[end - 1]))
        self.duplicates += len(changes) - int(np.count_nonzero(new))
        return np.sort(order[new])

    def _find(self, keys: NDArray[np.object_]) -> tuple[NDArray[np.int64], list[str]]:
        """The slot of each key, and the keys that have none: they stand for the slots behind the last."""
        slots = np.fromiter(map(self._slots.get, keys.tolist(), repeat(-1)), np.int64, len(keys))
        lacking = np.flatnonzero(slots < 0)
        names = keys[lacking].tolist()
        new = dict.fromkeys(names)
        places = dict(zip(new, range(self._size, self._size + len(new)), strict=True))
        slots[lacking] = np.fromiter(map(places.__getitem__, names), np.int64, len(names))
        return slots, list(new)

    def _effects(self, changes: Changes, steps: _Steps) -> Changes:
        old = {name: self._gather(name, changes, steps.old_rows) for name in self._columns}
        new = {name: changes.columns[name][steps.new_rows] for name in self._columns}
        same = steps.was & steps.stays
        for name in self._columns:
            same &= np.asarray(old[name] == new[name], np.bool_)
        gone, come = np.flatnonzero(steps.was & ~same), np.flatnonzero(steps.stays & ~same)
        which = np.concatenate([gone, come])
        order = np.argsort(np.concatenate([2 * steps.first_rows[gone], 2 * steps.first_rows[come] + 1]), kind="stable")
        said = changes.take(steps.new_rows[which][order])
        columns = {name: np.concatenate([old[name][gone], new[name][come]])[order] for name in self._columns}
        insert = np.repeat([False, True], [len(gone), len(come)])[order]
        return Changes(insert, said.keys, said.at, said.source, said.sources, said.sequence, columns)

    def _gather(self, name: str, changes: Changes, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Values of a column: of the relation's rows, and of the changes' as if they stood behind."""
        held, inside = self._columns[name], rows < self._size
        found = np.zeros(len(rows), held.dtype)
        found[inside] = held[rows[inside]]
        found[~inside] = changes.columns[name][rows[~inside] - self._size]
        return found

    def _write(self, changes: Changes, steps: _Steps, new_keys: list[str]) -> None:
        known, there = steps.last_slots < self._size, steps.last_there
        self._put(steps.last_slots[known & there], changes, steps.last_rows[known & there])
        added = np.flatnonzero(~known & there)
        names = [new_keys[slot] for slot in (steps.last_slots[added] - self._size).tolist()]
        self._remove(np.sort(steps.last_slots[known & ~there]))
        slots = np.arange(self._size, self._size + len(added))
        self._make_room(len(added))
        self._size += len(added)
        self._put(slots, changes, steps.last_rows[added])
        self._keys[slots] = names
        self._slots.update(zip(names, slots.tolist(), strict=True))

    def _put(self, slots: NDArray[np.int64], changes: Changes, rows: NDArray[np.int64]) -> None:
        for name, column in self._columns.items():
            column[slots] = changes.columns[name][rows]

    def _remove(self, slots: NDArray[np.int64]) -> None:
        """Take these rows out; the last ones move into the gaps."""
        for key in self._keys[slots].tolist():
            del self._slots[key]
        size = self._size - len(slots)
        staying = np.ones(len(slots), np.bool_)
        staying[slots[slots >= size] - size] = False
        movers, gaps = size + np.flatnonzero(staying), slots[slots < size]
        for held in (self._keys, *self._columns.values()):
            held[gaps] = held[movers]
            held[size : self._size] = None if held.dtype == object else 0  # nothing is kept alive by an empty place
        self._slots.update(zip(self._keys[gaps].tolist(), gaps.tolist(), strict=True))
        self._size = size

    def _make_room(self, more: int) -> None:
        if self._size + more <= len(self._keys):
            return
        room = 2 * (self._size + more) - len(self._keys)
        self._keys = np.concatenate([self._keys, np.empty(room, object)])
        for column in self.definition:
            grown = [self._columns[column.name], np.zeros(room, DTYPES[column.type])]
            self._columns[column.name] = np.concatenate(grown)

    def _nothing(self, changes: Changes) -> Changes:
        columns = {name: np.zeros(0, column.dtype) for name, column in self._columns.items()}
        none = changes.take(np.zeros(0, np.int64))
        return Changes(none.insert, none.keys, none.at, none.source, none.sources, none.sequence, columns)


class _Steps:
    """What the changes do, key by key: one *step* is all that happens to one key in one transaction.

    Rows are numbered with the relation's first and the changes' behind them.
    """

    def __init__(self, changes: Changes, slots: NDArray[np.int64], size: int) -> None:
        order = np.argsort(slots, kind="stable")
        slot, insert = slots[order], changes.insert[order]
        transaction = np.cumsum(np.diff(changes.at, prepend=changes.at[:1]) != 0)[order]
        first_of_key = np.append(True, slot[1:] != slot[:-1])
        starts = np.flatnonzero(first_of_key | np.append(True, transaction[1:] != transaction[:-1]))
        ends = np.append(starts[1:], len(slot)) - 1
        there = np.append(False, insert[:-1])
        there[first_of_key] = slot[first_of_key] < size
        self.unknown = int(np.count_nonzero(~insert & ~there))
        self.was, self.stays = there[starts], insert[ends]
        self.old_rows = np.where(first_of_key[starts], slot[starts], size + order[starts - 1])
        self.new_rows, self.first_rows = order[ends], order[starts]
        last = np.flatnonzero(np.append(slot[1:] != slot[:-1], True))
        self.last_slots, self.last_rows, self.last_there = slot[last], order[last], insert[last]
