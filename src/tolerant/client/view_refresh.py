"""Refreshes views on request, reads their rows, and listens to their changes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.client.feeds import Extracted, Listener
from tolerant.client.positions import Position
from tolerant.client.result_listener import ResultListener
from tolerant.client.row_listener import RowChange, current_changes, row_change
from tolerant.sql import CreateQuery, CreateTable, PipelineId, StatementError
from tolerant.sql.catalogue_reader import load_catalogue
from tolerant.sql.refusals import no_such
from tolerant.sql.statements import ViewSelect
from tolerant.transport import Log, rows
from tolerant.transport.records import skipping
from tolerant.transport.topics import answers_topic, pushes_topic, refreshes_topic
from tolerant.transport.views import NOTICE, REQUESTS, read_view

POLL = 0.01
"""Seconds between two reads for the reply to a request; short, as it counts towards the promised time."""


@dataclass(frozen=True)
class ViewRows:
    """A view: its rows, and the event time up to which it is true, microseconds."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    at: int


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


@dataclass(frozen=True)
class ConditionMet:
    """The condition of a view (`WHEN …`) became true at this event time (microseconds); the changes after it, up to the
    next `ConditionMet`, turn the reader's rows into the view at that time.
    """

    view: str
    at: int
    position: Position | None
    current: bool = False


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
    if query is None or not isinstance(query.select, ViewSelect):
        known = (name for name, other in queries.items() if isinstance(other.select, ViewSelect))
        raise StatementError(no_such("view", view, known))
    row = {"view": view, "request": request, "at": at}
    position = log.append(
        refreshes_topic(str(PipelineId.of(query.select))), pa.RecordBatch.from_pylist([row], schema=REQUESTS)
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


class ViewExtractor:
    """Extracts the rows of `answers.<view>`, each for all listeners."""

    def __init__(self, view: str) -> None:
        self.topic = answers_topic(view)

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Extracted]]:
        """Yield every row, for every listener."""
        for index, record in enumerate(batch.to_pylist()):
            for listener in listeners.values():
                yield listener, Extracted(index, record["step"], record)


class ViewListenerFactory:
    """Creates listeners to a view: its rows, then the changes of every refresh."""

    def __init__(self, query: CreateQuery, *tables: CreateTable) -> None:
        self._view = query.name
        self.extractor = ViewExtractor(query.name)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `ListenerFactory.begin`."""
        end = log.end()
        header, _ = read_view(log, self._view)
        view = view_rows(log, self._view)
        start = Position(end, mark=header.get("step", 0))
        current = list(view.rows) if view else []
        return [(ResultListener(start), [*current_changes(current, start)]) for _ in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `ListenerFactory.resume`."""
        return [ResultListener(position) for position in positions]

    def change(self, content: Mapping[str, Any], position: Position) -> RowChange | ConditionMet:
        """See `ListenerFactory.change`."""
        if content["kind"] == NOTICE:
            return ConditionMet(self._view, content["at"], position)
        return row_change(content, position)
