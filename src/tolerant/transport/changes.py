"""The rows of `changes.<table>`: inserted and deleted rows of a relation, packed (`docs/design/pipeline.md` §2).

The common columns come first, under their names; the table's own stand behind them as `row.<name>`, so that a table
may have a column called `key` or `at`. A deletion carries the key alone and a clock row the time alone: their other
columns are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tolerant.kernels.versions import version
from tolerant.relations import Changes
from tolerant.relations.row_changes import DTYPES
from tolerant.streams import EARLIEST, LATEST, SOURCE_LENGTH, Column, Limits, key_text
from tolerant.transport.rows import NO_TIME

INSERT, DELETE, CLOCK = "insert", "delete", "clock"

ARROW: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
}
"""The Arrow type that carries a column of each SQL type."""

_WORD = pa.dictionary(pa.int32(), pa.string())
COMMON = [
    ("kind", _WORD),  # insert delete clock
    ("key", pa.string()),  # the row's key text; empty for clock
    ("at", pa.int64()),
    ("source", _WORD),  # for a clock row the id of the checkpoint, or empty
    ("sequence", pa.int64()),  # for a clock row version(pipeline epoch, 0), or 0
    ("through", pa.int64()),
]
"""The columns that every row of `changes.<table>` has, before the table's own."""

_PLAIN_TEXT = r'^[^"\\\x00-\x1f]*$'  # what JSON writes as it is


def changes_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of `changes.<table>` for a table with these columns.

    >>> changes_schema([Column("id", "INT")]).names
    ['kind', 'key', 'at', 'source', 'sequence', 'through', 'row.id']
    """
    return pa.schema([*COMMON, *((f"row.{column.name}", ARROW[column.type]) for column in columns)])


def changes_batch(
    columns: Sequence[Column],
    *,
    kinds: Sequence[str],
    keys: pa.Array,
    at: NDArray[np.int64],
    source: str,
    sequence: NDArray[np.int64],
    through: NDArray[np.int64],
    values: Mapping[str, pa.Array],
) -> pa.RecordBatch:
    """Rows of one source in any mixture of kinds; `values`: an array a column of the table, null in deletions."""
    n = len(at)
    sources = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([source], pa.string()))
    return pa.record_batch(
        [
            pa.array(kinds, pa.string()).dictionary_encode(),
            keys,
            pa.array(at, pa.int64()),
            sources,
            pa.array(sequence, pa.int64()),
            pa.array(through, pa.int64()),
            *(values[column.name] for column in columns),
        ],
        schema=changes_schema(columns),
    )


def insert_batch(
    columns: Sequence[Column],
    key: Sequence[str],
    values: Mapping[str, pa.Array],
    *,
    at: int,
    source: str,
    first: int,
    through: int,
) -> pa.RecordBatch:
    """Inserted rows of one moment; `first`: the sequence of the first one. `key` names the key columns."""
    keys = key_texts([values[name] for name in key])
    n = len(keys)
    return changes_batch(
        columns,
        kinds=[INSERT] * n,
        keys=keys,
        at=np.full(n, at),
        source=source,
        sequence=np.arange(first, first + n),
        through=np.append(np.full(max(0, n - 1), at - 1), through)[:n],
        values=values,
    )


def delete_batch(
    columns: Sequence[Column], keys: pa.Array, *, at: int, source: str, first: int, through: int
) -> pa.RecordBatch:
    """Deletions of one moment, of the rows with these key texts; `first`: the sequence of the first one."""
    n = len(keys)
    return changes_batch(
        columns,
        kinds=[DELETE] * n,
        keys=keys,
        at=np.full(n, at),
        source=source,
        sequence=np.arange(first, first + n),
        through=np.append(np.full(max(0, n - 1), at - 1), through)[:n],
        values=no_values(columns, n),
    )


def update_batch(
    columns: Sequence[Column],
    key: Sequence[str],
    values: Mapping[str, pa.Array],
    *,
    at: int,
    source: str,
    first: int,
    through: int,
) -> pa.RecordBatch:
    """Rows that take the place of those with their keys: of each a deletion and an insertion, all with one `at`."""
    keys = key_texts([values[name] for name in key])
    n = len(keys)
    twice = pa.array(np.repeat(np.arange(n), 2))
    # A null index takes a null: the deletion carries the key alone.
    new = pa.array(np.repeat(np.arange(n), 2), mask=np.tile([True, False], n))
    return changes_batch(
        columns,
        kinds=[DELETE, INSERT] * n,
        keys=keys.take(twice),
        at=np.full(2 * n, at),
        source=source,
        sequence=np.arange(first, first + 2 * n),
        through=np.append(np.full(max(0, 2 * n - 1), at - 1), through)[: 2 * n],
        values={name: array.take(new) for name, array in values.items()},
    )


def clock_row(columns: Sequence[Column], at: int, epoch: int = 0, checkpoint: str = "") -> pa.RecordBatch:
    """One clock row, as `rows.clock_batch` makes them for streams."""
    return changes_batch(
        columns,
        kinds=[CLOCK],
        keys=pa.array([""], pa.string()),
        at=np.array([at]),
        source=checkpoint,
        sequence=np.array([version(epoch, 0)]),
        through=np.array([at]),
        values=no_values(columns, 1),
    )


def no_values(columns: Iterable[Column], size: int) -> dict[str, pa.Array]:
    """Nulls for all columns of a table."""
    return {column.name: pa.nulls(size, ARROW[column.type]) for column in columns}


def key_texts(parts: Sequence[pa.Array]) -> pa.Array:
    """The key texts of rows, from an array for each key column: what `tolerant.streams.key_text` makes of each.

    >>> key_texts([pa.array(["web-1", 'a"b']), pa.array([1, 2])]).to_pylist()
    ['["web-1",1]', '["a\\\\"b",2]']
    """
    written = [_written(part, quoted=len(parts) > 1) for part in parts]
    if any(part is None for part in written):
        columns = (part.to_pylist() for part in parts)
        return pa.array([key_text(row) for row in zip(*columns, strict=True)], pa.string())
    if len(written) == 1:
        return written[0]
    inside = pc.binary_join_element_wise(*written, ",")
    return pc.binary_join_element_wise("[", inside, "]", "")


def _written(part: pa.Array, quoted: bool) -> pa.Array | None:
    """A key column as JSON, where that can be done for all at once; None: it cannot."""
    if pa.types.is_integer(part.type):
        return part.cast(pa.string())
    if pa.types.is_boolean(part.type):
        return pc.if_else(part, "true", "false")
    if pa.types.is_string(part.type) and not quoted:
        return part
    if pa.types.is_string(part.type) and pc.all(pc.match_substring_regex(part, _PLAIN_TEXT), min_count=0).as_py():
        return pc.binary_join_element_wise('"', part, '"', "")
    return None


@dataclass(frozen=True, eq=False)
class ChangeRows:
    """What a batch of `changes.<table>` holds: usable changes, the rows that they were in it, and the other rows.

    `rows`, `clocks` and `dead` int64[n] count from 0; `codes` int64[n] has for each of `dead` the index of the reason
    in `reasons`: there may be very many rows that cannot be used.
    """

    changes: Changes
    rows: NDArray[np.int64]
    clocks: NDArray[np.int64]
    dead: NDArray[np.int64]
    codes: NDArray[np.int64]
    reasons: tuple[str, ...]


def read_changes(batch: pa.RecordBatch, columns: Sequence[Column], longest: int = Limits.key_length) -> ChangeRows:
    """The changes in a batch of `changes.<table>`, in order; `longest`: characters of a key or the name of a source.

    Raises:
        ValueError: its columns are not those of the table's changes.
    """
    schema = changes_schema(columns)
    if not batch.schema.equals(schema):
        raise ValueError(f"columns must be those of changes, {schema.names} with their types, got {batch.schema.names}")
    kinds = batch.column("kind").cast(pa.string()).to_numpy(zero_copy_only=False)
    insert, clock = kinds == INSERT, kinds == CLOCK
    reasons = _Reasons(len(batch))
    reasons.note_each(
        ~insert & ~clock & (kinds != DELETE), batch.column("kind"), "kind must be insert, delete or clock"
    )
    for name, type_ in COMMON:
        values = batch.column(name)
        written = values.cast(pa.string()) if type_ is _WORD else values  # a null may also be a word
        reasons.note((~clock | (name == "at")) & _nulls(written), f"{name} is missing")
        if name in ("key", "source"):
            most = max(longest, SOURCE_LENGTH) if name == "source" else longest
            long = pc.fill_null(pc.greater(pc.utf8_length(written), most), False).to_numpy(zero_copy_only=False)
            reasons.note(long, f"{name} has more than {most:,} characters")
    at, sequence = (_values(batch.column(name), "BIGINT") for name in ("at", "sequence"))
    outside = ((at < EARLIEST) | (at > LATEST)) & ~(clock & (at == NO_TIME))
    reasons.note(outside, "at must lie in the years 1 to 2199")
    reasons.note(~clock & (sequence <= 0), "sequence must be positive")
    for column in columns:
        values = batch.column(f"row.{column.name}")
        reasons.note(insert & _nulls(values), f"column {column.name} is missing")
        if column.type in ("FLOAT", "DOUBLE"):
            finite = pc.fill_null(pc.is_finite(values), True).to_numpy(zero_copy_only=False)
            reasons.note(insert & ~finite, f"column {column.name} is not a finite number")
    usable = reasons.codes < 0
    kept, dead = np.flatnonzero(usable & ~clock), np.flatnonzero(~usable)
    changes = _arrays(batch.take(pa.array(kept)), columns)
    clocks = np.flatnonzero(usable & clock)
    return ChangeRows(changes, kept, clocks, dead, reasons.codes[dead], tuple(reasons.texts))


def _nulls(array: pa.Array) -> NDArray[np.bool_]:
    return array.is_null().to_numpy(zero_copy_only=False)


class _Reasons:
    """The first reason why each row cannot be used: an index into `texts`; −1: there is none."""

    def __init__(self, size: int) -> None:
        self.codes = np.full(size, -1, np.int64)
        self.texts: list[str] = []

    def note(self, bad: NDArray[np.bool_], reason: str) -> None:
        """Give this reason for the rows that have none yet."""
        new = bad & (self.codes < 0)
        if new.any():
            self.codes[new] = len(self.texts)
            self.texts.append(reason)

    def note_each(self, bad: NDArray[np.bool_], column: pa.Array, reason: str) -> None:
        """Give these rows the reason and their own word of a column; none of them has a reason yet."""
        if bad.any():
            words = column.cast(pa.string()).filter(pa.array(bad)).dictionary_encode(null_encoding="encode")
            self.codes[bad] = len(self.texts) + words.indices.to_numpy()
            self.texts += [f"{reason}, got {word!r:.80}" for word in words.dictionary.to_pylist()]


def _arrays(batch: pa.RecordBatch, columns: Sequence[Column]) -> Changes:
    """Rows without clock rows, and with nothing missing that has to be there."""
    source = batch.column("source")
    return Changes(
        batch.column("kind").cast(pa.string()).to_numpy(zero_copy_only=False) == INSERT,
        batch.column("key").to_numpy(zero_copy_only=False),
        batch.column("at").to_numpy(),
        source.indices.to_numpy(zero_copy_only=False).astype(np.int32),
        tuple(name or "" for name in source.dictionary.to_pylist()),
        batch.column("sequence").to_numpy(),
        {column.name: _values(batch.column(f"row.{column.name}"), column.type) for column in columns},
    )


def _values(array: pa.Array, type_name: str) -> NDArray[Any]:
    nothing: Any = {"STRING": "", "BOOLEAN": False}.get(type_name, 0)
    filled = array.fill_null(pa.scalar(nothing, array.type)) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False).astype(DTYPES[type_name], copy=False)
