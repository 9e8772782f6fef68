"""What a pipeline over two tables says of a join: result rows that appear and that are retracted, in `answers.<query>`.

A result row stands with all subscriptions that it came to or went from at that moment, once; that of a band join once
for each group of them, so that many rows can name one list of subscriptions, each as much of it as it needs (a list
view of Arrow). Those of one `at` are one transaction, and have one `step`, the last of its changes. A transaction is
never in two entries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.streams import Column
from tolerant.transport.changes import ARROW, DELETE, INSERT

Tables = Sequence[tuple[str, Sequence[Column]]]
"""Names and columns of the tables that are joined, in the order in which the statement has them."""

_COMMON = [
    ("kind", pa.dictionary(pa.int32(), pa.string())),  # insert, delete
    ("at", pa.int64()),
    ("step", pa.int64()),
    ("subscriptions", pa.list_view(pa.int64())),
]
_SHARD = ("shard", pa.int64())


def result_columns(tables: Tables) -> dict[str, str]:
    """The columns of a result row, name → SQL type: each with its table's name before it.

    >>> result_columns([("orders", [Column("id", "INT")]), ("lines", [Column("id", "BIGINT")])])
    {'orders.id': 'INT', 'lines.id': 'BIGINT'}
    """
    return {f"{name}.{column.name}": column.type for name, columns in tables for column in columns}


def results_schema(tables: Tables, shards: int = 1) -> pa.Schema:
    """The columns of `answers.<query>` for a join of these tables; of several shards also the one that says it, whose
    steps rise.
    """
    own = ((f"row.{name}", ARROW[type_name]) for name, type_name in result_columns(tables).items())
    return pa.schema([*_COMMON, *own, *([_SHARD] if shards > 1 else [])])


def kept_schema(tables: Tables, shards: int = 1) -> pa.Schema:
    """The columns of `answers.<query>` for a join with `KEEP n ROWS`: beside a result row the share of all results that
    had been found by then, an estimate; of several shards the one that says it, whose steps rise.
    """
    schema = results_schema(tables).append(pa.field("share", pa.float64()))
    return schema if shards == 1 else schema.append(pa.field(*_SHARD))


def kept_batch(
    tables: Tables,
    *,
    at: NDArray[np.int64],
    steps: NDArray[np.int64],
    subscription: int,
    share: float,
    columns: Mapping[str, NDArray[Any]],
    shard: int | None = None,
) -> pa.RecordBatch:
    """n result rows that have appeared, all for the one subscription that there is. `shard`: None: there is but one."""
    n = len(at)
    batch = results_batch(
        tables,
        insert=np.ones(n, np.bool_),
        at=at,
        steps=steps,
        starts=np.arange(n),
        stops=np.arange(1, n + 1),
        subscriptions=np.full(n, subscription),
        columns=columns,
    )
    arrays = [*batch.columns, pa.array(np.full(n, share))]
    if shard is None:
        return pa.record_batch(arrays, schema=kept_schema(tables))
    return pa.record_batch([*arrays, pa.array(np.full(n, shard))], schema=kept_schema(tables, 2))


def results_batch(  # noqa: PLR0913
    tables: Tables,
    *,
    insert: NDArray[np.bool_],
    at: NDArray[np.int64],
    steps: NDArray[np.int64],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    subscriptions: NDArray[np.int64],
    columns: Mapping[str, NDArray[Any]],
    shard: int | None = None,
) -> pa.RecordBatch:
    """n result rows: row i is for `subscriptions[starts[i]:stops[i]]`; `columns` are those of `result_columns`.
    `shard`: None: there is but one.
    """
    arrays = [
        pa.DictionaryArray.from_arrays(pa.array(insert.astype(np.int32)), pa.array([DELETE, INSERT], pa.string())),
        pa.array(at),
        pa.array(steps),
        pa.ListViewArray.from_arrays(
            pa.array(starts.astype(np.int32)), pa.array((stops - starts).astype(np.int32)), pa.array(subscriptions)
        ),
        *(pa.array(columns[name], ARROW[type_name]) for name, type_name in result_columns(tables).items()),
    ]
    if shard is None:
        return pa.record_batch(arrays, schema=results_schema(tables))
    return pa.record_batch([*arrays, pa.array(np.full(len(at), shard))], schema=results_schema(tables, 2))


def rows_naming(batch: pa.RecordBatch, subscriptions: Collection[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows of a batch are for which of these subscriptions, row by row: (rows[k], subscriptions[k]).

    It takes time for the rows and for what they name, not for all subscriptions that each is for.
    """
    lists = batch.column("subscriptions")
    begins, sizes, named = lists.offsets.to_numpy(), lists.sizes.to_numpy(), lists.values.to_numpy()
    wanted = np.isin(named, np.fromiter(subscriptions, np.int64, len(subscriptions)))
    places, before = np.flatnonzero(wanted), np.concatenate([[0], np.cumsum(wanted)])
    first = before[begins]
    counts = before[begins + sizes] - first
    ends = np.cumsum(counts)
    chosen = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - counts), counts)
    return np.repeat(np.arange(len(batch)), counts), named[places[chosen]]
