"""How a client hears what a query over a table or two says: one class a kind of query, listed here by their select."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tolerant.client.deliveries import RowHearing
from tolerant.client.feeds import Extractor, Listener
from tolerant.client.notices import NoticeHearing
from tolerant.client.positions import Position
from tolerant.client.refreshing import ViewHearing
from tolerant.client.results import JoinHearing, KeptHearing
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


class Hearing(Protocol):
    """What a client needs to know of a query to listen to subscriptions of it.

    `numbers` are the ids of subscriptions, `parameters` an array a parameter, parallel to them.
    """

    @property
    def extractor(self) -> Extractor:
        """What finds the subscriptions' own in the query's topic."""
        ...

    def begin(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any]
    ) -> list[tuple[Listener, list[Any]]]:
        """For each subscription a listener that stands at the log's end, and the current answer as changes."""
        ...

    def resume(
        self, log: Log, numbers: Sequence[int], parameters: Mapping[str, Any], positions: Sequence[Position]
    ) -> list[Listener]:
        """For each subscription a listener that has dealt with everything up to its position."""
        ...

    def change(self, what: Any, position: Position) -> Any:
        """What a listener was handed, as the application sees it."""
        ...


HEARINGS: dict[type[Select], Callable[..., Hearing]] = {
    RangeSelect: RowHearing,
    RangeAggregateSelect: NoticeHearing,
    BandJoinSelect: JoinHearing,
    EqualityJoinSelect: JoinHearing,
    KeepJoinSelect: KeptHearing,
    ViewSelect: ViewHearing,
}
"""What makes the hearing of a query, from its statement and its tables, in the order in which it names them."""


def can_be_heard(query: CreateQuery) -> bool:
    """Whether a client can subscribe to the query."""
    return type(query.select) in HEARINGS


def hearing(query: CreateQuery, tables: tuple[CreateTable, ...]) -> Hearing:
    """How to listen to the query; `can_be_heard` must be true of it."""
    return HEARINGS[type(query.select)](query, *tables)
