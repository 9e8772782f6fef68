"""Packs the outputs of a shard of a polled stream for their topics: answers that changed, and its status."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tolerant.kernels.snapshots import State
from tolerant.pipeline.answers import AnswerPublisher
from tolerant.pipeline.hosting import Output
from tolerant.polling import PolledAnswer, Poller
from tolerant.queries import Aggregate
from tolerant.sql import AggregateSelect, Catalogue
from tolerant.sql.membership import query_and_group
from tolerant.streams import SECOND, Stream
from tolerant.transport.pulls import POLLED_ANSWERS
from tolerant.transport.rows import compacted, pack
from tolerant.transport.topics import status_topic


class PublishedEstimate(NamedTuple):
    """The answer of a query's group in the columns of `POLLED_ANSWERS`."""

    low: float | None
    value: float | None
    high: float | None
    stale: bool
    settling: bool
    fidelity: float
    delivered: float | None
    learning: bool


class PolledAnswers:
    """Publishes the answers of a poller's queries that changed."""

    def __init__(self) -> None:
        self._publisher = AnswerPublisher(PublishedEstimate, POLLED_ANSWERS)
        self._queries: dict[str, Aggregate] = {}
        self._of_item: dict[str, list[str]] = {}
        self._withheld: frozenset[str] = frozenset()

    def arrange(self, queries: Sequence[Aggregate], withheld: frozenset[str], at: int) -> None:
        """Replace the queries; `withheld` names those whose unsettled answers are not published."""
        before = self._queries
        self._index(queries)
        self._withheld = withheld
        self._publisher.touch(name for name, query in self._queries.items() if before.get(name) != query)
        self._publisher.drop([name for name in before if name not in self._queries], at)

    def _index(self, queries: Sequence[Aggregate]) -> None:
        self._queries = {query.name: query for query in queries}
        self._of_item = {}
        for query in queries:
            for item in query.weights:
                self._of_item.setdefault(item, []).append(query.name)

    def touch(self, items: Iterable[str]) -> None:
        """Note that the answers of queries over these items may have changed."""
        for item in items:
            self._publisher.touch(self._of_item.get(item, ()))

    def touch_queries(self, names: Iterable[str]) -> None:
        """Note that the answers of these queries may have changed."""
        self._publisher.touch(name for name in names if name in self._queries)

    def touch_all(self) -> None:
        """Note that every answer may have changed."""
        self._publisher.touch(self._queries)

    def end_tick(self, poller: Poller, tick: int, length: int) -> None:
        """If a tick ends before `tick`, publish what changed in it as of its end. length: of a tick, microseconds."""
        if poller.now is not None and poller.now < tick:
            self.publish(poller, (poller.now + 1) * length)

    def publish(self, poller: Poller, at: int) -> None:
        """Publish what has changed as of event time `at`."""
        if touched := self._publisher.touched:
            answers = {answer.query: answer for answer in poller.current(only=touched)}
            estimates = {name: _estimate(self._queries[name], answers.get(name)) for name in touched}
            self._publisher.publish(estimates, at, self._withheld)

    def last_answers(self, name: str) -> list[tuple[Aggregate, PublishedEstimate]]:
        """The groups of a query with the last answer of each."""
        last = self._publisher.last_answers
        return [
            (query, last[instance])
            for instance, query in self._queries.items()
            if query_and_group(instance)[0] == name and instance in last
        ]

    def drain(self) -> list[Output]:
        """Return the outputs since the last call."""
        return self._publisher.drain()

    def state(self) -> State:
        """Return what was published, for a snapshot; after `drain`."""
        return State(withheld=sorted(self._withheld), publisher=self._publisher.state())

    def load(self, state: State, queries: Sequence[Aggregate]) -> None:
        """Restore what `state` returned, for the queries that there were."""
        withheld, publisher = state.exactly("withheld", "publisher")
        self._withheld = frozenset(withheld)
        self._publisher.load(publisher)
        self._index(queries)


def _estimate(query: Aggregate, answer: PolledAnswer | None) -> PublishedEstimate:
    """Of items that were never pulled, or cannot be had, nothing is promised: the ends are unknown."""
    if answer is None:
        return PublishedEstimate(None, None, None, False, True, query.fidelity, None, True)
    delivered = None if math.isnan(answer.fidelity) else answer.fidelity
    low, high = (None, None) if answer.stale else (answer.low, answer.high)
    return PublishedEstimate(
        low, answer.value, high, answer.stale, answer.learning, answer.claimed, delivered, answer.learning
    )


def polled_status(
    stream: Stream,
    catalogue: Catalogue,
    poller: Poller,
    answers: PolledAnswers,
    summary: Mapping[str, Any],
    first: Mapping[str, int],
    reasons: Mapping[str, str],
) -> Output:
    """How the shard is, for `tolerant status` and `explain`: a summary and a table of items.

    first: the tick of each item's first pull. reasons: why the last pull of an item failed.
    """
    queries = {
        name: _query_summary(name, select, answers) for name, select in catalogue.aggregates(stream.name).items()
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


def _query_summary(name: str, select: AggregateSelect, answers: PolledAnswers) -> dict[str, object]:
    groups = answers.last_answers(name)
    delivered = [answer.delivered for _, answer in groups if answer.delivered is not None]
    return {
        "within": select.within,
        "fn": select.fn,
        "fidelity": groups[0][0].fidelity if groups else select.fidelity,
        "delivered": min(delivered, default=None),
        "groups": len(groups),
        "items": sum(len(query.weights) for query, _ in groups),
        "settling": sum(answer.settling for _, answer in groups),
        "stale": sum(answer.stale for _, answer in groups),
        "learning": sum(answer.learning for _, answer in groups),
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
