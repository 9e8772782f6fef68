"""Lists the subscriptions, by the same fold over the log as the pipelines make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tolerant.relations import SubscriptionTable
from tolerant.sql import Catalogue, CreateQuery, Drop, PipelineId, Subscribe, parameter_types, render
from tolerant.sql.wire import statements_in
from tolerant.transport import Log, rows
from tolerant.transport.log import Entry
from tolerant.transport.subscriptions import read_subscription_rows, template_of
from tolerant.transport.topics import QUERIES, TopicKind, subscriptions_topic

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class SubscriptionPage:
    """A page of subscriptions, in the order of their queries' names and ids, and how many there are in all."""

    statements: tuple[tuple[int, Subscribe], ...]
    """Pairs of an id and the SUBSCRIBE that would create it."""
    total: int

    def texts(self) -> list[str]:
        """Return each as the text of the statement that would create it."""
        return [render(statement) for _, statement in self.statements]


def list_subscriptions(log: Log, query: str = "", limit: int = 100, offset: int = 0) -> SubscriptionPage:
    """Return the subscriptions to one template, or to all, `limit` of them from the `offset`-th on.

    Costs one pass over the log's subscriptions, whatever the page, and 40 bytes of memory per subscription.
    """
    catalogue, by_query = _fold(log)
    names = [name for name in sorted(by_query) if query in ("", name)]
    page: list[tuple[int, Subscribe]] = []
    passed = 0
    for name in names:
        ids = np.sort(by_query[name].ids())
        begin = min(max(offset - passed, 0), len(ids))
        chosen = ids[begin : begin + limit - len(page)]
        columns = by_query[name].of(chosen)
        values = zip(*(columns[parameter].tolist() for parameter in catalogue.queries[name].parameters), strict=True)
        page += [(number, Subscribe(name, row)) for number, row in zip(chosen.tolist(), values, strict=True)]
        passed += len(ids)
    return SubscriptionPage(tuple(page), passed)


def _fold(log: Log) -> tuple[Catalogue, dict[str, SubscriptionTable]]:
    """Apply statements and subscriptions in the order of the log: dropping a query drops its subscriptions."""
    catalogue = Catalogue()
    by_query: dict[str, SubscriptionTable] = {}
    topics: dict[str, str] = {}
    for entry in _entries(log):
        if entry.topic == QUERIES:
            _apply_statements(entry, catalogue, by_query, topics)
        else:
            _apply_subscriptions(entry, catalogue, by_query, topics)
    return catalogue, by_query


def _entries(log: Log) -> Iterator[Entry]:
    listed = [QUERIES, *(topic for topic in log.topics() if TopicKind.SUBSCRIPTIONS.matches(topic))]
    position = 0
    while entries := log.read(listed, position, limit=_ENTRIES):
        position = entries[-1].position
        yield from entries


def _apply_statements(
    entry: Entry, catalogue: Catalogue, by_query: dict[str, SubscriptionTable], topics: dict[str, str]
) -> None:
    for statement in statements_in(entry.payload):
        if not catalogue.apply(statement).changed:
            continue
        if isinstance(statement, CreateQuery) and statement.parameters:
            types = parameter_types(statement, catalogue.tables_of(statement))
            by_query[statement.name], topics[statement.name] = (
                SubscriptionTable(types),
                subscriptions_topic(str(PipelineId.of(statement.select))),
            )
        elif isinstance(statement, Drop) and statement.what == "query":
            by_query.pop(statement.name, None)


def _apply_subscriptions(
    entry: Entry, catalogue: Catalogue, by_query: dict[str, SubscriptionTable], topics: dict[str, str]
) -> None:
    try:
        batch = rows.unpack(entry.payload)
        name = template_of(batch)
        if name not in by_query or topics[name] != entry.topic:
            return
        joining, ids, columns = read_subscription_rows(batch, by_query[name].parameters)
    except ValueError:
        return  # a dead letter to the pipeline
    # A batch is sent with rows of one kind; in one that has both, runs of a kind keep the order.
    for run in np.split(np.arange(len(ids)), np.flatnonzero(np.diff(joining.astype(np.int8))) + 1):
        if len(run) and joining[run[0]]:
            by_query[name].add_many(ids[run], {parameter: column[run] for parameter, column in columns.items()})
        elif len(run):
            by_query[name].remove_many(ids[run])
