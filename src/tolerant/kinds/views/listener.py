"""Listens to the changes of a view, and to its condition becoming true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tolerant.kinds.joins.listener import ResultListener
from tolerant.kinds.ranges.listener import RowChange, current_changes, row_change
from tolerant.kinds.views.refresh import view_rows
from tolerant.sql import CreateQuery, CreateTable
from tolerant.transport import Log
from tolerant.transport.feeds import Extracted, Listener
from tolerant.transport.positions import Position
from tolerant.transport.topics import answers_topic
from tolerant.transport.views import NOTICE, read_view


@dataclass(frozen=True)
class ConditionMet:
    """The condition of a view (`WHEN …`) became true at this event time (microseconds); the changes after it, up to the
    next `ConditionMet`, turn the reader's rows into the view at that time.
    """

    view: str
    at: int
    position: Position | None
    current: bool = False


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
