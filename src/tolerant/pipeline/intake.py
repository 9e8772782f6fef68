"""From packed rows to arrays that a shard can work with, and the rows that cannot be used, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.filters.reports import REPORT
from tolerant.pipeline.sources import Sources
from tolerant.streams import EARLIEST, LATEST, SOURCE_LENGTH, Limits, Stream, fits_key, is_sum, key_parts, shard_of_sum
from tolerant.transport.rows import DEAD, NO_TIME, UPDATES, UPDATES_WITH_HISTORY, TimedRange, are_updates, unpack

UPDATE, HELLO, HEARTBEAT, ACK, GONE, FORM_REQUEST, CLOCK = range(7)
KINDS = ("update", "hello", "heartbeat", "ack", "gone", "form_request", "clock")
"""The kinds of rows in `updates.<stream>`, in the order of their codes."""

ROW = np.dtype(
    [
        ("at", "<i8"),
        ("item", "<i8"),  # −1 for a heartbeat
        ("source", "<i8"),
        ("sequence", "<i8"),
        ("heard", "<i8"),  # when the source was alive: `at` as it was sent, also where the row applies later
        ("through", "<i8"),  # up to when it has said everything
        ("value", "<f8"),  # the level of its filter's centre, and its slope, a tick
        ("slope", "<f8"),
        ("grant", "<i8"),
        ("report", REPORT),
        ("kind", "i1"),
    ],
    align=True,  # NumPy takes columns that are not aligned through a buffer, which costs more than the work itself
)
"""A row of a source inside a shard: names have become indices."""

_STEEPEST = 1e290  # per tick: what it comes to in any number of ticks that there may be is a number
_LONGEST_REASON, _PAYLOAD = 1000, 4096


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
    count: int = 1
    """Of how many rows it is said."""


def dead_batch(rows: Iterable[DeadRow]) -> pa.RecordBatch:
    """Rows for `dead_letters.<stream>`."""
    return pa.RecordBatch.from_pylist([vars(row) for row in rows], DEAD)


def dead_payload(reason: object, payload: bytes) -> DeadRow:
    """An entry in which no row could be read."""
    return DeadRow(str(reason)[:_LONGEST_REASON], payload=payload[:_PAYLOAD])


def capped(dead: Sequence[DeadRow], most: int) -> list[DeadRow]:
    """The dead letters of one entry: the first `most`, and one that sums up the others.

    >>> [row.reason for row in capped([DeadRow("no key")] * 5, 2)]
    ['no key', 'no key', 'and 3 more: no key']
    """
    if len(dead) <= most + 1 and all(row.count == 1 for row in dead):
        return list(dead)
    (reason, _), *others = Counter(row.reason for row in dead[most:]).most_common(2)
    rest = sum(row.count for row in dead[most:])
    return [*dead[:most], DeadRow(f"and {rest:,} more: {reason}{', and others' if others else ''}", count=rest)]


@dataclass(frozen=True)
class Arrived:
    """What one entry holds: usable rows in order, the checkpoint that each clock row among them names, the dead rows,
    and the reported histories of the items of acks, by row.
    """

    rows: NDArray[np.void]
    checkpoints: dict[int, str]
    dead: list[DeadRow]
    histories: dict[int, list[TimedRange]] = field(default_factory=dict)


class Intake:
    """Reads entries of `updates.<stream>`.

    `find` gives the indices of keys, −1 where one is new; `admit` gives new ones theirs; `size`: how many have one.
    """

    def __init__(
        self,
        stream: Stream,
        find: Callable[[list[str]], NDArray[np.int64]],
        admit: Callable[[list[str]], NDArray[np.int64]],
        sources: Sources,
        size: Callable[[], int],
    ) -> None:
        self._stream, self._limits = stream, stream.options.limits
        self._find = find
        self._admit = admit
        self._known_sources = sources
        self._size = size

    def read(self, payload: bytes) -> Arrived:
        """The rows of an entry of the log; nothing in it can make this raise."""
        try:
            batch = unpack(payload, self._limits)
        except ValueError as error:
            return Arrived(np.zeros(0, ROW), {}, [dead_payload(error, payload)])
        if not are_updates(batch):
            missing = [name for name in UPDATES.names if name not in batch.schema.names]
            reason = f"columns must be those of updates, missing: {', '.join(missing) or 'none, but types differ'}"
            return Arrived(np.zeros(0, ROW), {}, [dead_payload(reason, payload)])
        checked = _Checked(batch, self._key_reason, self._source_reason, self._find, self._known_sources)
        checked.leave_out("items", self._limits.items, self._limits.items - self._size())
        checked.leave_out("sources", self._limits.sources, self._limits.sources - len(self._known_sources))
        dead = checked.letters(self._limits)
        kept = batch.filter(pa.array(~checked.bad)) if dead else batch
        rows = self._arrays(kept, checked.words, checked.known)
        clocks = np.flatnonzero(rows["kind"] == CLOCK)
        checkpoints = {int(row): str(kept.column("source")[row].as_py()) for row in clocks}
        histories = _histories(kept) if kept.schema.equals(UPDATES_WITH_HISTORY) else {}
        return Arrived(rows, checkpoints, dead, histories)

    def tells_of_an_item(self, row: DeadRow, kinds: tuple[str, ...] = ("update", "hello", "ack")) -> bool:
        """Whether a row that could not be used still says that an item exists; `kinds`: rows that do."""
        named = row.kind in kinds and row.source and row.sequence > 0
        return bool(named) and self._key_reason(row.key) is None

    def _key_reason(self, key: str) -> str | None:
        if len(key) > self._limits.key_length:
            return f"key has {len(key):,} characters, more than {self._limits.key_length:,}"
        try:
            if is_sum(key):
                shard_of_sum(key)
                return None
            parts = key_parts(key, self._stream.key_types)
        except ValueError as error:
            return f"key cannot be read: {error}"
        for part, kind, name in zip(parts, self._stream.key_types, self._stream.key, strict=True):
            if not fits_key(part, kind):
                return f"key column {name} must be {kind}, got {part!r:.80}"
        return None

    def _source_reason(self, source: str) -> str | None:
        most = max(self._limits.key_length, SOURCE_LENGTH)
        if len(source) > most:
            return f"source has {len(source):,} characters, more than {most:,}"
        return None

    def _arrays(self, batch: pa.RecordBatch, words: list[str | None], known: NDArray[np.int64]) -> NDArray[np.void]:
        kinds = _codes(batch.column("kind"), KINDS)
        rows = np.zeros(len(batch), ROW)
        rows["kind"] = kinds
        for name in ("at", "sequence", "grant", "through"):
            rows[name] = batch.column(name).to_numpy(zero_copy_only=False)
        rows["heard"] = rows["at"]
        rows["value"], rows["slope"] = _filled(batch.column("value"), 0.0), _filled(batch.column("slope"), 0.0)
        _read_reports(batch.column("report"), rows["report"])
        rows["item"] = -1
        keyed = (kinds != HEARTBEAT) & (kinds != CLOCK)
        rows["item"][keyed] = self._indices(batch.column("key"), keyed, words, known)
        own = kinds != CLOCK
        rows["source"][own] = self._sources(batch.column("source"), own)
        return rows

    def _indices(
        self, column: pa.DictionaryArray, keyed: NDArray[np.bool_], words: list[str | None], known: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        indices = _filled(column.indices, 0)[keyed]  # a heartbeat need not have a key
        new = _used(indices[known[indices] < 0])
        known[new] = self._admit([str(words[index]) for index in new])
        return known[indices]

    def _sources(self, column: pa.DictionaryArray, own: NDArray[np.bool_]) -> NDArray[np.int64]:
        indices = _filled(column.indices, 0)[own]
        words = column.dictionary.to_pylist()
        table = np.zeros(len(words), np.int64)
        used = _used(indices)
        table[used] = self._known_sources.enlist([words[index] for index in used])
        return table[indices]


class _Checked:
    """The rows of a batch, looked at column by column: which cannot be used (`bad`), and why."""

    def __init__(
        self,
        batch: pa.RecordBatch,
        key_reason: Callable[[str], str | None],
        source_reason: Callable[[str], str | None],
        find: Callable[[list[str]], NDArray[np.int64]],
        sources: Sources,
    ) -> None:
        self._batch = batch
        self.words, self._key = _words(batch.column("key"))
        names, self._source = _words(batch.column("source"))
        kinds, places = _words(batch.column("kind"))
        self._kind = places
        kind = np.array([KINDS.index(word) if word in KINDS else -1 for word in kinds], np.int8)[places]
        self._clock = kind == CLOCK
        self._keyed = (kind >= 0) & ~self._clock & (kind != HEARTBEAT)
        self.known = np.append(find([word or "" for word in self.words[:-1]]), -1)
        self._strange = np.append(sources.find([word or "" for word in names[:-1]]), -1) < 0
        suspects = _used(self._key[self._keyed & (self.known[self._key] < 0)])
        self._key_reasons = _reasons(self.words, suspects, "key", key_reason)
        self._source_reasons = _reasons(names, _used(self._source), "source", source_reason)
        self.bad = self._unusable(kind)

    def leave_out(self, what: str, most: int, room: int) -> None:
        """Of new "items" or "sources" only `room` can be used, for `most` is all that the stream may have."""
        concerned, places, new, reasons = (
            (self._keyed, self._key, self.known < 0, self._key_reasons)
            if what == "items"
            else (~self._clock, self._source, self._strange, self._source_reasons)
        )
        if not new.any():
            return
        used = _used(places[concerned & ~self.bad])
        beyond = used[new[used]][max(room, 0) :]
        if len(beyond):
            reasons.update(dict.fromkeys(beyond.tolist(), f"the stream has {most:,} {what}, the most it may have"))
            self.bad |= concerned & np.isin(places, beyond)

    def _unusable(self, kind: NDArray[np.int8]) -> NDArray[np.bool_]:
        batch, telling = self._batch, self._keyed & (kind != GONE)
        bad = kind < 0
        for name in ("at", "sequence", "through", "grant", "source"):
            if batch.column(name).null_count:
                bad |= batch.column(name).is_null().to_numpy(zero_copy_only=False)
        bad |= _among(self._key, self._key_reasons) & self._keyed
        bad |= _among(self._source, self._source_reasons)  # a null is one of its words, too
        at, sequence, grant = (_filled(batch.column(name), 0) for name in ("at", "sequence", "grant"))
        bad |= ((at < EARLIEST) | (at > LATEST)) & ~(self._clock & (at == NO_TIME))
        bad |= ~self._clock & ((sequence <= 0) | (grant < 0))
        bad |= telling & ~np.isfinite(_filled(batch.column("value"), np.nan))
        bad |= ~(np.abs(_filled(batch.column("slope"), 0.0)) <= _STEEPEST)
        if batch.column("report").null_count < len(batch):
            sizes = _filled(pc.binary_length(batch.column("report")), 0)
            bad |= (sizes != 0) & (sizes != REPORT.itemsize)
        return bad

    def letters(self, limits: Limits) -> list[DeadRow]:
        """The rows that cannot be used, with the reasons; those beyond the dead letters that there may be are told
        apart by kind, key and source alone: the newest stands for all.
        """
        rows = np.flatnonzero(self.bad)
        if not len(rows):
            return []
        rows, counts = self._grouped(rows, limits.dead_letters)
        columns = {name: self._batch.column(name).take(pa.array(rows)).to_pylist() for name in UPDATES.names}
        places = zip(self._key[rows].tolist(), self._source[rows].tolist(), strict=True)
        return [
            readable_row(row, self._reason(row, key, source), limits.key_length, count)
            for row, (key, source), count in zip(_rows_of(columns), places, counts, strict=True)
        ]

    def _grouped(self, rows: NDArray[np.int64], most: int) -> tuple[NDArray[np.int64], list[int]]:
        """The first rows as they are, and one for each group of the others; of how many rows each is."""
        head, rest = rows[:most], rows[most:]
        sequence = _filled(self._batch.column("sequence"), 0)[rest]
        columns = (self._kind[rest], self._key[rest], self._source[rest], sequence > 0)
        order = np.lexsort((sequence, *columns))
        ends = np.append(np.any([column[order][1:] != column[order][:-1] for column in columns], axis=0), True)
        last = np.flatnonzero(ends[: len(rest)])
        counts = np.diff(last, prepend=-1).tolist()
        return np.concatenate([head, rest[order][last]]), [1] * len(head) + counts

    def _reason(self, row: dict[str, Any], key: int, source: int) -> str:
        kind, value, at = row["kind"], row["value"], row["at"]
        if kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}, got {kind!r:.80}"
        for name in ("at", "sequence", "through", "source", "grant"):
            if row[name] is None:
                return f"{name} is missing"
        if not EARLIEST <= at <= LATEST and not (kind == "clock" and at == NO_TIME):
            return f"at must lie in the years 1 to 2199, got {at} µs"
        if source in self._source_reasons:
            return self._source_reasons[source]
        if row["sequence"] <= 0 and kind != "clock":
            return f"sequence must be positive, got {row['sequence']}"
        if row["grant"] < 0:
            return f"grant must not be negative, got {row['grant']}"
        if kind not in ("gone", "heartbeat", "clock") and not (isinstance(value, float) and np.isfinite(value)):
            return f"value must be a finite number, got {value}"
        slope, report = row["slope"], row["report"]
        if slope is not None and not abs(slope) <= _STEEPEST:
            return f"slope must be a finite number, up to {_STEEPEST:g}, got {slope}"
        if report is not None and len(report) not in (0, REPORT.itemsize):
            return f"report must have {REPORT.itemsize} bytes, got {len(report)}"
        return self._key_reasons.get(key, "it cannot be used")


def _rows_of(columns: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """The rows of columns; a row at a time, as there may be very many."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _words(column: pa.DictionaryArray) -> tuple[list[str | None], NDArray[np.int64]]:
    """The words of a column, at the end None, and the place of each row's word."""
    words = [*column.dictionary.to_pylist(), None]
    return words, _filled(column.indices, len(words) - 1).astype(np.int64)


def _used(places: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The places that occur, in order: as `np.unique`, in a tenth of its time, as places are small numbers."""
    return np.flatnonzero(np.bincount(places))


def _reasons(
    words: list[str | None], places: NDArray[np.int64], name: str, reason: Callable[[str], str | None]
) -> dict[int, str]:
    """Why the words at these places cannot be used; those that can are left out."""
    reasons: dict[int, str] = {}
    for place in places.tolist():
        word = words[place]
        why = f"{name} is missing" if word is None else reason(word)
        if why is not None:
            reasons[place] = why
    return reasons


def _among(places: NDArray[np.int64], of: Mapping[int, str]) -> NDArray[np.bool_]:
    return np.isin(places, list(of)) if of else np.zeros(len(places), np.bool_)


def _histories(batch: pa.RecordBatch) -> dict[int, list[TimedRange]]:
    """The reported history of the item of each ack, by row; what makes no sense is left out."""
    histories = {}
    for row, (kind, history) in enumerate(
        zip(*(batch.column(name).to_pylist() for name in ("kind", "recent_ranges")), strict=True)
    ):
        if kind == "ack" and history and all(part is not None and None not in part.values() for part in history):
            ranges = [TimedRange(**part) for part in history]
            ascends = all(before.since < after.since for before, after in pairwise(ranges))
            if ascends and all(-np.inf < part.least <= part.most < np.inf for part in ranges):
                histories[row] = ranges
    return histories


def _filled(column: pa.Array, nothing: float) -> NDArray[Any]:
    """The column with `nothing` in the place of nulls."""
    whole = column if column.null_count == 0 else pc.fill_null(column, pa.scalar(nothing, column.type))
    numbers: NDArray[Any] = whole.to_numpy(zero_copy_only=False)
    return numbers


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


def readable_row(row: Mapping[str, Any], reason: str, longest: int, count: int = 1) -> DeadRow:
    """A row that could not be used, with as much of it as can be read: texts up to `longest` characters."""
    names = [name for name in ("kind", "key", "at", "source", "sequence", "value") if row.get(name) is not None]
    readable = {name: row[name][:longest] if isinstance(row[name], str) else row[name] for name in names}
    return DeadRow(reason[:_LONGEST_REASON], count=count, **readable)
