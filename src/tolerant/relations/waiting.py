"""Changes whose event time is after the watermark, and the order in which they apply (`docs/design/pipeline.md` §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.relations.row_changes import DTYPES, Changes, empty_columns
from tolerant.relations.texts import packed_texts, unpacked_texts
from tolerant.streams import Column


class PendingChanges:
    """Buffers changes of a relation until the watermark reaches them.

    Attributes:
        watermark: all changes up to this event time were released, in microseconds; None before the first clock row.
    """

    def __init__(self, columns: tuple[Column, ...], lease: int) -> None:
        self._columns, self._lease = columns, lease
        self.watermark: int | None = None
        self._arrived: list[Changes] = []  # since the last clock row; very many after a downtime
        self._waiting = no_changes(columns)

    def add(self, changes: Changes) -> Changes:
        """Buffer changes that were just read; returns the late ones, moved to the watermark, to be applied at once."""
        late = changes.at <= self.watermark if self.watermark is not None else np.zeros(len(changes), np.bool_)
        if not late.all():
            self._arrived.append(changes.take(~late))
        behind = changes.take(late)
        return moved(in_order(behind), self.watermark) if self.watermark is not None else behind

    def judge(self, at: int) -> Changes:
        """Return the buffered changes that are too far ahead of this clock row ever to be used; the others stay
        pending.
        """
        arrived = together([no_changes(self._columns), *self._arrived])
        self._arrived = []
        future = arrived.at > at + self._lease
        self._waiting = together([self._waiting, arrived.take(~future)])
        return arrived.take(future)

    def release(self, watermark: int) -> Changes:
        """Advance the watermark, which never goes back, and return the changes that are due, in order."""
        self.watermark = watermark if self.watermark is None else max(watermark, self.watermark)
        waiting, self._waiting = self._waiting, no_changes(self._columns)
        arrived, self._arrived = self._arrived, []
        due = []
        for batch in (waiting, *arrived):
            is_due = batch.at <= self.watermark
            due.append(batch.take(is_due))
            if batch is waiting:
                self._waiting = batch.take(~is_due)
            elif not is_due.all():
                self._arrived.append(batch.take(~is_due))  # the next clock row decides whether it is too far ahead
        return in_order(together(due))

    def everything(self) -> Changes:
        """Return all pending changes, including those after the last clock row."""
        return together([self._waiting, *self._arrived])

    def drop(self, is_dropped: Callable[[Changes], NDArray[np.bool_]]) -> Changes:
        """Remove some of the pending changes and return them."""
        everything = self.everything()
        dropped = everything.take(is_dropped(everything))
        self._waiting = self._waiting.take(~is_dropped(self._waiting))
        self._arrived = [batch.take(~is_dropped(batch)) for batch in self._arrived]
        return dropped

    def clear(self) -> None:
        """Drop all pending changes; the watermark stays."""
        self._arrived, self._waiting = [], no_changes(self._columns)

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Return everything as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        arrays: dict[str, NDArray[Any]] = {}
        arrived = together([no_changes(self._columns), *self._arrived])
        for name, changes in (("arrived", arrived), ("waiting", self._waiting)):
            arrays |= {f"{name}.{part}": array for part, array in _arrays(changes).items()}
        return arrays, [self.watermark, list(arrived.sources), list(self._waiting.sources)]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Restore what `state` returned."""
        self.watermark, arrived, waiting = values
        self._arrived = [_changes(self._columns, arrays, "arrived.", arrived)]
        self._waiting = _changes(self._columns, arrays, "waiting.", waiting)


def no_changes(columns: tuple[Column, ...]) -> Changes:
    """Return an empty batch of changes."""
    none = np.zeros(0, np.int64)
    return Changes(
        none.astype(np.bool_), np.empty(0, object), none, none.astype(np.int32), (), none, empty_columns(columns)
    )


def together(batches: Sequence[Changes]) -> Changes:
    """Concatenate changes of one relation."""
    batches = [batch for batch in batches if len(batch)] or list(batches[:1])
    if len(batches) == 1:
        return batches[0]
    names = tuple(dict.fromkeys(name for batch in batches for name in batch.sources))
    place = {name: index for index, name in enumerate(names)}
    sources = [np.array([place[name] for name in batch.sources], np.int32)[batch.source] for batch in batches]
    return Changes(
        np.concatenate([batch.insert for batch in batches]),
        np.concatenate([batch.keys for batch in batches]),
        np.concatenate([batch.at for batch in batches]),
        np.concatenate(sources),
        names,
        np.concatenate([batch.sequence for batch in batches]),
        {name: np.concatenate([batch.columns[name] for batch in batches]) for name in batches[0].columns},
    )


def in_order(changes: Changes) -> Changes:
    """Return the changes in the order (at, key, sequence) in which they apply."""
    if not len(changes):
        return changes
    _, rank = np.unique(changes.keys, return_inverse=True)
    return changes.take(np.lexsort((changes.sequence, rank, changes.at)))


def moved(changes: Changes, at: int) -> Changes:
    """Return the same changes, all at this event time."""
    return Changes(
        changes.insert,
        changes.keys,
        np.full(len(changes), at),
        changes.source,
        changes.sources,
        changes.sequence,
        changes.columns,
    )


def _arrays(changes: Changes) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {
        "insert": changes.insert,
        "at": changes.at,
        "source": changes.source,
        "sequence": changes.sequence,
    }
    texts = {"key": changes.keys, **{f"column.{name}": column for name, column in changes.columns.items()}}
    for name, array in texts.items():
        if array.dtype == object:
            arrays[name], arrays[f"{name}.lengths"] = packed_texts(array)
        else:
            arrays[name] = array
    return arrays


def _changes(columns: tuple[Column, ...], arrays: Mapping[str, NDArray[Any]], prefix: str, sources: Any) -> Changes:
    def column_of(name: str, is_text: bool) -> NDArray[Any]:
        array = arrays[prefix + name]
        return unpacked_texts(array, arrays[f"{prefix}{name}.lengths"]) if is_text else array

    return Changes(
        arrays[prefix + "insert"],
        column_of("key", True),
        arrays[prefix + "at"],
        arrays[prefix + "source"],
        tuple(sources),
        arrays[prefix + "sequence"],
        {column.name: column_of(f"column.{column.name}", DTYPES[column.type] is object) for column in columns},
    )
