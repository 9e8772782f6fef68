"""The registry of listeners to queries over tables: one factory per kind of query, by the type of its select."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tolerant.client.feeds import Extractor, Listener
from tolerant.client.positions import Position
from tolerant.client.range_answer_listener import NoticeListenerFactory
from tolerant.client.result_listener import JoinListenerFactory, KeptListenerFactory
from tolerant.client.row_listener import RowListenerFactory
from tolerant.client.view_refresh import ViewListenerFactory
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.statements import (
    BandJoinSelect,
    EqualityJoinSelect,
    KeepJoinSelect,
    RangeAggregateSelect,
    RangeSelect,
    Select,
    ViewSelect,
)
from tolerant.transport import Log


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


LISTENERS: dict[type[Select], Callable[..., ListenerFactory]] = {
    RangeSelect: RowListenerFactory,
    RangeAggregateSelect: NoticeListenerFactory,
    BandJoinSelect: JoinListenerFactory,
    EqualityJoinSelect: JoinListenerFactory,
    KeepJoinSelect: KeptListenerFactory,
    ViewSelect: ViewListenerFactory,
}
"""Select → factory, called with the query's statement and its tables, in the order in which it names them."""


def has_listener(query: CreateQuery) -> bool:
    """Return whether a client can subscribe to the query."""
    return type(query.select) in LISTENERS


def listener_factory(query: CreateQuery, tables: tuple[CreateTable, ...]) -> ListenerFactory:
    """Return the factory of listeners to the query; `has_listener` must be true of it."""
    return LISTENERS[type(query.select)](query, *tables)
