"""Listens to the results of a join with `KEEP n ROWS`, and reads how many of all results they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tolerant.kinds.joins.listener import ResultExtractor, listener_at, packed_marks
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.kinds.ranges.listener import RowChange
from tolerant.sql import CreateQuery, CreateTable
from tolerant.transport import Log, Record
from tolerant.transport.deliveries import row_of
from tolerant.transport.feeds import Listener
from tolerant.transport.positions import Position
from tolerant.transport.records import read_json
from tolerant.transport.results import kept_schema
from tolerant.transport.topics import current_topic

_SHARE = {"found", "share", "error"}


@dataclass(frozen=True)
class KeptChange(RowChange):
    """A result row of a join with `KEEP n ROWS`. `share`: estimated share of all results found by then; where rows are
    looked up, the share of the rows that were in memory.
    """

    share: float = 1.0
    looked_up: bool = False


@dataclass(frozen=True)
class KeptShare:
    """How many results a join with `KEEP n ROWS` has found, an estimate of their share of all results, and the standard
    error of the estimate. Where rows are looked up all results are found: the share is that of the rows that were in
    memory, and `fetched` the number of rows that had to be fetched.
    """

    found: int
    share: float
    error: float
    fetched: int | None = None


class KeptListenerFactory:
    """Creates listeners to a join with `KEEP n ROWS`: past results are not stored, so they begin with the next one."""

    def __init__(self, query: CreateQuery, left: CreateTable, right: CreateTable) -> None:
        select = KeepJoinSelect.of(query)
        self._query, self._select = query, select
        columns = [(table.name, table.columns) for table in (left, right)]
        self.extractor = ResultExtractor(query.name, kept_schema(columns, select.shards))

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """See `ListenerFactory.begin`; there is no current answer."""
        # The step first: what is published between the two reads came before the beginning.
        records = share_records(log, self._query.name, self._select.shards)
        first = -1 if records[0] is None else records[0].version
        marks = [first if record is None else record.version for record in records]
        start = Position(log.end(), mark=packed_marks(marks))
        return [(listener_at(start, self._select.shards), []) for _ in numbers]

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """See `ListenerFactory.resume`."""
        return [listener_at(position, self._select.shards) for position in positions]

    def change(self, content: Mapping[str, Any], position: Position) -> KeptChange:
        """See `ListenerFactory.change`."""
        share, looked_up = content["share"], self._select.file is not None
        return KeptChange(content["kind"], row_of(content), content["at"], position, share=share, looked_up=looked_up)


def share_records(log: Log, query: str, shards: int) -> list[Record | None]:
    """Return each shard's newest record of its share of results; the first shard's may be for all of them."""
    return [log.latest(current_topic(query), str(shard or "")) for shard in range(shards)]


def kept_share(log: Log, query: str, shards: int = 1) -> KeptShare | None:
    """Return the newest share of a join with `KEEP n ROWS`; None: it is no such join, or has found no result yet."""
    records = [record for record in share_records(log, query, shards) if record is not None]
    read = [read_json(record.body, f"what is known of {query}") for record in records]
    bodies = [body for body in read if body is not None]
    if not bodies or not all(isinstance(body, dict) and body.keys() - {"fetched"} == _SHARE for body in bodies):
        return None
    return KeptShare(**{**bodies[0], "found": sum(body["found"] for body in bodies)})
