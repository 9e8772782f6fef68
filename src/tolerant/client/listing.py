"""The subscriptions that there are: a fold over the log, as the pipelines make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tolerant.relations import Subscriptions
from tolerant.sql import Catalogue, CreateQuery, Drop, Subscribe, home_of, parameter_types, render
from tolerant.sql.wire import statements_in
from tolerant.transport import Log, rows
from tolerant.transport.log import QUERIES, Entry
from tolerant.transport.subscriptions import read_subscription_rows, template_of, topic_of

_ENTRIES = 100  # that are read at a time


@dataclass(frozen=True)
class SubscriptionPage:
    """Some of the subscriptions, in the order of their queries' names and ids, and how many there are in all."""

    statements: tuple[tuple[int, Subscribe], ...]
    """Pairs of an id and the SUBSCRIBE that would make it."""
    total: int

    def texts(self) -> list[str]:
        """Each as the statement that would make it."""
        return [render(statement) for _, statement in self.statements]


def list_subscriptions(log: Log, query: str = "", limit: int = 100, offset: int = 0) -> SubscriptionPage:
    """The subscriptions to one template, or to all, `limit` of them from the `offset`-th on.

    Costs one pass over the log's subscriptions, whatever the page: 40 bytes of memory for each that there is.
    """
    catalogue, held = _fold(log)
    names = [name for name in sorted(held) if query in ("", name)]
    found: list[tuple[int, Subscribe]] = []
    passed = 0
    for name in names:
        ids = np.sort(held[name].ids())
        begin = min(max(offset - passed, 0), len(ids))
        chosen = ids[begin : begin + limit - len(found)]
        columns = held[name].of(chosen)
        values = zip(*(columns[parameter].tolist() for parameter in catalogue.queries[name].parameters), strict=True)
        found += [(number, Subscribe(name, row)) for number, row in zip(chosen.tolist(), values, strict=True)]
        passed += len(ids)
    return SubscriptionPage(tuple(found), passed)


def _fold(log: Log) -> tuple[Catalogue, dict[str, Subscriptions]]:
    """Statements and subscriptions in the order of the log: a query that is dropped takes its subscriptions along."""
    catalogue = Catalogue()
    held: dict[str, Subscriptions] = {}
    homes: dict[str, str] = {}
    for entry in _entries(log):
        if entry.topic == QUERIES:
            _take_statements(entry, catalogue, held, homes)
        else:
            _take_subscriptions(entry, catalogue, held, homes)
    return catalogue, held


def _entries(log: Log) -> Iterator[Entry]:
    topics = [QUERIES, *(topic for topic in log.topics() if topic.startswith("subscriptions."))]
    position = 0
    while entries := log.read(topics, position, limit=_ENTRIES):
        position = entries[-1].position
        yield from entries


def _take_statements(entry: Entry, catalogue: Catalogue, held: dict[str, Subscriptions], homes: dict[str, str]) -> None:
    for statement in statements_in(entry.payload):
        if not catalogue.apply(statement).changed:
            continue
        if isinstance(statement, CreateQuery) and statement.parameters:
            types = parameter_types(statement, catalogue.tables_of(statement))
            held[statement.name], homes[statement.name] = Subscriptions(types), topic_of(home_of(statement.select))
        elif isinstance(statement, Drop) and statement.what == "query":
            held.pop(statement.name, None)


def _take_subscriptions(
    entry: Entry, catalogue: Catalogue, held: dict[str, Subscriptions], homes: dict[str, str]
) -> None:
    try:
        batch = rows.unpack(entry.payload)
        name = template_of(batch)
        if name not in held or homes[name] != entry.topic:
            return
        joining, ids, columns = read_subscription_rows(batch, held[name].parameters)
    except ValueError:
        return  # a dead letter to the pipeline
    # A batch is of one kind as it is sent; where it is not, runs of a kind keep the order.
    for run in np.split(np.arange(len(ids)), np.flatnonzero(np.diff(joining.astype(np.int8))) + 1):
        if len(run) and joining[run[0]]:
            held[name].add_many(ids[run], {parameter: column[run] for parameter, column in columns.items()})
        elif len(run):
            held[name].remove_many(ids[run])
