"""What goes to and fro about views: requests, pushes, the rows of a view and their changes.

`refreshes.<home>`: somebody asks for a view. `pushes.<view>`: what was pushed, and how long it took. A refresh is said
in one transaction with what it changed: in `answers.<view>` the rows that went and came since the last one, in the
compacted topic `current.<view>` the view itself, a key a group, and under the key `HEADER` its columns.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tolerant.transport.changes import ARROW, DELETE, INSERT
from tolerant.transport.log import Log
from tolerant.transport.records import records_of, skipping
from tolerant.transport.topics import current_topic

REQUESTS = pa.schema(
    [
        ("view", pa.string()),
        ("request", pa.string()),  # chosen by the sender; the row in `pushes.<view>` repeats it
        ("at", pa.int64()),  # the sender's wall clock, microseconds
    ]
)
"""Rows of `refreshes.<home>`."""

PUSHES = pa.schema(
    [
        ("kind", pa.string()),  # create push refresh notice
        ("request", pa.string()),  # empty unless somebody asked
        ("at", pa.int64()),  # event time: everything up to it has been seen
        ("tables", pa.list_(pa.string())),  # those that were pushed, in order
        ("rows", pa.list_(pa.int64())),  # changes of each
        ("seconds", pa.list_(pa.float64())),  # that each took
        ("took", pa.float64()),  # seconds from the request, by its sender's clock, until the answer could be read
        ("waited", pa.float64()),  # of these, until the pipeline began with it
        ("predicted", pa.float64()),  # seconds, by the costs fitted before
        ("within", pa.float64()),  # seconds promised
        ("recomputed", pa.int64()),  # groups computed again, because an extreme was deleted
    ]
)
"""Rows of `pushes.<view>`."""

NOTICE = "notice"
"""The kind of the row of `answers.<view>` that says that the view's condition became true; the rows behind it, up to
the next, are what changed until then. It has no row of the view.
"""

HEADER = ""
"""The key of `current.<view>` under which its columns are; all others are JSON lists."""

Columns = Sequence[tuple[str, str]]
"""Names and SQL types of a view's columns."""


def group_text(key: Sequence[Any]) -> str:
    """A group's key as text."""
    return json.dumps(list(key), separators=(",", ":"), ensure_ascii=False)


def changed_rows(
    columns: Columns,
    gone: Sequence[Sequence[Any]],
    come: Sequence[Sequence[Any]],
    at: int,
    step: int,
    notice: bool = False,
) -> pa.RecordBatch:
    """Rows of a view that went and that came, as rows of `answers.<view>`; before them a notice, if there is one."""
    kinds = [NOTICE] * notice + [DELETE] * len(gone) + [INSERT] * len(come)
    rows = [*([[None] * len(columns)] * notice), *gone, *come]
    size = len(rows)
    common = [pa.array(kinds, pa.string()), pa.array([at] * size, pa.int64()), pa.array([step] * size, pa.int64())]
    own = [pa.array([row[index] for row in rows], ARROW[type_]) for index, (_, type_) in enumerate(columns)]
    names = ["kind", "at", "step", *(f"row.{name}" for name, _ in columns)]
    return pa.record_batch([*common, *own], names=names)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Rows of `answers.<view>` as one batch."""
    (groups,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return groups


def read_view(log: Log, view: str) -> tuple[dict[str, Any], dict[str, list[list[Any]]]]:
    """The header of a view (columns, at, step; empty before it was worked out), and its rows by group."""
    header: dict[str, Any] = {}
    groups: dict[str, list[list[Any]]] = {}
    for key, _, body in records_of(log, current_topic(view)):
        with skipping(f"a group of the view {view}", key):
            if key == HEADER:
                header = dict(json.loads(body)) if body else {}
            elif body is None:
                groups.pop(key, None)
            else:
                groups[key] = _read_rows(key, body)
    width = len(header.get("columns", ()))
    for key in [key for key, rows in groups.items() if width and any(len(row) != width for row in rows)]:
        with skipping(f"a group of the view {view}", key):
            del groups[key]
            raise ValueError(f"rows must have {width} values")
    return header, groups


def _read_rows(key: str, body: bytes) -> list[list[Any]]:
    rows = json.loads(body)
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError("rows must be lists of values")
    if not isinstance(json.loads(key), list):
        raise ValueError("a key must be a list of values")
    return rows
