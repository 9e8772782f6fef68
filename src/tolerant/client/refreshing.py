"""Asking for a view: it is brought up to date, and its rows are read."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.client.deliveries import RowChange, current_changes, row_change
from tolerant.client.feeds import Found, Listener
from tolerant.client.positions import Position
from tolerant.client.results import ResultListener
from tolerant.client.statements import standing
from tolerant.sql import CreateQuery, CreateTable, StatementError, home_of
from tolerant.sql.refusals import no_such
from tolerant.sql.statements import ViewSelect
from tolerant.transport import Log, rows
from tolerant.transport.records import skipping
from tolerant.transport.views import NOTICE, REQUESTS, pushes_topic, read_view, requests_topic

POLL = 0.01
"""Seconds between two looks for what came of a request: it counts against the time promised."""


@dataclass(frozen=True)
class ViewRows:
    """A view: its rows, and the event time up to which it is true, microseconds."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]
    at: int


@dataclass(frozen=True)
class Refreshed:
    """A view that was asked for.

    `seconds`: from asking until it was there, as measured here; `within`: those promised. `took`: the same as the
    pipeline counted it, of which it `waited` so long until the pipeline began.
    """

    view: ViewRows
    seconds: float
    within: float
    took: float
    waited: float
    changes: dict[str, int]

    @property
    def kept(self) -> bool:
        """Whether it came in time, as measured here."""
        return self.seconds <= self.within

    @property
    def late(self) -> float:
        """By how many seconds it came late; 0: it came in time."""
        return max(0.0, self.seconds - self.within)


@dataclass(frozen=True)
class ConditionMet:
    """The condition of a view (`WHEN …`) became true, at this event time (microseconds); the changes behind it, up to
    the next of these, bring the rows that one has to what the view was at that moment.
    """

    view: str
    at: int
    position: Position | None
    current: bool = False


def view_rows(log: Log, view: str) -> ViewRows | None:
    """The view as it was last brought up to date, its rows in the order of their groups; None: it never was."""
    header, found = read_view(log, view)
    if not header:
        return None
    names = tuple(name for name, _ in header["columns"])
    told = [dict(zip(names, row, strict=True)) for key in sorted(found) for row in found[key]]
    return ViewRows(names, tuple(told), header["at"])


def refresh(log: Log, view: str, timeout: float) -> Refreshed | None:
    """Ask for a view, and wait `timeout` seconds at most; None: nobody has answered.

    Raises:
        StatementError: there is no such view.
    """
    begun, at, request = time.monotonic(), time.time_ns() // 1000, uuid.uuid4().hex
    queries = standing(log).queries
    query = queries.get(view)
    if query is None or not isinstance(query.select, ViewSelect):
        known = (name for name, other in queries.items() if isinstance(other.select, ViewSelect))
        raise StatementError(no_such("view", view, known))
    row = {"view": view, "request": request, "at": at}
    position = log.append(requests_topic(home_of(query.select)), pa.RecordBatch.from_pylist([row], schema=REQUESTS))
    while time.monotonic() < begun + timeout:
        for entry in log.read(pushes_topic(view), position):
            position = entry.position
            with skipping(f"an entry of {entry.topic}"):
                for push in rows.unpack(entry.payload).to_pylist():
                    if push["request"] == request:
                        found = view_rows(log, view)
                        assert found is not None
                        done = dict(zip(push["tables"], push["rows"], strict=True))
                        seconds = time.monotonic() - begun
                        return Refreshed(found, seconds, push["within"], push["took"], push["waited"], done)
        time.sleep(POLL)
    return None


class ViewExtractor:
    """All that `answers.<view>` says is for everyone."""

    def __init__(self, view: str) -> None:
        self.topic = f"answers.{view}"

    def extract(self, batch: pa.RecordBatch, listeners: Mapping[int, Listener]) -> Iterator[tuple[Listener, Found]]:
        """Every row, for every listener."""
        for index, record in enumerate(batch.to_pylist()):
            for listener in listeners.values():
                yield listener, Found(index, record["step"], record)


class ViewHearing:
    """How to listen to a view: its rows, then what changes whenever it is brought up to date."""

    def __init__(self, query: CreateQuery, *tables: CreateTable) -> None:
        self._view = query.name
        self.extractor = ViewExtractor(query.name)

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `Hearing.begin`."""
        end = log.end()
        header, _ = read_view(log, self._view)
        held = view_rows(log, self._view)
        start = Position(end, mark=header.get("step", 0))
        told = list(held.rows) if held else []
        return [(ResultListener(start), [*current_changes(told, start)]) for _ in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `Hearing.resume`."""
        return [ResultListener(position) for position in positions]

    def change(self, what: Mapping[str, Any], position: Position) -> RowChange | ConditionMet:
        """See `Hearing.change`."""
        if what["kind"] == NOTICE:
            return ConditionMet(self._view, what["at"], position)
        return row_change(what, position)
