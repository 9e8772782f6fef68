"""What a pipeline of views knows: its tables, the views that it maintains or makes, and the requests that wait."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.live import LiveView
from tolerant.spark.views.maintained import Pushed
from tolerant.spark.views.shard import Applied, Ordered, Request, ViewShard
from tolerant.sql.pipeline_inputs import Views
from tolerant.streams import SECOND
from tolerant.views.capacity import urgency


@dataclass
class Making:
    """A view that is being made, piece by piece; `replies` wait for it, `later` has the changes since its statement."""

    live: LiveView
    ordered: Ordered
    replies: list[dict[str, object]]
    later: list[Applied]
    seconds: float = 0.0
    pieces: Iterator[None] = field(default_factory=lambda: iter(()))
    computed: Pushed = field(default_factory=Pushed)

    def compute(self, logs: dict[str, DeltaLog]) -> Iterator[None]:
        """Computes the view and times its pushes piece by piece, so that requests can be served in between."""
        for log in logs.values():
            log.flush()
        # A table's own versions end before those of all tables: a view must not have absorbed what is not there.
        versions = {table: min(self.ordered.step, log.last) for table, log in logs.items()}
        self.computed = self.live.view.compute(versions)
        yield
        yield from self.live.costs.measure(logs)


class ViewState:
    """The state at the beginning of the log, with the tables' changes that the checkpoint folder has."""

    def __init__(self, views: Views, folder: Path) -> None:
        self.shard = ViewShard(views)
        self.logs = {table.name: DeltaLog(folder / table.name, table.columns) for table in views.tables}
        self.live: dict[str, LiveView] = {}
        self.making: dict[str, Making] = {}
        self.practising: dict[str, Iterator[None]] = {}
        self.waiting: list[Request] = []
        """Requests without an answer."""
        self.filed: list[Applied] = []
        """What the tables applied of the entries last read."""

    @property
    def watermark(self) -> int:
        """Event time up to which all changes have been applied; 0 before the first."""
        return self.shard.watermark or 0

    def file(self, now: int) -> None:
        """Appends the changes that the tables applied to the delta logs, and counts them for the views."""
        for applied in self.shard.applied:
            self.logs[applied.table].take(applied.changes, applied.steps)
            for live in self.live.values():
                live.note(applied)
        for live in self.live.values():
            live.look(self.shard.applied, self.watermark, now)
        for making in self.making.values():
            making.later += self.shard.applied
        self.filed, self.shard.applied = self.shard.applied, []

    def take_requests(self, now: int) -> None:
        """Lets the new requests wait, and forgets those for views that are no more."""
        requests, self.shard.requests = self.shard.requests, []
        # A request is never in the future, whatever the clock of its sender.
        self.waiting += [replace(request, at=min(request.at, now)) for request in requests]
        self.waiting = [request for request in self.waiting if request.view in self.live or request.view in self.making]

    def requests_for(self, view: str) -> list[Request]:
        """Returns the waiting requests for a view."""
        return [request for request in self.waiting if request.view == view]

    def urgent(self, elapsed: float) -> list[LiveView]:
        """Returns the views with a waiting request or a true condition, the most urgent first."""
        waited_for = {request.view for request in self.waiting}
        urgent = [live for live in self.live.values() if live.fired or live.name in waited_for]
        return sorted(urgent, key=lambda live: urgency(self.deadline(live), live.within, live.served, elapsed))

    def slack(self, urgent: Sequence[LiveView], now: int) -> float:
        """Returns the seconds for which these views, served one after the other, can wait and still meet their
        deadlines.
        """
        end, slack = now / SECOND, math.inf
        for live in urgent:
            end += live.predicted
            slack = min(slack, self.deadline(live) - end)
        return slack

    def deadline(self, live: LiveView) -> float:
        """When an urgent view must be up to date, seconds since 1970."""
        asked = [request.at for request in self.requests_for(live.name)] + [due.heard for due in live.fired]
        return min(asked) / SECOND + live.within

    def queued(self) -> list[LiveView]:
        """Returns the views that have tables to push, the longest waiting first."""
        queued = [live for live in self.live.values() if live.queue and not live.fired]
        return sorted(queued, key=lambda live: live.queued_at)
