"""The current rows of a table."""

from __future__ import annotations

from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.kernels.versions import COUNTER_BITS, epoch_of
from tolerant.relations.row_changes import DTYPES, Changes, empty_columns
from tolerant.streams import Column

_SMALLEST = 16


class Relation:
    """The rows of a table, one growing array per column; applies changes and returns their net effect.

    Consecutive changes with the same `at` are one transaction: only the rows before it and after it count. An insertion
    of an existing key replaces the row. `apply` takes O(k log k) for k changes whatever the number of rows; memory
    grows with the rows that exist, not with those that ever existed.

    >>> from tolerant.streams import Column
    >>> stock = Relation((Column("id", "INT"), Column("price", "DOUBLE")))
    >>> row = {"id": np.array([7]), "price": np.array([2.5])}
    >>> source, keys = np.array([0], np.int32), np.array(["7"], object)
    >>> effect = stock.apply(Changes(np.array([True]), keys, np.array([1000]), source, ("shop",), np.array([1]), row))
    >>> len(effect), effect.row(0), len(stock)
    (1, {'id': 7, 'price': 2.5}, 1)

    Attributes:
        unknown: the number of deletions of a row that did not exist; they were ignored.
        duplicates: the number of changes that had been applied before, by source and sequence; they were ignored.
    """

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.definition = columns
        self.unknown = 0
        self.duplicates = 0
        self._size = 0
        self._columns = empty_columns(columns, _SMALLEST)
        self._keys: NDArray[np.object_] = np.empty(_SMALLEST, object)
        self._slots: dict[str, int] = {}
        # The newest sequence applied, by source and epoch. Not by source alone: after a restart on a clock that was set
        # back, rows of the new epoch may be applied before rows of the old one.
        self._newest: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        return key in self._slots

    def keys(self) -> NDArray[np.object_]:
        """Return the key texts of all rows, in the order of `rows`."""
        return self._keys[: self._size].copy()

    def rows(self) -> dict[str, NDArray[Any]]:
        """Return all rows, one array per column; the order is arbitrary, but the same changes give the same order."""
        return {name: column[: self._size].copy() for name, column in self._columns.items()}

    def of(self, keys: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
        """Return the rows with these keys, which must exist: one array per column."""
        slots = np.fromiter(map(self._slots.__getitem__, keys.tolist()), np.int64, len(keys))
        return {name: column[slots] for name, column in self._columns.items()}

    def apply(self, changes: Changes) -> Changes:
        """Apply the changes in their order and return what they changed in effect.

        A replaced row gives a deletion of the old row followed by an insertion of the new one; a transaction that
        leaves a row as it was gives nothing for it. The changes of a source in one epoch must be applied in the order
        of their sequences over all calls; within a call their order does not matter for that.
        """
        changes = changes.take(self.unapplied(changes))
        if not len(changes):
            return self._nothing(changes)
        slots, keys = self._find(changes.keys)
        steps = _Steps(changes, slots, self._size)
        self.unknown += steps.unknown
        effects = self._effects(changes, steps)
        self._write(changes, steps, keys)
        return effects

    def state(self) -> State:
        """Return the rows, and which changes were applied, for a snapshot."""
        return State(
            keys=self.keys(),
            columns=State(self.rows()),
            newest=[[source, sequence] for (source, _), sequence in self._newest.items()],
            unknown=self.unknown,
            duplicates=self.duplicates,
        )

    @classmethod
    def load(cls, columns: tuple[Column, ...], state: State) -> Relation:
        """Restore the relation from what `state` returned; it behaves as the original."""
        relation, names = cls(columns), [column.name for column in columns]
        relation._keys, arrays, newest, relation.unknown, relation.duplicates = state.exactly(
            "keys", "columns", "newest", "unknown", "duplicates"
        )
        relation._columns = dict(zip(names, arrays.exactly(*names), strict=True))
        relation._size = len(relation._keys)
        relation._slots = dict(zip(relation._keys.tolist(), range(relation._size), strict=True))
        relation._newest = {(source, epoch_of(sequence)): sequence for source, sequence in newest}
        return relation

    def unapplied(self, changes: Changes) -> NDArray[np.int64]:
        """Return the indices of the changes that were not applied before and are not duplicates within this batch.

        They count as applied from then on.
        """
        order = np.lexsort((changes.sequence, changes.source))  # stable: the first of equal changes stays first
        source, sequence = changes.source[order], changes.sequence[order]
        epoch = sequence >> COUNTER_BITS
        new = np.ones(len(order), np.bool_)
        new[1:] = (source[1:] != source[:-1]) | (sequence[1:] != sequence[:-1])
        begins = np.append(True, (source[1:] != source[:-1]) | (epoch[1:] != epoch[:-1]))
        cuts = [*np.flatnonzero(begins[: len(order)]).tolist(), len(order)]
        for start, end in pairwise(cuts):
            origin = changes.sources[source[start]], int(epoch[start])
            new[start:end] &= sequence[start:end] > self._newest.get(origin, 0)
            self._newest[origin] = max(self._newest.get(origin, 0), int(sequence[end - 1]))
        self.duplicates += len(changes) - int(np.count_nonzero(new))
        return np.sort(order[new])

    def _find(self, keys: NDArray[np.object_]) -> tuple[NDArray[np.int64], list[str]]:
        """The slot of each key, and the keys without one: the slots behind the last are reserved for them, in order."""
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
        template = changes.take(steps.new_rows[which][order])
        columns = {name: np.concatenate([old[name][gone], new[name][come]])[order] for name in self._columns}
        insert = np.repeat([False, True], [len(gone), len(come)])[order]
        return Changes(
            insert, template.keys, template.at, template.source, template.sources, template.sequence, columns
        )

    def _gather(self, name: str, changes: Changes, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Values of a column at row numbers that count the relation's rows first, then those of the changes."""
        column, inside = self._columns[name], rows < self._size
        values = np.zeros(len(rows), column.dtype)
        values[inside] = column[rows[inside]]
        values[~inside] = changes.columns[name][rows[~inside] - self._size]
        return values

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
        """Remove the rows in these slots; the last rows move into the gaps."""
        for key in self._keys[slots].tolist():
            del self._slots[key]
        size = self._size - len(slots)
        staying = np.ones(len(slots), np.bool_)
        staying[slots[slots >= size] - size] = False
        movers, gaps = size + np.flatnonzero(staying), slots[slots < size]
        for column in (self._keys, *self._columns.values()):
            column[gaps] = column[movers]
            column[size : self._size] = None if column.dtype == object else 0  # an unused place keeps no object alive
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
    """The changes grouped into steps; one step is everything that happens to one key in one transaction.

    Rows are numbered: first those of the relation, then those of the changes.
    """

    def __init__(self, changes: Changes, slots: NDArray[np.int64], size: int) -> None:
        order = np.argsort(slots, kind="stable")
        slot, insert = slots[order], changes.insert[order]
        transaction = np.cumsum(np.diff(changes.at, prepend=changes.at[:1]) != 0)[order]
        first_of_key = np.append(True, slot[1:] != slot[:-1])
        starts = np.flatnonzero(first_of_key | np.append(True, transaction[1:] != transaction[:-1]))
        ends = np.append(starts[1:], len(slot)) - 1
        existed = np.append(False, insert[:-1])
        existed[first_of_key] = slot[first_of_key] < size
        self.unknown = int(np.count_nonzero(~insert & ~existed))
        self.was, self.stays = existed[starts], insert[ends]
        self.old_rows = np.where(first_of_key[starts], slot[starts], size + order[starts - 1])
        self.new_rows, self.first_rows = order[ends], order[starts]
        last = np.flatnonzero(np.append(slot[1:] != slot[:-1], True))
        self.last_slots, self.last_rows, self.last_there = slot[last], order[last], insert[last]
