"""The judgement of a simulation: what was claimed, held against what was true (`docs/design/pipeline.md` §3, §4).

1. For every item, or sum of items that is filtered, and every watermark the source's filter, and with it the value,
   lies inside what the pipeline believes; of a suppressed item that has reported its history, the value does.
2. Every settled answer contains the truth and is at most 2·within wide, when it is said and as long as it stands.
3. No accepted row is lost: in the end every item is believed where its filter is.
4. What depends on a source that is silent for longer than its lease, or on an item that has sent nothing since its
   source restarted, is stale; and late rows are counted.
5. After the last fault every query settles within `SETTLES_WITHIN` boundaries, and stays settled; a minimum or maximum
   of predicted values may wait for items that are asked, but settles again.

Left out are the spans of late rows, and nothing else. The items of a dead source are, from its last `through` to its
next hello, what they were at that `through`: so a settled answer has the last value that was set before the death, as
far as the log has accepted what the source had to say of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from tolerant.edge.filter_array import FilterState
from tolerant.kernels.decay import decayed_many, periods_passed
from tolerant.sql import AggregateSelect, matches
from tolerant.streams import Stream, is_sum, key_parts, key_text
from tolerant.testing.log_replay import Reading
from tolerant.testing.pipelines import Checkpoint, Observation
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.transport.rows import unpack
from tolerant.transport.topics import TopicKind, current_topic

SETTLES_WITHIN = 4
"""Boundaries after the last fault until every query must have settled, besides a lease."""


class Violation(NamedTuple):
    """A broken promise: which (see above; "replay": not a function of the log), about when, and what happened."""

    promise: str
    at: int
    text: str


@dataclass
class Audit:
    """Judges what the pipeline on one checkpoint claimed.

    `adversarial`: its plans are drawn at random, so that a minimum or maximum may have to probe at every period end,
    and need not settle.
    """

    cluster: SimulatedCluster
    checkpoint: Checkpoint
    violated: Callable[[Violation], None]
    adversarial: bool = False

    def __post_init__(self) -> None:
        self.reading = Reading(self.cluster, self.checkpoint.id)
        self.answers = self.settled = 0
        self._current: dict[tuple[str, str], dict[str, Any]] = {}
        self._settled_at: dict[tuple[str, str], int] = {}  # until when each was settled last
        self._members = lru_cache(maxsize=None)(self._find_members)

    def run(self) -> None:
        """Judge everything that was observed."""
        for observation in self.checkpoint.observations:
            for output in observation.outputs:
                if TopicKind.ANSWERS.matches(output.topic):
                    self._hear(unpack(output.payload).to_pylist())
                elif TopicKind.CURRENT.matches(output.topic):
                    self._forget_dropped(TopicKind.CURRENT.owner(output.topic), unpack(output.payload).to_pylist())
            watermark = self.reading.watermark(observation.position)
            silent = self._silent(observation.position, watermark)
            for answer in self._current.values():
                if answer["at"] < watermark:
                    self._judge(answer, watermark, "standing")
                self._judge_staleness(answer, silent, watermark)
            self._judge_beliefs(observation, watermark)
            self._judge_counts(observation)

    def _hear(self, answers: list[dict[str, Any]]) -> None:
        for answer in answers:
            self._judge(answer, answer["at"], "said")
            before = self._current.get((answer["query"], answer["group"]))
            if is_settled(answer) or (before is not None and is_settled(before)):
                self._settled_at[answer["query"], answer["group"]] = answer["at"]
            self._current[answer["query"], answer["group"]] = answer
            self.answers += 1
            self.settled += is_settled(answer)

    def _forget_dropped(self, query: str, current: list[dict[str, Any]]) -> None:
        """A dropped query has no answer that stands, until one of its name is created again."""
        for row in current:
            last = self._current.get((query, row["key"]))
            if row["body"] is None and last is not None and last["at"] <= row["version"]:
                del self._current[query, row["key"]]

    def run_last(self, settled_from: int) -> None:
        """Judge what must be so in the end: nothing is lost, and everything has settled."""
        if not self.checkpoint.observations:
            self.violated(Violation("progress", settled_from, f"pipeline {self.checkpoint.id} has done nothing"))
            return
        last = self.checkpoint.observations[-1]
        watermark = self.reading.watermark(last.position)
        self._judge_losses(last, watermark)
        self._judge_tombstones(watermark)
        self._judge_progress(watermark, settled_from)

    # -- beliefs ------------------------------------------------------------------------------------------------

    def _judge_beliefs(self, observation: Observation, watermark: int) -> None:
        for key, value, state, moment in self._live(watermark):
            believed = observation.believed.get(key)
            if believed is None:
                self._violate("loss", watermark, f"item {key} is not known")
                continue
            centre, width, low, high, recalled = believed
            actual, stands = self._width(state, moment), state.centre_at(moment // self.cluster.stream.options.tick)
            if not _inside(stands, actual, centre, width):
                text = f"filter of {key} is {stands} ± {actual}/2 under {state.version:#x}"
                self._violate("belief", watermark, f"{text}, believed {centre} ± {width}/2")
            elif not low - _slack(value) <= value <= high + _slack(value):
                self._violate("belief", watermark, f"value of {key} is {value}, believed {low} … {high}")
            elif state.suppress_side and not recalled:
                beyond = state.suppress_beyond
                if not (low <= beyond if state.suppress_side > 0 else high >= beyond):
                    self._violate("belief", watermark, f"{key} may go to {beyond} unheard, believed {low} … {high}")

    def _judge_losses(self, observation: Observation, watermark: int) -> None:
        for key, _, state, moment in self._live(watermark):
            centre, width = observation.believed.get(key, (math.nan, 0.0))[:2]
            sent = state.centre_at(moment // self.cluster.stream.options.tick)
            if centre != sent and width < math.inf:  # a row that could not be used makes the width unknown
                self._violate("loss", watermark, f"item {key} is at {sent} by what it sent last, believed {centre}")

    def _judge_tombstones(self, watermark: int) -> None:
        """A dropped query has no current answer."""
        for query in self.reading.dropped():
            for record in self.cluster.log.read(current_topic(query)):
                for row in unpack(record.payload).to_pylist():
                    if row["body"] is not None:
                        self._violate("tombstone", watermark, f"{query} [{row['key']}] has an answer, but is dropped")

    def _live(self, watermark: int) -> Iterator[tuple[str, float, FilterState, int]]:
        """The items that exist, what they are and how they are filtered, and as of when."""
        for key, truth in self.cluster.truth.items.items():
            moment = truth.known_until(watermark)
            value, state = truth.values.at(moment), truth.filters.at(moment)
            if value is not None and state is not None and not self.reading.was_late(key, watermark):
                yield key, value, state, moment

    def _width(self, state: FilterState, moment: int) -> float:
        import numpy as np

        passed = periods_passed(moment, self.cluster.stream.options.boundary) - state.since
        return float(decayed_many(np.array([state.granted]), state.shrink, np.array([passed]))[0])

    def _value(self, key: str, moment: int) -> float | None:
        truth = self.cluster.truth.items[key]
        return truth.values.at(truth.known_until(moment))

    # -- silence and counts -------------------------------------------------------------------------------------

    def _silent(self, position: int, watermark: int) -> list[str]:
        """The existing items of sources that have not been heard for longer than their lease, or since a restart."""
        last_heard, lease = self.reading.heard(position), self.cluster.stream.options.lease
        silent = {source for source, at in last_heard.items() if at + lease < watermark}
        return [
            key
            for key, truth in self.cluster.truth.items.items()
            if self.cluster.owners[key] in silent and truth.values.at(last_heard[self.cluster.owners[key]]) is not None
        ] + sorted(self.reading.unconfirmed(position))

    def _judge_staleness(self, answer: dict[str, Any], silent: list[str], watermark: int) -> None:
        if answer["stale"] or not silent:
            return
        asked = [select for select in self.reading.definitions(answer["query"], watermark) if select is not None]
        if asked and all(set(silent) & set(self._members(select).get(answer["group"], [])) for select in asked):
            text = f"{answer['query']} [{answer['group']}] of {answer['at']} is not stale, but {silent} are"
            self._violate("staleness", watermark, text)

    def _judge_counts(self, observation: Observation) -> None:
        """Late rows are counted, where the pipeline says how it is."""
        for row in said(observation, TopicKind.STATUS):
            if row["key"] == "summary/0":
                counted, late = json.loads(row["body"])["late"], self.reading.late_rows(observation.position)
                if counted < late:
                    self._violate("count", observation.position, f"{late} rows were late, counted {counted}")

    # -- answers ------------------------------------------------------------------------------------------------

    def _judge(self, answer: dict[str, Any], moment: int, how: str) -> None:
        if not is_settled(answer):
            return
        faults = [self._fault(select, answer, moment) for select in self.reading.definitions(answer["query"], moment)]
        if all(fault is not None for fault in faults):
            bounds = f"{answer['query']} [{answer['group']}] {how} {answer['low']} … {answer['high']} of {answer['at']}"
            self._violate("answer", moment, f"{bounds}: {faults[0]}")

    def _fault(self, select: AggregateSelect | None, answer: dict[str, Any], moment: int) -> str | None:
        """What is wrong with a settled answer, if anything is."""
        keys = self._members(select).get(answer["group"], []) if select is not None else []
        if select is None or any(self.reading.was_late(key, moment) for key in keys):
            return None
        values = [value for key in keys if (value := self._value(key, moment)) is not None]
        if not values:
            return None
        truth, low, high = aggregate(select, values), answer["low"], answer["high"]
        if low is None or high is None:
            return "settled without an end"
        slack = 1e-9 * select.within + 1e-11 * max(abs(truth), abs(low), abs(high), 1e-3)
        if not low - slack <= truth <= high + slack:
            return f"the truth is {truth}"
        if high - low > 2 * select.within + slack:
            return f"wider than 2 · {select.within}"
        return None

    def _find_members(self, select: AggregateSelect) -> dict[str, list[str]]:
        return members(select, [key for key in self.cluster.truth.items if not is_sum(key)], self.cluster.stream)

    # -- progress -----------------------------------------------------------------------------------------------

    def _judge_progress(self, watermark: int, settled_from: int) -> None:
        if watermark < settled_from:
            self._violate("progress", watermark, f"the watermark has not come to {settled_from}")
        for observation in self.checkpoint.observations:
            for answer in said(observation, TopicKind.ANSWERS):
                if answer["at"] >= settled_from and not is_settled(answer) and not self._asks(answer["query"]):
                    self._violate("progress", answer["at"], f"not settled any more: {answer}")
        for name, query in self.reading.catalogue.queries.items():
            for group, keys in self._members(AggregateSelect.of(query)).items():
                if any(self.cluster.truth.items[key].values.at(watermark) is not None for key in keys):
                    last = self._current.get((name, group))
                    recently = watermark - SETTLES_WITHIN * self.cluster.stream.options.boundary
                    waited = self.adversarial or self._settled_at.get((name, group), recently) > recently
                    waits = self._asks(name) and waited
                    if last is None or not (is_settled(last) or waits):
                        self._violate("progress", watermark, f"{name} [{group}] has not settled: {last}")

    def _asks(self, name: str) -> bool:
        """Whether a query may have to wait for items that it asks."""
        select = AggregateSelect.matching(self.reading.catalogue.queries.get(name))
        extreme = select is not None and select.fn in ("min", "max")
        return extreme and self.cluster.stream.options.policy == "predictive"

    def _violate(self, promise: str, at: int, text: str) -> None:
        self.violated(Violation(promise, at, f"pipeline {self.checkpoint.id}: {text}"))


def said(observation: Observation, kind: TopicKind) -> Iterator[dict[str, Any]]:
    """The rows that were written to topics of this kind."""
    for output in observation.outputs:
        if kind.matches(output.topic):
            yield from unpack(output.payload).to_pylist()


def is_settled(answer: dict[str, Any]) -> bool:
    """Whether an answer makes a promise."""
    return not answer["stale"] and not answer["settling"]


def members(select: AggregateSelect, keys: list[str], stream: Stream) -> dict[str, list[str]]:
    """Group → the keys that belong to it."""
    groups: dict[str, list[str]] = {} if select.group_by else {"": []}
    for key in keys:
        row = dict(zip(stream.key, key_parts(key, stream.key_types), strict=True))
        if select.where is None or matches(select.where, row):
            group = key_text(tuple(row[column] for column in select.group_by)) if select.group_by else ""
            groups.setdefault(group, []).append(key)
    return groups


def aggregate(select: AggregateSelect, values: list[float]) -> float:
    """What a query really is."""
    if select.fn == "count":
        return float(len(values))
    if select.fn in ("min", "max"):
        return min(values) if select.fn == "min" else max(values)
    total = math.fsum(select.factor * value for value in values)
    return total if select.fn == "sum" else total / len(values)


def _inside(centre: float, width: float, outer_centre: float, outer_width: float) -> bool:
    if centre == outer_centre:
        return width <= outer_width
    gap = abs(centre - outer_centre) + width / 2
    return gap <= outer_width / 2 + _slack(centre)


def _slack(value: float) -> float:
    return 1e-9 * (1 + abs(value))
