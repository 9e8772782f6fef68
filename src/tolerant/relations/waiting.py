"""Changes whose time has not come, and the order in which they apply when it has (`specs/0-pipeline.md` §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.relations.changes import DTYPES, Changes, empty_columns
from tolerant.relations.texts import packed_texts, unpacked_texts
from tolerant.streams import Column


class Waiting:
    """Changes of a relation with these columns that wait for the horizon.

    Attributes:
        horizon: everything up to it has been given out, microseconds; None before the first clock row.
    """

    def __init__(self, columns: tuple[Column, ...], lease: int) -> None:
        self._columns, self._lease = columns, lease
        self.horizon: int | None = None
        self._arrived: list[Changes] = []  # since the last clock row; there may be very many, after a downtime
        self._waiting = no_changes(columns)

    def add(self, changes: Changes) -> Changes:
        """Take changes that have just been read; those that are late come back, to be applied at the horizon."""
        late = changes.at <= self.horizon if self.horizon is not None else np.zeros(len(changes), np.bool_)
        if not late.all():
            self._arrived.append(changes.take(~late))
        found = changes.take(late)
        return moved(in_order(found), self.horizon) if self.horizon is not None else found

    def judge(self, at: int) -> Changes:
        """Those of the changes before this clock row that are too far ahead of it ever to be used; the others wait."""
        arrived = together([no_changes(self._columns), *self._arrived])
        self._arrived = []
        future = arrived.at > at + self._lease
        self._waiting = together([self._waiting, arrived.take(~future)])
        return arrived.take(future)

    def release(self, horizon: int) -> Changes:
        """The changes whose time has come, in order; a horizon never goes back."""
        self.horizon = horizon if self.horizon is None else max(horizon, self.horizon)
        waiting, self._waiting = self._waiting, no_changes(self._columns)
        arrived, self._arrived = self._arrived, []
        due = []
        for part in (waiting, *arrived):
            ripe = part.at <= self.horizon
            due.append(part.take(ripe))
            if part is waiting:
                self._waiting = part.take(~ripe)
            elif not ripe.all():
                self._arrived.append(part.take(~ripe))  # whether it is too far ahead, its next clock row says
        return in_order(together(due))

    def everything(self) -> Changes:
        """All that waits, also what no clock row has passed."""
        return together([self._waiting, *self._arrived])

    def drop(self, is_dropped: Callable[[Changes], NDArray[np.bool_]]) -> Changes:
        """Let go of some of the changes that wait, and return them."""
        everything = self.everything()
        dropped = everything.take(is_dropped(everything))
        self._waiting = self._waiting.take(~is_dropped(self._waiting))
        self._arrived = [part.take(~is_dropped(part)) for part in self._arrived]
        return dropped

    def clear(self) -> None:
        """Let go of everything that waits; time stays."""
        self._arrived, self._waiting = [], no_changes(self._columns)

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        arrays: dict[str, NDArray[Any]] = {}
        arrived = together([no_changes(self._columns), *self._arrived])
        for name, changes in (("arrived", arrived), ("waiting", self._waiting)):
            arrays |= {f"{name}.{part}": array for part, array in _arrays(changes).items()}
        return arrays, [self.horizon, list(arrived.sources), list(self._waiting.sources)]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Become what `state` said."""
        self.horizon, arrived, waiting = values
        self._arrived = [_changes(self._columns, arrays, "arrived.", arrived)]
        self._waiting = _changes(self._columns, arrays, "waiting.", waiting)


def no_changes(columns: tuple[Column, ...]) -> Changes:
    """None at all."""
    none = np.zeros(0, np.int64)
    return Changes(
        none.astype(np.bool_), np.empty(0, object), none, none.astype(np.int32), (), none, empty_columns(columns)
    )


def together(parts: Sequence[Changes]) -> Changes:
    """Changes of one relation, one part after the other."""
    parts = [part for part in parts if len(part)] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    names = tuple(dict.fromkeys(name for part in parts for name in part.sources))
    place = {name: index for index, name in enumerate(names)}
    sources = [np.array([place[name] for name in part.sources], np.int32)[part.source] for part in parts]
    return Changes(
        np.concatenate([part.insert for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.at for part in parts]),
        np.concatenate(sources),
        names,
        np.concatenate([part.sequence for part in parts]),
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
    )


def in_order(changes: Changes) -> Changes:
    """Changes in the order (at, key, sequence) in which they apply."""
    if not len(changes):
        return changes
    _, rank = np.unique(changes.keys, return_inverse=True)
    return changes.take(np.lexsort((changes.sequence, rank, changes.at)))


def moved(changes: Changes, at: int) -> Changes:
    """The same changes, all of this time."""
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
    def held(name: str, is_text: bool) -> NDArray[Any]:
        array = arrays[prefix + name]
        return unpacked_texts(array, arrays[f"{prefix}{name}.lengths"]) if is_text else array

    return Changes(
        arrays[prefix + "insert"],
        held("key", True),
        arrays[prefix + "at"],
        arrays[prefix + "source"],
        tuple(sources),
        arrays[prefix + "sequence"],
        {column.name: held(f"column.{column.name}", DTYPES[column.type] is object) for column in columns},
    )
