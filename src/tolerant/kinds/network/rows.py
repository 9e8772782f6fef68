"""Rows of aggregators and their reports, as the shard of a stream with a network reads them from the log."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import NamedTuple

import numpy as np

from tolerant.pipeline.intake import DeadRow, readable_row
from tolerant.pipeline.listed_rows import Row
from tolerant.planning import DynamicsReport
from tolerant.streams import EARLIEST, LATEST, Limits
from tolerant.transport.plans import REPORTS, read_part_key
from tolerant.transport.rows import LIMITS, unpack

_TELLING = ("update", "hello", "ack")


class Reported(NamedTuple):
    """A report that waits for its time."""

    at: int
    aggregator: str
    ticks: int
    late: int
    items: list[str]
    moved: list[float]
    cosine: list[float]

    def report(self) -> DynamicsReport:
        """What it says.

        Raises:
            ValueError, TypeError: it makes no sense.
        """
        size = len(self.items)
        cosine = np.array(self.cosine, np.float64).reshape(size, size)
        return DynamicsReport(tuple(self.items), np.array(self.moved), cosine, self.ticks)


def read_reports(payload: bytes, limits: Limits = LIMITS) -> tuple[list[Reported], list[DeadRow]]:
    """The reports of an entry of `reports.<stream>`, in order, and those that cannot be used.

    Raises:
        ValueError: it is no such entry.
    """
    batch = unpack(payload, limits)
    if not batch.schema.equals(REPORTS):
        raise ValueError("columns must be those of reports")
    good, bad = [], []
    for row in batch.to_pylist():
        report = Reported(*(row[name] for name in Reported._fields))
        reason = _report_reason(report, limits)
        if reason:
            bad.append(
                readable_row(
                    {"kind": "report", "at": report.at, "source": report.aggregator}, reason, limits.key_length
                )
            )
        else:
            good.append(report)
    return good, bad


def _report_reason(report: Reported, limits: Limits) -> str:
    """Why a report cannot be used; empty if it can, as far as its shape goes."""
    for name, value in report._asdict().items():
        if value is None or (isinstance(value, list) and None in value):
            return f"report: {name} is missing"
    size = len(report.items)
    if not EARLIEST <= report.at <= LATEST:
        return f"report: at must lie in the years 1 to 2199, got {report.at} µs"
    if not (len(report.moved) == size and len(report.cosine) == size * size):
        return f"report: of {size} items there are {len(report.moved)} moves and {len(report.cosine)} cosines"
    if len(report.aggregator) > limits.key_length or not 0 <= report.late <= LATEST or not 0 <= report.ticks <= LATEST:
        return "report: aggregator, ticks or late cannot be"
    return ""


def unfit(row: Row, aggregators: Container[str], uri: str | None) -> str:
    """Why a row that is usable cannot be an aggregator's; empty if it can. uri: the network's, for the message."""
    if row.kind == "clock":
        return ""
    if row.source not in aggregators:
        return f"no aggregator of {uri} is called {row.source!r:.80}"
    if row.kind == "heartbeat":
        return ""
    known = isinstance(row.value, float)
    if not known or (row.kind in _TELLING and not math.isfinite(row.value)):
        return f"value must be a finite number, got {row.value}"
    try:
        read_part_key(row.key or "")
    except ValueError as error:
        return f"key cannot be read: {error}"
    return ""
