"""The shard of a pipeline of views: takes its tables' changes in the order in which they apply, statements and requests
from the log. It publishes no rows: their changes are handed to the pipeline, for its delta logs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tolerant.kernels.snapshots import Schema, State
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.migrations import with_late_sources
from tolerant.pipeline.rows_shard import Integers, RowsShard, Side
from tolerant.relations import Changes
from tolerant.sql import CreateQuery, Drop, Statement
from tolerant.sql.pipeline_inputs import Views
from tolerant.transport.log import Entry
from tolerant.transport.rows import unpack
from tolerant.transport.topics import refreshes_topic
from tolerant.transport.views import REQUESTS


@dataclass(frozen=True)
class Request:
    """Somebody asks for a view; `at` by the sender's clock, microseconds."""

    view: str
    request: str
    at: int


@dataclass(frozen=True)
class Applied:
    """Changes that a table has just taken; `steps` are their versions.

    `through`: the newest version after them and those that the other tables took with them. `seen`: the watermark
    before them, microseconds.
    """

    table: str
    changes: Changes
    steps: Integers
    through: int = 0
    seen: int = 0


@dataclass(frozen=True)
class Ordered:
    """A statement, where it stands: behind this version, at this watermark."""

    statement: Statement
    step: int
    at: int


class HostedView:
    """A view as its shard knows it: that it exists."""

    tally = "pushes"

    def __len__(self) -> int:
        return 0

    def take(self, batch: pa.RecordBatch) -> None:
        """There are no subscriptions.

        Raises:
            ValueError: always.
        """
        raise ValueError("views have no parameters")

    def figures(self) -> dict[str, int]:
        """None."""
        return {}

    def state(self) -> State:
        """Nothing."""
        return State()


class ViewShard(RowsShard[HostedView, Side]):
    """See the module. What the pipeline has not dealt with yet is in `applied`, `statements`, `replies` and `requests`,
    for it to empty.
    """

    SCHEMA = Schema("views", 2, {1: with_late_sources})

    def __init__(self, views: Views) -> None:
        super().__init__(views.name, views.tables, Side)
        self._readers[refreshes_topic(views.name)] = self._request
        self.applied: list[Applied] = []
        self.statements: list[Ordered] = []
        self.replies: list[dict[str, object]] = []
        self.requests: list[Request] = []
        self._before: int | None = None  # the watermark before the one that is being reached

    @property
    def steps(self) -> int:
        """How many changes have applied, over all tables: the newest version."""
        return self._steps

    @property
    def queries(self) -> dict[str, CreateQuery]:
        """The views that exist."""
        return {name: self._catalogue.queries[name] for name in self._queries}

    def _is_hosted(self, query: CreateQuery) -> bool:
        return query.select.pipeline.views

    def _make(self, query: CreateQuery, state: State | None) -> HostedView:
        return HostedView()

    def _advance(self, before: int | None, due: Sequence[Changes]) -> None:
        self._before = before or 0
        super()._advance(before, due)
        self._before = None

    def _publish(self, effects: Sequence[Changes], steps: Sequence[Integers]) -> None:
        for side, changes, of in zip(self._sides, effects, steps, strict=True):
            if len(changes):
                self.applied.append(self._applied(side, changes, of))

    def _applied(self, side: Side, changes: Changes, steps: Integers) -> Applied:
        seen = self._now if self._before is None else self._before
        return Applied(side.table.name, changes, steps, self._steps, seen)

    def _carry_out(self, statement: Statement) -> str:
        if isinstance(statement, CreateQuery | Drop):
            self.statements.append(Ordered(statement, self._steps, self._now))
        return super()._carry_out(statement)

    def _forget(self, side: Side) -> None:
        super()._forget(side)
        _, gone, steps = self._changed[-1]
        if len(gone):
            self.applied.append(self._applied(side, gone, steps))

    def _drain_outputs(self) -> list[Output]:
        self._changed = []
        self.replies += self._replies
        self._replies.clear()
        return super()._drain_outputs()

    def _request(self, entry: Entry) -> None:
        self.requests += self._decoded(entry.payload, _read_requests, "a request cannot be read: ") or ()


def _read_requests(payload: bytes) -> list[Request]:
    """The requests of an entry.

    Raises:
        ValueError: it is no such entry.
    """
    batch = unpack(payload)
    if not batch.schema.equals(REQUESTS):
        raise ValueError(f"columns must be {REQUESTS.names}, got {batch.schema.names}")
    if any(column.null_count for column in batch.columns):
        raise ValueError(f"{', '.join(REQUESTS.names)} must not be NULL")
    return [Request(row["view"], row["request"], row["at"]) for row in batch.to_pylist()]
