"""From packed rows to arrays that a shard can work with, and the rows that cannot be used, with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.filters.reports import REPORT
from tolerant.streams import KeyPart, Stream, is_sum, key_parts, shard_of_sum
from tolerant.transport.rows import DEAD, RECALLING, UPDATES, Piece, are_updates, unpack

UPDATE, HELLO, BEAT, ACK, GONE, WISH, CLOCK = range(7)
KINDS = ("update", "hello", "beat", "ack", "gone", "wish", "clock")
"""The kinds of rows in `updates.<stream>`, in the order of their codes."""

ROW = np.dtype(
    [
        ("at", "<i8"),
        ("item", "<i8"),  # −1 for a beat
        ("source", "<i8"),
        ("sequence", "<i8"),
        ("heard", "<i8"),  # when the source was alive: `at` as it was sent, also where the row applies later
        ("value", "<f8"),  # the level of its filter's centre, and its slope, a tick
        ("slope", "<f8"),
        ("grant", "<i8"),
        ("report", REPORT),
        ("kind", "i1"),
    ],
    align=True,  # NumPy takes columns that are not aligned through a buffer, which costs more than the work itself
)
"""A row of a source inside a shard: names have become indices."""

_TYPES: dict[str, type | tuple[type, ...]] = {
    "STRING": str,
    "BOOLEAN": bool,
    "INT": int,
    "BIGINT": int,
    "DOUBLE": (int, float),
    "FLOAT": (int, float),
}


@dataclass(frozen=True)
class DeadRow:
    """A row that could not be used, and why."""

    reason: str
    kind: str = ""
    key: str = ""
    at: int = 0
    source: str = ""
    sequence: int = 0
    value: float = 0.0
    payload: bytes = b""


def dead_batch(rows: Iterable[DeadRow]) -> pa.RecordBatch:
    """Rows for `dead.<stream>`."""
    return pa.RecordBatch.from_pylist([vars(row) for row in rows], DEAD)


@dataclass(frozen=True)
class Arrived:
    """What one entry holds: usable rows in order, the checkpoint that each clock row among them names, the dead rows,
    and where the items of acks have been, by row.
    """

    rows: NDArray[np.void]
    checkpoints: dict[int, str]
    dead: list[DeadRow]
    ways: dict[int, list[Piece]] = field(default_factory=dict)


class Intake:
    """Reads entries of `updates.<stream>`.

    `find` gives the indices of keys, −1 where one is new; `admit` gives new ones theirs; `enlist` that of a source.
    """

    def __init__(
        self,
        stream: Stream,
        find: Callable[[list[str]], NDArray[np.int64]],
        admit: Callable[[list[str]], NDArray[np.int64]],
        enlist: Callable[[str], int],
    ) -> None:
        self._stream = stream
        self._find = find
        self._admit = admit
        self._enlist = enlist

    def read(self, payload: bytes) -> Arrived:
        """The rows of an entry of the log; nothing in it can make this raise."""
        try:
            batch = unpack(payload)
        except ValueError as error:
            return Arrived(np.zeros(0, ROW), {}, [DeadRow(str(error), payload=payload[:4096])])
        if not are_updates(batch):
            missing = [name for name in UPDATES.names if name not in batch.schema.names]
            reason = f"columns must be those of updates, missing: {', '.join(missing) or 'none, but types differ'}"
            return Arrived(np.zeros(0, ROW), {}, [DeadRow(reason, payload=payload[:4096])])
        words = batch.column("key").dictionary.to_pylist()
        known = self._find(words)
        reasons = self._reasons(batch, [words[index] for index in np.flatnonzero(known < 0)])
        bad = np.fromiter(map(bool, reasons), np.bool_, len(reasons))
        dead = [dead_row(batch, int(row), str(reasons[row])) for row in np.flatnonzero(bad)]
        kept = batch.filter(pa.array(~bad)) if dead else batch
        rows = self._arrays(kept, words, known)
        clocks = np.flatnonzero(rows["kind"] == CLOCK)
        checkpoints = {int(row): str(kept.column("source")[row].as_py()) for row in clocks}
        return Arrived(rows, checkpoints, dead, _ways(kept) if kept.schema.equals(RECALLING) else {})

    def tells_of_an_item(self, row: DeadRow) -> bool:
        """Whether a row that could not be used still says that an item exists."""
        named = row.kind in ("update", "hello", "ack") and row.source and row.sequence > 0
        return bool(named) and self._key_reason(row.key) is None

    def _reasons(self, batch: pa.RecordBatch, new: list[str | None]) -> list[str | None]:
        """For each row None, or why it cannot be used; `new` are the keys among them that are not known."""
        reasons: list[str | None] = [None] * len(batch)
        if _clean(batch) and all(key == "" or self._key_reason(key or "") is None for key in new):
            return reasons
        columns = {name: batch.column(name).to_pylist() for name in UPDATES.names}
        for row in range(len(batch)):
            reasons[row] = self._reason({name: column[row] for name, column in columns.items()})
        return reasons

    def _reason(self, row: dict[str, object]) -> str | None:
        kind, key, value = row["kind"], row["key"], row["value"]
        if kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {kind!r}"
        for name in ("at", "sequence", "through", "source", "grant"):
            if row[name] is None:
                return f"{name} is missing"
        if kind in ("clock", "beat"):
            return None if kind == "clock" or int(str(row["sequence"])) > 0 else "sequence must be positive"
        if int(str(row["sequence"])) <= 0:
            return f"sequence must be positive, got {row['sequence']}"
        if kind != "gone" and not (isinstance(value, float) and np.isfinite(value)):
            return f"value must be a finite number, got {value}"
        slope, report = row["slope"], row["report"]
        if slope is not None and not (isinstance(slope, float) and np.isfinite(slope)):
            return f"slope must be a finite number, got {slope}"
        if isinstance(report, bytes) and len(report) not in (0, REPORT.itemsize):
            return f"report must have {REPORT.itemsize} bytes, got {len(report)}"
        return "key is missing" if not isinstance(key, str) else self._key_reason(key)

    def _key_reason(self, key: str) -> str | None:
        try:
            if is_sum(key):
                shard_of_sum(key)
                return None
            parts = key_parts(key, self._stream.key_types)
        except (ValueError, json.JSONDecodeError) as error:
            return f"key cannot be read: {error}"
        for part, kind, name in zip(parts, self._stream.key_types, self._stream.key, strict=True):
            if not _fits(part, kind):
                return f"key column {name} must be {kind}, got {part!r}"
        return None

    def _arrays(self, batch: pa.RecordBatch, words: list[str], known: NDArray[np.int64]) -> NDArray[np.void]:
        kinds = _codes(batch.column("kind"), KINDS)
        rows = np.zeros(len(batch), ROW)
        rows["kind"] = kinds
        for name in ("at", "sequence", "grant"):
            rows[name] = batch.column(name).to_numpy(zero_copy_only=False)
        rows["heard"] = rows["at"]
        rows["value"], rows["slope"] = _numbers(batch.column("value")), _numbers(batch.column("slope"))
        _read_reports(batch.column("report"), rows["report"])
        rows["item"] = -1
        keyed = (kinds != BEAT) & (kinds != CLOCK)
        rows["item"][keyed] = self._indices(batch.column("key"), keyed, words, known)
        own = kinds != CLOCK
        rows["source"][own] = self._sources(batch.column("source"), own)
        return rows

    def _indices(
        self, column: pa.DictionaryArray, keyed: NDArray[np.bool_], words: list[str], known: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        indices = column.indices.to_numpy(zero_copy_only=False)[keyed]
        new = np.unique(indices[known[indices] < 0])
        known[new] = self._admit([words[index] for index in new])
        return known[indices]

    def _sources(self, column: pa.DictionaryArray, own: NDArray[np.bool_]) -> NDArray[np.int64]:
        indices = column.indices.to_numpy(zero_copy_only=False)[own]
        words = column.dictionary.to_pylist()
        table = np.zeros(len(words), np.int64)
        for index in np.unique(indices):
            table[index] = self._enlist(words[index])
        return table[indices]


def _clean(batch: pa.RecordBatch) -> bool:
    """Whether every row of the batch is plainly fine, but for its key."""
    if any(batch.column(name).null_count for name in UPDATES.names if name not in ("report", "slope")):
        return False
    if not set(batch.column("kind").dictionary.to_pylist()) <= set(KINDS):
        return False
    sequences = batch.column("sequence").to_numpy(zero_copy_only=False)
    clocks = _codes(batch.column("kind"), KINDS) == CLOCK
    fine = np.isfinite(_numbers(batch.column("value"))) & np.isfinite(_numbers(batch.column("slope")))
    return bool((fine & ((sequences > 0) | clocks)).all()) and _whole_reports(batch.column("report"))


def _ways(batch: pa.RecordBatch) -> dict[int, list[Piece]]:
    """By row, where the item of an ack has been; what makes no sense is left out."""
    found = {}
    for row, (kind, way) in enumerate(zip(*(batch.column(name).to_pylist() for name in ("kind", "way")), strict=True)):
        if kind == "ack" and way and all(piece is not None and None not in piece.values() for piece in way):
            pieces = [Piece(**piece) for piece in way]
            ascends = all(one.since < other.since for one, other in pairwise(pieces))
            if ascends and all(-np.inf < piece.least <= piece.most < np.inf for piece in pieces):
                found[row] = pieces
    return found


def _numbers(column: pa.DoubleArray) -> NDArray[np.float64]:
    """The column with 0 where nothing is said."""
    said = column if column.null_count == 0 else pc.fill_null(column, 0.0)
    numbers: NDArray[np.float64] = said.to_numpy(zero_copy_only=False)
    return numbers


def _whole_reports(column: pa.BinaryArray) -> bool:
    if column.null_count == len(column):
        return True
    sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return bool(((sizes == 0) | (sizes == REPORT.itemsize)).all())


def _read_reports(column: pa.BinaryArray, out: NDArray[np.void]) -> None:
    """Reports, all of one size or none, into rows of type REPORT."""
    if column.null_count < len(column):
        there = pc.greater(pc.fill_null(pc.binary_length(column), 0), 0)
        bodies = b"".join(column.filter(there).to_pylist())
        out[np.flatnonzero(there.to_numpy(zero_copy_only=False))] = np.frombuffer(bodies, REPORT)


def _codes(column: pa.DictionaryArray, words: tuple[str, ...]) -> NDArray[np.int8]:
    # A word of the dictionary that no row uses any more may be none of ours.
    table = np.array([words.index(w) if w in words else -1 for w in column.dictionary.to_pylist()], np.int8)
    codes: NDArray[np.int8] = table[column.indices.to_numpy(zero_copy_only=False)]
    return codes


def _fits(part: KeyPart, kind: str) -> bool:
    wanted = _TYPES.get(kind, str)
    return isinstance(part, wanted) and (kind == "BOOLEAN" or not isinstance(part, bool))


def dead_row(batch: pa.RecordBatch, row: int, reason: str) -> DeadRow:
    """A row of a batch that could not be used, with as much of it as can be read."""
    names = [name for name in ("kind", "key", "at", "source", "sequence", "value") if name in batch.schema.names]
    found = {name: batch.column(name)[row].as_py() for name in names}
    return DeadRow(reason, **{name: value for name, value in found.items() if value is not None})
