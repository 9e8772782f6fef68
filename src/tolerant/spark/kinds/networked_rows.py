"""Rows of aggregators and what they report, as the shard of a stream with a network reads them from the log."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import NamedTuple

import numpy as np

from tolerant.planning import Report
from tolerant.spark.intake import KINDS
from tolerant.transport.plans import REPORTS, read_part_key
from tolerant.transport.rows import are_updates, unpack

_TELLING = ("update", "hello", "ack")


class Row(NamedTuple):
    """A row of an aggregator, in the order in which rows apply. heard: when the aggregator was alive."""

    at: int
    key: str
    sequence: int
    kind: str
    source: str
    value: float
    grant: int
    heard: int


class Reported(NamedTuple):
    """A report that waits for its time."""

    at: int
    aggregator: str
    ticks: int
    late: int
    items: list[str]
    moved: list[float]
    cosine: list[float]

    def report(self) -> Report:
        """What it says.

        Raises:
            ValueError, TypeError: it makes no sense.
        """
        size = len(self.items)
        cosine = np.array(self.cosine, np.float64).reshape(size, size)
        return Report(tuple(self.items), np.array(self.moved), cosine, self.ticks)


def read_rows(payload: bytes) -> list[Row]:
    """The rows of an entry of `updates.<stream>`, in order; usable or not.

    Raises:
        ValueError: it is no such entry.
    """
    batch = unpack(payload)
    if not are_updates(batch):
        raise ValueError("columns must be those of updates")
    names = ("at", "key", "sequence", "kind", "source", "value", "grant")
    columns = (batch.column(name).to_pylist() for name in names)
    return [
        Row(at, key or "", sequence, kind, source, value, grant, at or 0)
        for at, key, sequence, kind, source, value, grant in zip(*columns, strict=True)
    ]


def read_reports(payload: bytes) -> list[Reported]:
    """The reports of an entry of `reports.<stream>`, in order; those without a time are left out.

    Raises:
        ValueError: it is no such entry.
    """
    batch = unpack(payload)
    if not batch.schema.equals(REPORTS):
        raise ValueError("columns must be those of reports")
    rows = batch.to_pylist()
    return [Reported(*(row[name] for name in Reported._fields)) for row in rows if row["at"] is not None]


def unusable(row: Row, aggregators: Container[str], uri: str | None) -> str:
    """Why a row cannot be used; empty if it can. uri: the network's, for the message."""
    if row.kind not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}, got {row.kind!r}"
    for name in ("at", "sequence", "source", "grant"):
        if getattr(row, name) is None:
            return f"{name} is missing"
    if row.kind == "clock":
        return ""
    if row.sequence <= 0:
        return f"sequence must be positive, got {row.sequence}"
    if row.source not in aggregators:
        return f"no aggregator of {uri} is called {row.source!r}"
    if row.kind == "beat":
        return ""
    known = isinstance(row.value, float)
    if not known or (row.kind in _TELLING and not math.isfinite(row.value)):
        return f"value must be a finite number, got {row.value}"
    try:
        read_part_key(row.key or "")
    except ValueError as error:
        return f"key cannot be read: {error}"
    return ""
