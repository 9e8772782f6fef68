"""What the shard of a stream with a network says: plans, answers that changed, and its status."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.kinds.network.queries import Said, Standing
from tolerant.pipeline.hosting import Output
from tolerant.planning import Plan, Planner
from tolerant.sql import AggregateSelect, CreateQuery
from tolerant.sql.membership import query_and_group
from tolerant.streams import Stream
from tolerant.transport import rows
from tolerant.transport.plans import Wanted, plan_body, plan_key
from tolerant.transport.rows import ANSWERS, compacted, current_body, pack
from tolerant.transport.topics import SEVERAL, answers_topic, current_topic, grants_topic, status_topic


class Saying:
    """Which answers may have changed, and those that have; which plans are to be announced."""

    def __init__(self) -> None:
        self._said: dict[str, Said] = {}
        self._touched: set[str] = set()
        self._planned: set[str] = set()
        self._learned = False
        self._changed: dict[tuple[str, int], Said] = {}
        self._plans: dict[str, tuple[int, bytes | None]] = {}
        self._outputs: list[Output] = []

    def touch(self, name: str) -> None:
        """The answer of a query's group may be another."""
        self._touched.add(name)

    @property
    def touched(self) -> list[str]:
        """The groups whose answers may be others than was last said."""
        return sorted(self._touched)

    def planned(self, name: str) -> None:
        """Its plan is another."""
        self._planned.add(name)

    def learned(self) -> None:
        """More is known of how items move."""
        self._learned = True

    def announce(self, name: str, version: int, wanted: Sequence[Wanted]) -> None:
        """Say what is wanted for a query's group, from this version on."""
        self._plans[plan_key(*query_and_group(name))] = (version, plan_body(wanted))

    def forget(self, name: str, version: int, at: int) -> None:
        """The group is no more."""
        query, group = query_and_group(name)
        self._said.pop(name, None)
        self._touched.discard(name)
        self._planned.add(name)
        self._plans[plan_key(query, group)] = (version, None)
        self._pack_answers()
        self._outputs.append(Output(current_topic(query), pack(compacted([(group, at, None)]))))

    def settle(self, standing: Mapping[str, Standing], at: int, withheld: frozenset[str]) -> None:
        """Note what has changed as of event time `at`; of several answers for one time the last counts. Unsettled
        answers of `withheld` queries are not said.
        """
        if not self._touched:
            return
        touched, self._touched = sorted(self._touched), set()
        for name in touched:
            said = standing[name].said()
            if said == self._said.get(name):
                continue
            self._said[name] = said
            self._changed.pop((name, at), None)
            if not ((said.stale or said.settling) and query_and_group(name)[0] in withheld):
                self._changed[name, at] = said

    def take(self, stream: str) -> list[Output]:
        """The outputs since this was last asked."""
        self._pack_answers()
        outputs, self._outputs = self._outputs, []
        if self._plans:
            listed = [(key, version, body) for key, (version, body) in self._plans.items()]
            outputs.append(Output(grants_topic(stream), pack(compacted(listed))))
            self._plans = {}
        return outputs

    def _pack_answers(self) -> None:
        changed, self._changed = self._changed, {}
        by_topic: dict[str, list[dict[str, object]]] = {}
        newest: dict[str, dict[str, object]] = {}
        for (name, at), said in changed.items():
            query, group = query_and_group(name)
            row = {"query": query, "group": group, "at": at, **said._asdict()}
            by_topic.setdefault(query, []).append(row)
            newest[name] = row
        for query, listed in by_topic.items():
            self._outputs.append(Output(answers_topic(query), pack(pa.RecordBatch.from_pylist(listed, ANSWERS))))
        if newest:
            current = [
                {"topic": current_topic(str(row["query"])), "key": row["group"], "version": row["at"],
                 "body": current_body(row)}
                for row in newest.values()
            ]  # fmt: skip
            self._outputs.append(Output(SEVERAL, pack(pa.RecordBatch.from_pylist(current, rows.SEVERAL))))

    def take_planned(self) -> tuple[list[str], bool]:
        """The groups whose plans changed since this was last asked, and whether more is known of the items."""
        found, self._planned = sorted(self._planned), set()
        learned, self._learned = self._learned, False
        return found, learned

    def state(self) -> Any:
        """Everything, after `take`."""
        return [self._said, sorted(self._touched), sorted(self._planned), self._learned]

    def load(self, values: Any) -> None:
        """Become what `state` said."""
        said, touched, planned, self._learned = values
        self._said = {name: Said(*one) for name, one in said.items()}
        self._touched, self._planned = set(touched), set(planned)


def network_status(
    stream: Stream,
    summary: Mapping[str, Any],
    queries: Sequence[CreateQuery],
    standing: Mapping[str, Standing],
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
        "queries": {query.name: _query_summary(query, standing, lost) for query in queries},
    }
    bodies: list[tuple[str, bytes | None]] = [(f"summary/{summary['shard']}", json.dumps(whole).encode())]
    changed, learned = planned
    for name in changed:
        body = plan_record(standing[name]) if name in standing else None
        bodies.append((f"plan/{plan_key(*query_and_group(name))}", body))
    if learned:
        known = planner.dynamics.dynamics()
        arrays: dict[str, NDArray[Any]] = {"sumdiff": known.sumdiff, "cosine": known.cosine.astype(np.float32)}
        down = sorted(name for name, one in whole["sources"].items() if one["stale"])
        bodies.append(("dynamics/0", snapshots.pack(arrays, [list(known.items), known.ticks, down])))
    return Output(status_topic(stream.name), pack(compacted([(key, watermark, body) for key, body in bodies])))


def plan_record(standing: Standing) -> bytes:
    """A group's newest plan as JSON: what is needed to make it a `Plan` again."""
    plans = standing.plans()
    plan: Plan | None = plans[-1][1] if plans and not standing.refused else None
    query = standing.query
    found = {
        "query": query.name,
        "fn": query.fn,
        "weights": dict(query.weights),
        "within": query.within,
        "version": plans[-1][0] if plans else 0,
        "aggregators": list(plan.network.aggregators) if plan else [],
        "plan": plan.record() if plan else None,
        "refused": standing.refused,
    }
    return json.dumps(found).encode()


def _query_summary(query: CreateQuery, standing: Mapping[str, Standing], lost: Mapping[str, int]) -> dict[str, object]:
    select = query.select
    assert isinstance(select, AggregateSelect)
    groups = [one for name, one in standing.items() if query_and_group(name)[0] == query.name]
    said = [one.said() for one in groups]
    return {
        "within": select.within,
        "fn": select.fn,
        "groups": len(groups),
        "items": sum(len(one.query.weights) for one in groups),
        "parts": sum(len(plan.parts) for one in groups for _, plan in one.plans()[:1]),
        "settling": sum(one.settling for one in said),
        "stale": sum(one.stale for one in said),
        "late_us": lost.get(query.name, 0),
    }
