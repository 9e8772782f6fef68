"""What the demo's answers cost: the messages of the real pipeline beside those that other filters would have sent."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from tolerant.demo.audit import Series
from tolerant.demo.traffic import Shape, generate, statements
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.sql import AggregateSelect, CreateQuery, CreateStream, parse_many
from tolerant.sql.membership import Keys, members
from tolerant.streams import Stream
from tolerant.traces import Trace
from tolerant.transport import Log, rows
from tolerant.transport.topics import updates_topic

MESSAGE_KINDS = ("update", "hello", "heartbeat", "ack", "gone", "form_request")
"""The kinds of rows from a source that count as messages; grants and forms are those that go the other way."""

_PICTURED = ("exact", "uniform")
"""The policies whose messages the demo's picture shows over time, beside those of the pipeline."""

_POLITE = 10  # how much later than others its processes get the processor, as `nice` counts


@dataclass(frozen=True)
class Cost:
    """Messages by kind; `simulated` where no pipeline sent them."""

    name: str
    messages: Mapping[str, int]
    simulated: bool

    @property
    def total(self) -> int:
        """All messages, in both directions."""
        return sum(self.messages.values())


def aggregates(queries: Sequence[CreateQuery], stream: Stream, items: Sequence[str]) -> dict[Series, Aggregate]:
    """Each query, each group of it by itself, over these items."""
    keys = Keys(stream, items)
    of_groups = {}
    for query in queries:
        select = AggregateSelect.of(query)
        for group, weights in members(select, keys).items():
            named = {items[index]: weight for index, weight in weights.items()}
            of_groups[query.name, group] = Aggregate(f"{query.name}/{group}", select.fn, named, select.within)
    return of_groups


def sent(log: Log, stream: str, grants: int, forms: int) -> Cost:
    """What stands in the log: every row of a source, counted by kind, and what the pipeline says to sources."""
    kinds: Counter[str] = Counter()
    for entry in log.read(updates_topic(stream)):
        kinds.update(rows.unpack(entry.payload).column("kind").to_pylist())
    back = {"grant": grants, "form": forms}
    return Cost("predictive filters", {kind: kinds[kind] for kind in MESSAGE_KINDS} | back, simulated=False)


Growth = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Ticks, and messages so far."""


@dataclass(frozen=True)
class Comparison:
    """What other filters would have sent: the costs, and by name how two of them grow over the trace."""

    costs: tuple[Cost, ...]
    growth: Mapping[str, Growth]


def compare(shape: Shape) -> Comparison:
    """Simulate the demo's queries over its trace with other filters."""
    create, queries = statements(shape)
    trace, statement = generate(shape), parse_many(create)[0]
    assert isinstance(statement, CreateStream)
    selected = [query for query in parse_many(queries) if isinstance(query, CreateQuery)]
    asked, period = aggregates(selected, statement.stream, trace.items), shape.period
    costs = (
        simulated("no filters", "exact", trace, asked, period),
        simulated("uniform filters", "uniform", trace, asked, period),
        simulated("predictive filters", "predictive", trace, asked, period),
    )
    drawn = {cost.name: growth(policy, trace, asked, period) for cost, policy in zip(costs, _PICTURED, strict=False)}
    return Comparison(costs, drawn)


class BackgroundComparison:
    """A comparison in a process of its own, with what the machine has to spare: its loops may have to be compiled."""

    def __init__(self, shape: Shape) -> None:
        context = mp.get_context("spawn")  # this process has threads: it cannot be forked
        self._result, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_send_comparison, args=(theirs, shape), name="comparison", daemon=True)
        self._process.start()
        theirs.close()

    def result(self) -> Comparison:
        """Wait for it.

        Raises:
            RuntimeError: the process has died.
        """
        try:
            comparison: Comparison = self._result.recv()
        except EOFError:
            self._process.join()
            raise RuntimeError(f"the comparison ended with exit code {self._process.exitcode}") from None
        self._process.join()
        return comparison


def _send_comparison(connection: Connection, shape: Shape) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the demo, which ends this process
    os.nice(_POLITE)
    connection.send(compare(shape))


def simulated(name: str, policy: str, trace: Trace, queries: Mapping[Series, Aggregate], period: int) -> Cost:
    """What a policy would have sent for the same queries over the same trace, registration left out."""
    run = simulate(trace, list(queries.values()), policy, period=period)
    return Cost(name, {"update": run.updates, "grant": run.grants}, simulated=True)


def growth(policy: str, trace: Trace, queries: Mapping[Series, Aggregate], period: int, points: int = 40) -> Growth:
    """(ticks, messages so far) of a policy, at `points` moments of the trace."""
    ticks = np.unique(np.linspace(2, trace.ticks, points).astype(int))
    counts = []
    for end in ticks.tolist():
        run = simulate(Trace(trace.items, trace.values[:end]), list(queries.values()), policy, period=period)
        counts.append(run.updates + run.grants)
    return ticks.astype(float), np.array(counts, float)
