"""Packs the status of the shard of a stream with a network: summary, plans and dynamics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.kinds.network.queries import NetworkQuery
from tolerant.pipeline.hosting import Output
from tolerant.planning import Plan, Planner
from tolerant.sql import AggregateSelect, CreateQuery
from tolerant.sql.membership import query_and_group
from tolerant.streams import Stream
from tolerant.transport.plans import plan_key
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import status_topic


def network_status(
    stream: Stream,
    summary: Mapping[str, Any],
    queries: Sequence[CreateQuery],
    groups: Mapping[str, NetworkQuery],
    planner: Planner,
    planned: tuple[list[str], bool],
    lost: Mapping[str, int],
) -> Output:
    """How the shard is, for `tolerant status`, and the plans and dynamics that `tolerant plan` shows."""
    watermark = summary["watermark"]
    whole = {
        "stream": stream.name,
        "networked": True,
        "items": len(planner.items),
        **summary,
        "queries": {query.name: _query_summary(query, groups, lost) for query in queries},
    }
    bodies: list[tuple[str, bytes | None]] = [(f"summary/{summary['shard']}", json.dumps(whole).encode())]
    changed, learned = planned
    for name in changed:
        body = plan_record(groups[name]) if name in groups else None
        bodies.append((f"plan/{plan_key(*query_and_group(name))}", body))
    if learned:
        known = planner.dynamics.dynamics()
        arrays: dict[str, NDArray[Any]] = {"sumdiff": known.sumdiff, "cosine": known.cosine.astype(np.float32)}
        down = sorted(name for name, source in whole["sources"].items() if source["stale"])
        bodies.append(("dynamics/0", snapshots.pack(arrays, [list(known.items), known.ticks, down])))
    return Output(status_topic(stream.name), pack(compacted([(key, watermark, body) for key, body in bodies])))


def plan_record(group: NetworkQuery) -> bytes:
    """A group's newest plan as JSON: what is needed to make it a `Plan` again."""
    plans = group.plans()
    plan: Plan | None = plans[-1][1] if plans and not group.refused else None
    query = group.query
    record = {
        "query": query.name,
        "fn": query.fn,
        "weights": dict(query.weights),
        "within": query.within,
        "version": plans[-1][0] if plans else 0,
        "aggregators": list(plan.network.aggregators) if plan else [],
        "plan": plan.record() if plan else None,
        "refused": group.refused,
    }
    return json.dumps(record).encode()


def _query_summary(
    query: CreateQuery, groups: Mapping[str, NetworkQuery], lost: Mapping[str, int]
) -> dict[str, object]:
    select = AggregateSelect.of(query)
    own = [group for name, group in groups.items() if query_and_group(name)[0] == query.name]
    answers = [group.answer() for group in own]
    return {
        "within": select.within,
        "fn": select.fn,
        "groups": len(own),
        "items": sum(len(group.query.weights) for group in own),
        "parts": sum(len(plan.parts) for group in own for _, plan in group.plans()[:1]),
        "settling": sum(answer.settling for answer in answers),
        "stale": sum(answer.stale for answer in answers),
        "late_us": lost.get(query.name, 0),
    }
