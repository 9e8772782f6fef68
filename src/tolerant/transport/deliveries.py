"""What a pipeline says of its table: the current rows in `rows.<table>`, by key.

Their version is the step of the last change. Steps number the changes of the table: a function of the log, so a reader
that has seen a step knows a repeated one, even from a pipeline that started again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.relations import Changes
from tolerant.streams import Column
from tolerant.transport.records import skipping
from tolerant.transport.rows import COMPACTED


def row_key(table: str, key: str) -> str:
    """What a row of one of several tables is called in their common topic of rows.

    >>> row_key("orders", "17")
    'orders/17'
    """
    return f"{table}/{key}"


def rows_batch(
    columns: Sequence[Column], changes: Changes, steps: NDArray[np.int64], table: str | None = None
) -> pa.RecordBatch:
    """The last change of each key, as rows of `rows.<table>`: the row as JSON, nothing where it was deleted.

    `table`: the name of the table, where the topic is that of several.
    """
    last = {key: index for index, key in enumerate(changes.keys.tolist())}
    chosen = changes.take(np.array(list(last.values()), np.int64))
    values = zip(*(chosen.columns[column.name].tolist() for column in columns), strict=True)
    bodies = [
        _written(row) if insert else None for row, insert in zip(values, chosen.insert.tolist(), strict=True)
    ]  # fmt: skip
    keys = list(last) if table is None else [row_key(table, key) for key in last]
    arrays = [pa.array(keys, pa.string()), pa.array(steps[list(last.values())]), pa.array(bodies, pa.binary())]
    return pa.record_batch(arrays, schema=COMPACTED)


def lookup_batch(columns: Sequence[Column], keys: pa.Array, values: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Rows of a file, with their key texts, for a `lookup_topic`; of rows with one key the last counts."""
    rows = zip(*(values[column.name].to_pylist() for column in columns), strict=True)
    bodies = pa.array(map(_written, rows), pa.binary())
    return pa.record_batch([keys, pa.array(np.zeros(len(keys), np.int64)), bodies], schema=COMPACTED)


def _written(row: Sequence[Any]) -> bytes:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


def read_row(columns: Iterable[Column], body: bytes) -> dict[str, Any]:
    """The row that a body of `rows.<table>` holds: column → value."""
    return dict(zip((column.name for column in columns), json.loads(body), strict=True))


def read_rows(columns: Sequence[Column], bodies: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]]:
    """`read_row` for (key, body) of many records; those without a body are left out, and, with a warning, those that
    cannot be read.
    """
    rows = []
    for key, body in bodies:
        if body is not None:
            with skipping("a row of a table", key):
                rows.append(read_row(columns, body))
    return rows


def row_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """The table's own columns of a row on a channel (`tolerant.transport.channels`) as `to_pylist` gives it."""
    return {name.removeprefix("row."): value for name, value in record.items() if name.startswith("row.")}
