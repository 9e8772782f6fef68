"""What the demo's answers cost: the messages of the real pipeline beside those that other filters would have sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.demo.audit import Series
from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.sql import AggregateSelect, CreateQuery
from tolerant.sql.membership import Keys, members
from tolerant.streams import Stream
from tolerant.traces import Trace
from tolerant.transport import Log, rows
from tolerant.transport.topics import updates_topic

MESSAGE_KINDS = ("update", "hello", "heartbeat", "ack", "gone", "form_request")
"""The kinds of rows from a source that count as messages; grants and forms are those that go the other way."""


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
    found = {}
    for query in queries:
        select = query.select
        assert isinstance(select, AggregateSelect)
        for group, weights in members(select, keys).items():
            named = {items[index]: weight for index, weight in weights.items()}
            found[query.name, group] = Aggregate(f"{query.name}/{group}", select.fn, named, select.within)
    return found


def sent(log: Log, stream: str, grants: int, forms: int) -> Cost:
    """What stands in the log: every row of a source, counted by kind, and what the pipeline says to sources."""
    kinds: Counter[str] = Counter()
    for entry in log.read(updates_topic(stream)):
        kinds.update(rows.unpack(entry.payload).column("kind").to_pylist())
    back = {"grant": grants, "form": forms}
    return Cost("predictive filters", {kind: kinds[kind] for kind in MESSAGE_KINDS} | back, simulated=False)


def simulated(name: str, policy: str, trace: Trace, queries: Mapping[Series, Aggregate], period: int) -> Cost:
    """What a policy would have sent for the same queries over the same trace, registration left out."""
    run = simulate(trace, list(queries.values()), policy, period=period)
    return Cost(name, {"update": run.updates, "grant": run.grants}, simulated=True)


def growth(
    policy: str, trace: Trace, queries: Mapping[Series, Aggregate], period: int, points: int = 40
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(ticks, messages so far) of a policy, at `points` moments of the trace."""
    ticks = np.unique(np.linspace(2, trace.ticks, points).astype(int))
    counts = []
    for end in ticks.tolist():
        run = simulate(Trace(trace.items, trace.values[:end]), list(queries.values()), policy, period=period)
        counts.append(run.updates + run.grants)
    return ticks.astype(float), np.array(counts, float)
