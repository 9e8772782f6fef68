"""The plans of a query over a network, as its pipeline last told them, and the naive ones to compare with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tolerant.cli.figures import MessageRates
from tolerant.cli.reporting import CommandError
from tolerant.client import load_catalogue
from tolerant.kernels import snapshots
from tolerant.planning import Dynamics, Network, PartExplanation, Plan, Unsatisfiable, plan
from tolerant.queries import Aggregate
from tolerant.sql.membership import query_and_group
from tolerant.sql.networks import network_of
from tolerant.sql.refusals import no_such
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log
from tolerant.transport.records import records_of, skipping
from tolerant.transport.topics import status_topic


@dataclass(frozen=True)
class Planned:
    """One group of a query: its plan, None where it is `refused`, and what asking for each item apart would be."""

    group: str
    query: Aggregate
    version: int
    plan: Plan | None
    naive: Plan | None
    refused: str
    tick: float
    """Seconds."""

    def explained(self) -> tuple[PartExplanation, ...]:
        """What each part of the plan does."""
        return self.plan.explain(self.tick) if self.plan else ()

    def explained_naive(self) -> tuple[PartExplanation, ...]:
        """What each part of the naive plan would do."""
        return self.naive.explain(self.tick) if self.naive else ()

    def record(self) -> dict[str, Any]:
        """For programs."""
        return {
            "query": query_and_group(self.query.name)[0],
            "group": self.group,
            "fn": self.query.fn,
            "within": self.query.within,
            "version": self.version,
            "refused": self.refused or None,
            "parts": [_part(part) for part in self.explained()],
            "naive": [_part(part) for part in self.explained_naive()],
        }


def _part(part: PartExplanation) -> dict[str, Any]:
    return {
        "aggregator": part.aggregator,
        "items": list(part.items),
        "within": part.bound,
        "floor": part.floor,
        "push": part.push,
        "refreshes_per_hour": part.refreshes,
        "cancelled": part.cancelled,
    }


def total(parts: tuple[PartExplanation, ...]) -> float | None:
    """Refreshes an hour of a whole plan; None before anything is known of the items."""
    rates = [part.refreshes for part in parts if part.refreshes is not None]
    return sum(rates) if len(rates) == len(parts) and parts else None


def planned(log: Log, name: str) -> tuple[Stream, list[Planned]]:
    """The stream of a query, and the query's groups with their plans.

    Raises:
        CommandError: there is no such query, it is over no network, or no pipeline has planned it yet.
    """
    catalogue = load_catalogue(log)
    query = catalogue.queries.get(name)
    if query is None:
        raise CommandError(no_such("query", name, catalogue.queries))
    select = query.select.aggregate
    if select is None or not catalogue.streams[select.stream].networked:
        raise CommandError(f"query {name} has no plan: its stream was created without FROM 'network.toml'")
    stream = catalogue.streams[select.stream]
    network = network_of(stream)
    bodies = dict(_bodies(log, stream.name))
    groups = []
    for key, body in bodies.items():
        with skipping("a plan", key):
            if key.startswith("plan/") and json.loads(key.removeprefix("plan/"))[0] == name:
                dynamics = _dynamics(bodies.get("dynamics/0"), network)
                groups.append(_planned(json.loads(body), network, dynamics, stream))
    if not groups:
        raise CommandError(f"no pipeline has planned {name} yet; is `tolerant run` running?")
    return stream, sorted(groups, key=lambda group: group.group)


def _bodies(log: Log, stream: str) -> Iterator[tuple[str, bytes]]:
    for key, _, body in records_of(log, status_topic(stream)):
        if body is not None:
            yield key, body


def _dynamics(body: bytes | None, network: Network) -> Dynamics:
    if body is None:
        body = snapshots.pack({}, [list(network.items), 0, []])
    arrays, (items, ticks, _) = snapshots.unpack(body)
    import numpy as np

    n = len(items)
    sumdiff = arrays.get("sumdiff", np.zeros(n))
    return Dynamics(tuple(items), sumdiff, arrays.get("cosine", np.eye(n)).astype(np.float64), ticks)


def _planned(record: dict[str, Any], network: Network, dynamics: Dynamics, stream: Stream) -> Planned:
    query = Aggregate(record["query"], record["fn"], record["weights"], record["within"])
    made = naive = None
    if record["plan"] is not None:
        gone = [name for name in network.aggregators if name not in record["aggregators"]]
        alive = network.without(*gone) if gone else network
        made = replace(Plan.of_record(record["plan"], query, alive), dynamics=dynamics)
        try:
            naive = plan(query, alive, dynamics, "naive")
        except Unsatisfiable:
            naive = None
    group = query_and_group(query.name)[1]
    return Planned(group, query, record["version"], made, naive, record["refused"], stream.options.tick / SECOND)


def plan_messages(log: Log, name: str) -> MessageRates | None:
    """What a query's plan is expected to send; None before it has one."""
    try:
        stream, groups = planned(log, name)
    except CommandError:
        return None
    rate = sum(total(group.explained()) or 0.0 for group in groups) / 3600
    items = sum(len(group.query.weights) for group in groups)
    return MessageRates(items, rate, items * SECOND / stream.options.tick, "refreshes")
