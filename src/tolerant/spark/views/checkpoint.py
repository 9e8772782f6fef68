"""Reads back what a pipeline of views wrote about itself: where it stood, its groups, and the rows it published.

Anybody can append to these topics, so every value is checked before it is used: a ValueError (or one of the other
errors that `tolerant.transport.records.skipping` catches) means that the views are computed again from their tables.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.spark.views.shard import Request
from tolerant.transport.views import Columns, changed_rows, group_text
from tolerant.views.view_groups import Key, ViewGroup, group_key

_CONVERSION = (ValueError, TypeError, LookupError, OverflowError, RecursionError, pa.ArrowException)


@dataclass(frozen=True)
class Checkpoint:
    """Where a pipeline stood: its last batch and position, each view's own record, what was under way."""

    batch: int
    position: int
    views: dict[str, dict[str, Any]]
    making: list[str]
    waiting: list[Request]


def read_checkpoint(body: bytes, checkpoint: str, batch: int, end: int) -> Checkpoint:
    """Read the record of a checkpoint whose last batch in the log is `batch`, in a log that ends at `end`."""
    held = json.loads(body)
    if not isinstance(held, dict) or held.get("checkpoint") != checkpoint:
        raise ValueError("it is not of this checkpoint")
    position, views, making = held["position"], held["views"], held["making"]
    if held["batch"] != batch or not _is_integer(position) or not 0 <= position <= end:
        raise ValueError(f"it is of batch {held['batch']!r:.40} and position {position!r:.40}, which the log has not")
    if not isinstance(views, dict) or not all(isinstance(record, dict) for record in views.values()):
        raise ValueError("views must be objects by name")
    if not isinstance(making, list) or not all(isinstance(name, str) for name in making):
        raise ValueError("making must be a list of names")
    waiting = [Request(*request) for request in held["waiting"]]
    if not all(isinstance(one.view, str) and isinstance(one.request, str) and _is_integer(one.at) for one in waiting):
        raise ValueError("waiting must be a list of requests")
    return Checkpoint(batch, position, views, making, waiting)


def read_groups(stored: Mapping[str, bytes], keys: int, arguments: int, extremes: int) -> dict[Key, ViewGroup]:
    """Read the groups of a view with so many key columns, arguments and extremes, by the text of their keys."""
    groups = {}
    for text, body in stored.items():
        rows, counts, sums, ends = json.loads(body)
        shaped = (len(counts), len(sums), len(ends)) == (arguments, arguments, extremes)
        if not shaped or not all(map(_is_integer, (rows, *counts))) or not all(map(_is_number, sums)):
            raise ValueError(f"the group {text:.80} must have rows, {arguments} counts and sums, {extremes} extremes")
        groups[_read_key(text, keys)] = ViewGroup(rows, counts, sums, ends)
    return groups


def read_published(
    stored: Mapping[str, bytes], columns: Columns, keys: int
) -> tuple[dict[Key, list[list[Any]]], list[str]]:
    """Read the published rows of a view by group, and the texts of the keys whose rows cannot be read."""
    published: dict[Key, list[list[Any]]] = {}
    unreadable: list[str] = []
    try:  # all at once, which is much less work than group by group
        for text, body in stored.items():
            published[_read_key(text, keys)] = json.loads(body)
        for rows in published.values():
            _check_shape(columns, rows)
        changed_rows(columns, [row for rows in published.values() for row in rows], [], 0, 0)
        return published, []
    except _CONVERSION:
        published.clear()
    for text, body in stored.items():
        try:
            key, rows = _read_key(text, keys), json.loads(body)
            check_rows(columns, rows)
            published[key] = rows
        except _CONVERSION:
            unreadable.append(text)
    return published, unreadable


def check_rows(columns: Columns, rows: list[list[Any]]) -> None:
    """Raise one of the errors of `skipping` unless these can be rows of a view with these columns."""
    _check_shape(columns, rows)
    changed_rows(columns, rows, [], 0, 0)


def _check_shape(columns: Columns, rows: list[list[Any]]) -> None:
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == len(columns) for row in rows):
        raise ValueError(f"rows must be lists of {len(columns)} values")


def _read_key(text: str, parts: int) -> Key:
    key = json.loads(text)
    if not isinstance(key, list) or len(key) != parts or any(isinstance(part, list | dict) for part in key):
        raise ValueError(f"{text:.80} is no key of {parts} columns")
    if group_text(key) != text:
        raise ValueError(f"{text:.80} is not how a key is written")
    return group_key(key)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _is_number(value: object) -> bool:
    return _is_integer(value) or isinstance(value, float)
