"""Rows of a polled stream: what a poller asked for and what came back (`pulls.<stream>`), and its queries' answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.streams import EARLIEST, LATEST, Limits
from tolerant.transport.rows import ANSWERS, LIMITS, unpack

PULLS = pa.schema(
    [
        ("item", pa.string()),
        ("tick", pa.int64()),  # at which it was asked for
        ("at", pa.int64()),  # event time, microseconds
        ("kind", pa.string()),  # value unchanged failed
        ("value", pa.float64()),  # null of a failed one
        ("reason", pa.string()),  # why it failed
        ("source", pa.string()),  # the name of the poller
    ]
)
"""Rows of `pulls.<stream>`."""

POLLED_ANSWERS = pa.schema(
    [*ANSWERS, ("fidelity", pa.float64()), ("delivered", pa.float64()), ("learning", pa.bool_())]
)
"""Rows of `answers.<query>` over a polled stream: with the fidelity that is claimed, what was delivered so far, and
whether its items are still being got to know.
"""

KINDS = ("value", "unchanged", "failed")


@dataclass(frozen=True)
class Pull:
    """One item's part of a request, as it goes into the log. kind: "value", "unchanged" or "failed"."""

    item: str
    tick: int
    at: int  # microseconds
    kind: str
    value: float | None = None
    reason: str = ""
    source: str = ""


def pulls_batch(pulls: Sequence[Pull]) -> pa.RecordBatch:
    """Pulls as rows."""
    columns = [[getattr(pull, name) for pull in pulls] for name in PULLS.names]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PULLS, strict=True)]
    return pa.record_batch(arrays, schema=PULLS)


def read_pulls(payload: bytes, limits: Limits = LIMITS) -> tuple[list[Pull], list[tuple[Pull, str]]]:
    """The pulls in an entry, and those that cannot be used, each with the reason.

    Raises:
        ValueError: the entry holds no pulls at all.
    """
    batch = unpack(payload, limits)
    if not batch.schema.equals(PULLS):
        missing = [name for name in PULLS.names if name not in batch.schema.names]
        raise ValueError(f"columns must be those of pulls, missing: {', '.join(missing) or 'none, but types differ'}")
    good, bad = [], []
    for row in batch.to_pylist():
        reason = _reason(row, limits.key_length)
        if reason is None:
            good.append(Pull(**row))
        else:
            readable = {name: value for name, value in row.items() if value is not None}
            bad.append((Pull(**({"item": "", "tick": 0, "at": 0, "kind": ""} | readable)), reason))
    return good, bad


def _reason(row: dict[str, Any], longest: int) -> str | None:
    """Why a row cannot be used; None: it can."""
    for name in ("item", "tick", "at", "reason", "source"):
        if row[name] is None:
            return f"{name} is missing"
        if isinstance(row[name], str) and len(row[name]) > longest:
            return f"{name} has {len(row[name]):,} characters, more than {longest:,}"
    if not EARLIEST <= row["at"] <= LATEST:
        return f"at must lie in the years 1 to 2199, got {row['at']} µs"
    if not 0 <= row["tick"] <= LATEST:
        return f"tick must not be negative nor beyond the year 2199, got {row['tick']}"
    if row["kind"] not in KINDS:
        return f"kind must be one of {', '.join(KINDS)}, got {row['kind']!r}"
    value = row["value"]
    if row["kind"] != "failed" and not (isinstance(value, float) and math.isfinite(value)):
        return f"value must be a finite number, got {value}"
    return None
