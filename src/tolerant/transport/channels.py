"""Shared channels: rows in `answers.<query>` and the channel table in `channels.<query>`.

A row is sent once for each channel that carries it, whoever takes it: `channel` and the `version` of the table under
which it was sent stand beside it. `step` numbers the changes of the relation, as in `rows.<table>`: a function of the
log, so that a reader knows what was said before.

A channel below 0 is a subscription's own: channel ~id is that of subscription id, which has it as soon as it
subscribes. All others are in the table. A table's version is one batch, and tells what it changes:

- `channel`, `version`, `from`: event time, microseconds, from which it holds; `step`: rows of later steps go by it
- `members`: how many take the channel now; 0: it is closed
- `regions`: what it carries, disjoint rectangles, lows before highs; null: as before
- `joined`, `left`: who takes it from now on, and who no longer does. Who has left and joined nothing has unsubscribed.

What a subscription takes from its channel is what lies in its own range: its parameters are the extractor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.relations import Changes
from tolerant.streams import Column
from tolerant.transport.changes import ARROW, DELETE, INSERT

_COMMON = [
    ("channel", pa.int64()),
    ("version", pa.int32()),
    ("kind", pa.dictionary(pa.int32(), pa.string())),  # insert, delete
    ("key", pa.string()),
    ("at", pa.int64()),
    ("step", pa.int64()),
]

TABLE = pa.schema(
    [
        ("channel", pa.int64()),
        ("version", pa.int32()),
        ("from", pa.int64()),
        ("step", pa.int64()),
        ("members", pa.int64()),
        ("regions", pa.list_(pa.list_(pa.float64()))),
        ("joined", pa.list_(pa.int64())),
        ("left", pa.list_(pa.int64())),
    ]
)
"""The columns of `channels.<query>`."""


def channel_rows_schema(columns: Sequence[Column]) -> pa.Schema:
    """The columns of `answers.<query>` for a query that selects rows of a table with these columns."""
    return pa.schema([*_COMMON, *((f"row.{column.name}", ARROW[column.type]) for column in columns)])


def channel_rows(
    columns: Sequence[Column], changes: Changes, steps: NDArray[np.int64], channels: NDArray[np.int64], version: int
) -> pa.RecordBatch:
    """One row for each change, which goes to the channel beside it."""
    arrays = [
        pa.array(channels),
        pa.array(np.full(len(channels), version, np.int32)),
        pa.DictionaryArray.from_arrays(
            pa.array(changes.insert.astype(np.int32)), pa.array([DELETE, INSERT], pa.string())
        ),
        pa.array(changes.keys, pa.string()),
        pa.array(changes.at),
        pa.array(steps),
        *(pa.array(changes.columns[column.name], ARROW[column.type]) for column in columns),
    ]
    return pa.record_batch(arrays, schema=channel_rows_schema(columns))


@dataclass(frozen=True)
class ChannelChange:
    """What a version changes about one channel; `regions` None: they are as before."""

    channel: int
    members: int
    regions: list[list[float]] | None
    joined: list[int]
    left: list[int]


def table_batch(version: int, at: int, step: int, changed: Sequence[ChannelChange]) -> pa.RecordBatch:
    """A version of the table, which holds from event time `at` on, for rows of steps after `step`."""
    size = len(changed)
    columns: dict[str, Any] = {
        "channel": [change.channel for change in changed],
        "version": [version] * size,
        "from": [at] * size,
        "step": [step] * size,
        "members": [change.members for change in changed],
        "regions": [change.regions for change in changed],
        "joined": [change.joined for change in changed],
        "left": [change.left for change in changed],
    }
    return pa.record_batch([pa.array(columns[field.name], field.type) for field in TABLE], schema=TABLE)


def is_table(batch: pa.RecordBatch) -> bool:
    """Whether a batch of one of the two topics is a version of the table."""
    return "regions" in batch.schema.names
