"""What creates listeners to queries over tables: each kind of query has its own (`QueryKind.listener`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.query_kind import listener_of
from tolerant.transport import Log
from tolerant.transport.feeds import Extractor, Listener
from tolerant.transport.positions import Position


class ListenerFactory(Protocol):
    """Creates listeners for subscriptions of one query.

    `numbers` are the ids of subscriptions, `parameters` has one array per parameter, parallel to them.
    """

    @property
    def extractor(self) -> Extractor:
        """Finds each subscription's part of the query's topic."""
        ...

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """Return for each subscription a listener at the log's end, and the current answer as changes."""
        ...

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """Return for each subscription a listener that has processed everything up to its position."""
        ...

    def change(self, content: Any, position: Position) -> Any:
        """Return the change that an application sees for the content that a listener got."""
        ...


def has_listener(query: CreateQuery) -> bool:
    """Return whether a client can subscribe to the query."""
    return listener_of(query) is not None


def listener_factory(query: CreateQuery, tables: tuple[CreateTable, ...]) -> ListenerFactory:
    """Return the factory of listeners to the query; `has_listener` must be true of it."""
    make = listener_of(query)
    assert make is not None
    made: ListenerFactory = make(query, *tables)
    return made
