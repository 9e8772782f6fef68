"""Refreshes views on request, and reads their rows."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.sql import StatementError
from tolerant.sql.catalogue_reader import load_catalogue
from tolerant.sql.refusals import no_such
from tolerant.transport import Log, rows
from tolerant.transport.records import skipping
from tolerant.transport.topics import pushes_topic, refreshes_topic
from tolerant.transport.views import REQUESTS, read_view

POLL = 0.01
"""Seconds between two reads for the reply to a request; short, as it counts towards the promised time."""


@dataclass(frozen=True)
class ViewRows:
    """A view: its rows, and the event time up to which it is true, microseconds.

    `no_pipeline_since`: set by a client that finds the pipeline down: the time (wall clock, microseconds) after which
    nothing was processed.
    """

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    at: int
    no_pipeline_since: int | None = None

    @property
    def settled(self) -> bool:
        """Whether the view's pipeline is in service, so that a refresh brings these rows up to date in time."""
        return self.no_pipeline_since is None


@dataclass(frozen=True)
class Refreshed:
    """A view that was refreshed on request.

    `seconds`: from the request to the reply, as measured here; `within`: the promised seconds. `took`: the same as the
    pipeline measured it, of which the request `waited` until the pipeline began.
    """

    view: ViewRows
    seconds: float
    within: float
    took: float
    waited: float
    changes: dict[str, int]

    @property
    def kept(self) -> bool:
        """Whether it was refreshed in time, as measured here."""
        return self.seconds <= self.within

    @property
    def late(self) -> float:
        """Seconds by which it was late; 0: it was in time."""
        return max(0.0, self.seconds - self.within)


def view_rows(log: Log, view: str) -> ViewRows | None:
    """Return the view as it was last refreshed, its rows in the order of their groups; None: it never was."""
    header, groups = read_view(log, view)
    if not header:
        return None
    names = tuple(name for name, _ in header["columns"])
    listed = [dict(zip(names, row, strict=True)) for key in sorted(groups) for row in groups[key]]
    return ViewRows(names, tuple(listed), header["at"])


def refresh(log: Log, view: str, timeout: float) -> Refreshed | None:
    """Request a refresh of a view, and wait for it up to `timeout` seconds; None: no pipeline has replied.

    Raises:
        StatementError: there is no such view.
    """
    begun, at, request = time.monotonic(), time.time_ns() // 1000, uuid.uuid4().hex
    queries = load_catalogue(log).queries
    query = queries.get(view)
    if query is None or not query.select.pipeline.views:
        known = (name for name, other in queries.items() if other.select.pipeline.views)
        raise StatementError(no_such("view", view, known))
    row = {"view": view, "request": request, "at": at}
    position = log.append(
        refreshes_topic(str(query.select.pipeline)), pa.RecordBatch.from_pylist([row], schema=REQUESTS)
    )
    while time.monotonic() < begun + timeout:
        for entry in log.read(pushes_topic(view), position):
            position = entry.position
            with skipping(f"an entry of {entry.topic}"):
                for push in rows.unpack(entry.payload).to_pylist():
                    if push["request"] == request:
                        refreshed = view_rows(log, view)
                        assert refreshed is not None
                        changes = dict(zip(push["tables"], push["rows"], strict=True))
                        seconds = time.monotonic() - begun
                        return Refreshed(refreshed, seconds, push["within"], push["took"], push["waited"], changes)
        time.sleep(POLL)
    return None
