"""Rows of `updates.<stream>` as objects, for shards that take them one by one: polled streams and networks."""

from __future__ import annotations

from typing import NamedTuple

from tolerant.pipeline.intake import KINDS
from tolerant.streams import EARLIEST, LATEST, Limits
from tolerant.transport.rows import LIMITS, NO_TIME, are_updates, unpack


class Row(NamedTuple):
    """A row of a source, in the order in which rows apply. heard: when the source was alive; through: up to when it has
    sent everything.
    """

    at: int
    key: str
    sequence: int
    kind: str
    source: str
    value: float
    grant: int
    heard: int
    through: int


def read_rows(payload: bytes, limits: Limits = LIMITS) -> list[Row]:
    """The rows of an entry of `updates.<stream>`, in order; usable or not.

    Raises:
        ValueError: it is no such entry.
    """
    batch = unpack(payload, limits)
    if not are_updates(batch):
        raise ValueError("columns must be those of updates")
    names = ("at", "key", "sequence", "kind", "source", "value", "grant", "through")
    columns = (batch.column(name).to_pylist() for name in names)
    return [
        Row(at, key or "", sequence, kind, source, value, grant, at or 0, through)
        for at, key, sequence, kind, source, value, grant, through in zip(*columns, strict=True)
    ]


def unusable(row: Row, longest: int) -> str:
    """Why a row cannot be used, whoever sent it; empty if it can."""
    if row.kind not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}, got {row.kind!r:.80}"
    for name in ("at", "sequence", "source", "grant", "through"):
        if getattr(row, name) is None:
            return f"{name} is missing"
    for name in ("key", "source"):
        if len(getattr(row, name)) > longest:
            return f"{name} has {len(getattr(row, name)):,} characters, more than {longest:,}"
    if not EARLIEST <= row.at <= LATEST and not (row.kind == "clock" and row.at == NO_TIME):
        return f"at must lie in the years 1 to 2199, got {row.at} µs"
    if row.kind != "clock" and row.sequence <= 0:
        return f"sequence must be positive, got {row.sequence}"
    return ""
