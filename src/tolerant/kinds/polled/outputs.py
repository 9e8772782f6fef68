"""What a shard of a polled stream says: answers that changed, and its status, packed for their topics."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tolerant.pipeline.hosting import Output
from tolerant.polling import PolledAnswer, Poller
from tolerant.queries import Aggregate
from tolerant.sql import AggregateSelect, Catalogue
from tolerant.sql.membership import query_and_group
from tolerant.streams import SECOND, Stream
from tolerant.transport import rows
from tolerant.transport.pulls import POLLED_ANSWERS
from tolerant.transport.rows import compacted, current_body, pack
from tolerant.transport.topics import SEVERAL, answers_topic, current_topic, status_topic


class Said(NamedTuple):
    """What was last said of a query's group."""

    low: float | None
    value: float | None
    high: float | None
    stale: bool
    settling: bool
    fidelity: float
    delivered: float | None
    learning: bool


class Saying:
    """Which answers may have changed, and those that have: unchanged ones are not said again."""

    def __init__(self) -> None:
        self._queries: dict[str, Aggregate] = {}
        self._of_item: dict[str, list[str]] = {}
        self._withheld: frozenset[str] = frozenset()
        self._said: dict[str, Said] = {}
        self._touched: set[str] = set()
        self._changed: list[tuple[str, int, Said]] = []
        self._outputs: list[Output] = []

    def arrange(self, queries: Sequence[Aggregate], withheld: frozenset[str], at: int) -> None:
        """There are these queries now; `withheld` names those that do not say unsettled answers."""
        before = self._queries
        self._index(queries)
        self._withheld = withheld
        self._touched &= self._queries.keys()
        self._touched |= {name for name, query in self._queries.items() if before.get(name) != query}
        gone = [name for name in before if name not in self._queries]
        if gone:
            self._pack()
            for name in gone:
                self._said.pop(name, None)
                query, group = query_and_group(name)
                self._outputs.append(Output(current_topic(query), pack(compacted([(group, at, None)]))))

    def _index(self, queries: Sequence[Aggregate]) -> None:
        self._queries = {query.name: query for query in queries}
        self._of_item = {}
        for query in queries:
            for item in query.weights:
                self._of_item.setdefault(item, []).append(query.name)

    def touch(self, items: Iterable[str]) -> None:
        """Something became known about these items."""
        for item in items:
            self._touched.update(self._of_item.get(item, ()))

    def touch_queries(self, names: Iterable[str]) -> None:
        """Something became known about these queries."""
        self._touched.update(name for name in names if name in self._queries)

    def touch_all(self) -> None:
        """Something became known about every query."""
        self._touched.update(self._queries)

    def end(self, poller: Poller, tick: int, length: int) -> None:
        """If a tick ends before `tick`, say what changed in it as of its end. length: of a tick, microseconds."""
        if poller.now is not None and poller.now < tick:
            self.settle(poller, (poller.now + 1) * length)

    def settle(self, poller: Poller, at: int) -> None:
        """Say what has changed as of event time `at`."""
        if not self._touched:
            return
        touched, self._touched = sorted(self._touched), set()
        answers = {answer.query: answer for answer in poller.current(only=touched)}
        for name in touched:
            said = _said(self._queries[name], answers.get(name))
            if said != self._said.get(name):
                self._said[name] = said
                if not ((said.stale or said.settling) and query_and_group(name)[0] in self._withheld):
                    self._changed.append((name, at, said))

    def standing(self, name: str) -> list[tuple[Aggregate, Said]]:
        """The groups of a query, with what was last said of each."""
        return [
            (query, self._said[instance])
            for instance, query in self._queries.items()
            if query_and_group(instance)[0] == name and instance in self._said
        ]

    def take(self) -> list[Output]:
        """The outputs since this was last asked."""
        self._pack()
        outputs, self._outputs = self._outputs, []
        return outputs

    def _pack(self) -> None:
        """Answers, each for its query's topic, and the newest of each group as the current one."""
        changed, self._changed = self._changed, []
        by_topic: dict[str, list[dict[str, object]]] = {}
        newest: dict[str, dict[str, object]] = {}
        for name, at, said in changed:
            query, group = query_and_group(name)
            row = {"query": query, "group": group, "at": at, **said._asdict()}
            by_topic.setdefault(query, []).append(row)
            newest[name] = row
        for query, listed in by_topic.items():
            self._outputs.append(Output(answers_topic(query), pack(pa.RecordBatch.from_pylist(listed, POLLED_ANSWERS))))
        if newest:
            current = [
                {
                    "topic": current_topic(str(row["query"])),
                    "key": row["group"],
                    "version": row["at"],
                    "body": current_body(row),
                }
                for row in newest.values()
            ]
            self._outputs.append(Output(SEVERAL, pack(pa.RecordBatch.from_pylist(current, rows.SEVERAL))))

    def state(self) -> Any:
        """Everything, after `take`."""
        return [sorted(self._withheld), self._said, sorted(self._touched)]

    def load(self, values: Any, queries: Sequence[Aggregate]) -> None:
        """Become what `state` said, for the queries that there were."""
        withheld, said, touched = values
        self._withheld, self._touched = frozenset(withheld), set(touched)
        self._said = {name: Said(*one) for name, one in said.items()}
        self._index(queries)


def _said(query: Aggregate, answer: PolledAnswer | None) -> Said:
    """Of items that were never pulled, or cannot be had, nothing is promised: the ends are unknown."""
    if answer is None:
        return Said(None, None, None, False, True, query.fidelity, None, True)
    delivered = None if math.isnan(answer.fidelity) else answer.fidelity
    low, high = (None, None) if answer.stale else (answer.low, answer.high)
    return Said(low, answer.value, high, answer.stale, answer.learning, answer.claimed, delivered, answer.learning)


def polled_status(
    stream: Stream,
    catalogue: Catalogue,
    poller: Poller,
    saying: Saying,
    summary: Mapping[str, Any],
    first: Mapping[str, int],
    reasons: Mapping[str, str],
) -> Output:
    """How the shard is, for `tolerant status` and `explain`: a summary and a table of items.

    first: the tick of each item's first pull. reasons: why the last pull of an item failed.
    """
    queries = {
        query.name: _query_summary(query.name, query.select, saying)
        for query in catalogue.queries_over(stream.name)
        if isinstance(query.select, AggregateSelect)
    }
    items = _item_table(stream, poller, first, reasons)
    whole = {
        "stream": stream.name,
        "polled": True,
        "epoch": 0,
        "boundaries": 0,
        "items": len(items),
        "pulls_per_second": float(np.sum(items.column("pulls_per_second").to_numpy())),
        **summary,
        "queries": queries,
    }
    bodies = [(f"summary/{summary['shard']}", json.dumps(whole).encode()), (f"polled/{summary['shard']}", pack(items))]
    return Output(
        status_topic(stream.name), pack(compacted([(key, summary["watermark"], body) for key, body in bodies]))
    )


def _query_summary(name: str, select: AggregateSelect, saying: Saying) -> dict[str, object]:
    groups = saying.standing(name)
    delivered = [said.delivered for _, said in groups if said.delivered is not None]
    return {
        "within": select.within,
        "fn": select.fn,
        "fidelity": groups[0][0].fidelity if groups else select.fidelity,
        "delivered": min(delivered, default=None),
        "groups": len(groups),
        "items": sum(len(query.weights) for query, _ in groups),
        "settling": sum(said.settling for _, said in groups),
        "stale": sum(said.stale for _, said in groups),
        "learning": sum(said.learning for _, said in groups),
        "late_us": 0,
    }


def _item_table(stream: Stream, poller: Poller, first: Mapping[str, int], reasons: Mapping[str, str]) -> pa.RecordBatch:
    names, known, now = poller.items, poller.figures(), poller.now or 0
    seen = np.array([now + 1 - first.get(name, now) for name in names], np.float64)
    overdue = poller.overdue()
    return pa.record_batch(
        {
            "key": pa.array(names, pa.string()),
            "value": pa.array(known["value"], pa.float64(), from_pandas=True),
            "age": pa.array(np.where(known["last"] < 0, -1, now - known["last"]), pa.int64()),  # ticks; −1: no value
            "pulls": pa.array(known["pulls"], pa.int64()),
            "pulls_per_second": pa.array(known["pulls"] / seen * SECOND / stream.options.tick, pa.float64()),
            "variance": pa.array(known["variance"], pa.float64()),  # of the change per tick
            "failures": pa.array(known["failures"], pa.int64()),  # in a row
            "reason": pa.array([reasons.get(name, "") for name in names], pa.string()),
            "stale": pa.array([name in overdue for name in names], pa.bool_()),
        }
    )
