"""The queries over a network with their plans: what is asked of the aggregators, what they sent, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tolerant.kernels.snapshots import State
from tolerant.kernels.versions import version
from tolerant.kinds.network.liveness import Aggregators
from tolerant.kinds.network.plan_publisher import PlanPublisher
from tolerant.kinds.network.queries import NetworkQuery, Place
from tolerant.pipeline.answers import AnswerPublisher, PublishedAnswer
from tolerant.pipeline.hosting import Output
from tolerant.pipeline.listed_rows import Row
from tolerant.planning import AnnouncedPlan, DynamicsReport, Planner, PlannerOptions, ReportedDynamics
from tolerant.queries import Aggregate
from tolerant.sql.membership import instance_name, query_and_group
from tolerant.sql.networks import aggregates, network_of
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import SPLIT, Stream
from tolerant.transport.plans import Wanted, read_part_key
from tolerant.transport.rows import ANSWERS


class RowOfPart(Protocol):
    """A row as far as it names a part."""

    @property
    def key(self) -> str:
        """The key of the part."""
        ...

    @property
    def source(self) -> str:
        """The aggregator."""
        ...


class PlannedQueries:
    """Plans the queries of a stream with a network, and publishes plans and answers.

    Every plan and level has a version, which grows: the pipeline's epoch and a number. `count` counts for the status.
    """

    def __init__(self, stream: Stream, aggregators: Aggregators, count: Callable[[str], None]) -> None:
        self._stream, self._aggregators, self._count = stream, aggregators, count
        self._network = network_of(stream)
        self._options = PlannerOptions(heuristic=SPLIT if stream.options.policy == SPLIT else None)
        self._learned = ReportedDynamics(self._network)
        self.planner = Planner(self._network, options=self._options, learned=self._learned)
        self.groups: dict[str, NetworkQuery] = {}
        self._answers = AnswerPublisher(PublishedAnswer, ANSWERS, last_of_moment=True)
        self._plans = PlanPublisher(stream.name)
        self.epoch = self._issued = 0

    # -- queries ---------------------------------------------------------------------------------------------------

    def add(self, name: str, select: AggregateSelect) -> str:
        """Plan a new query; returns why it cannot be answered for now, for the reply."""
        for query in aggregates(name, select, self._stream):
            self.groups[query.name] = NetworkQuery(query)
            self._answers.touch((query.name,))
            self._adopt(self.planner.add(query))
        return self._remark(name)

    def alter(self, name: str, within: float) -> str:
        """Plan a query with another tolerance; returns why it cannot be answered for now, for the reply."""
        for group in self._groups_of(name):
            if within > 0:
                self._adopt(self.planner.alter(group, within))
            query = self.groups[group].query
            self.groups[group].query = Aggregate(query.name, query.fn, query.weights, within)
            self._answers.touch((group,))
        return self._remark(name)

    def drop(self, name: str, at: int) -> None:
        """Drop a query whose answers are settled."""
        for group in self._groups_of(name):
            del self.groups[group]
            self.planner.remove(group)
            self._plans.drop(group, self._next_version())
            self._answers.drop([group], at)

    def _groups_of(self, name: str) -> list[str]:
        return [group for group in self.groups if query_and_group(group)[0] == name]

    def _remark(self, name: str) -> str:
        refused = [self.groups[group].refused for group in self._groups_of(name)]
        return "".join(f"; but for now: {why}" for why in refused if why)

    # -- parts -----------------------------------------------------------------------------------------------------

    def apply(self, row: Row) -> None:
        """Apply a row to its part."""
        placed = self.placed(row)
        if placed is None:
            self._count("strays")
            return
        group, place = placed
        slot = read_part_key(row.key)[2]
        if row.sequence <= group.sequences.get(slot, 0):
            self._count("duplicates")
            return
        name = group.query.name
        if not group.knows(slot, place, row.grant):
            self._count("strays")
            if row.grant > group.newest(slot, place):  # a foreign plan: the aggregator no longer serves this one
                group.doubt(place)
        elif row.kind == "gone":
            group.sequences[slot] = row.sequence
            group.doubt(place)
        else:
            group.refresh(slot, place, row.value, row.sequence, row.grant)
            if group.retire():
                self._announce(name)
        self._answers.touch((name,))

    def placed(self, row: RowOfPart) -> tuple[NetworkQuery, Place] | None:
        """The group and the part that a row is of; None if its source has no such part."""
        try:
            query, key, slot = read_part_key(row.key or "")
        except ValueError:
            return None
        group = self.groups.get(instance_name(query, key))
        place = group.find(slot) if group is not None else None
        if group is None or place is None or place.aggregator != row.source:
            return None
        return group, place

    def lose(self, row: RowOfPart) -> bool:
        """Mark the part of a lost row as unknown; returns whether there is one."""
        placed = self.placed(row)
        if placed is not None:
            group, place = placed
            group.doubt(place)
            self._answers.touch((group.query.name,))
        return placed is not None

    def lose_all(self) -> None:
        """Mark all parts as unknown."""
        for group in self.groups.values():
            for aggregator in self._aggregators:
                group.restarted(aggregator)
            self._answers.touch((group.query.name,))

    # -- aggregators -----------------------------------------------------------------------------------------------

    def on_restart(self, aggregator: str) -> None:
        """An aggregator has started again: its parts are unknown until it sends them."""
        for group in self.groups.values():
            if group.restarted(aggregator):
                self._answers.touch((group.query.name,))

    def on_trust(self, aggregator: str) -> None:
        """Mark the last values of an aggregator as valid or as stale."""
        trusted = self._aggregators[aggregator].trusted
        for group in self.groups.values():
            if group.client is not None:
                (group.client.mark_alive if trusted else group.client.mark_silent)(aggregator)
                self._answers.touch((group.query.name,))

    def on_silence(self, aggregator: str) -> None:
        """An aggregator has fallen silent: plan around it."""
        self.on_trust(aggregator)
        self._adopt(self.planner.mark_down(aggregator))

    def on_return(self, aggregator: str) -> None:
        """A silent aggregator has been heard again."""
        self.on_trust(aggregator)
        self.planner.mark_returned(aggregator)

    def learn(self, aggregator: str, report: DynamicsReport) -> None:
        """Take what an aggregator reports of the dynamics of its items.

        Raises:
            ValueError, TypeError: it makes no sense.
        """
        self._learned.update(aggregator, report)

    # -- plans -----------------------------------------------------------------------------------------------------

    def revise(self) -> None:
        """Plan again where the dynamics have changed enough."""
        self._adopt(self.planner.on_period_end())
        self._plans.note_learned()

    def give_levels(self) -> None:
        """Give parts the levels that save messages."""
        for name, group in self.groups.items():
            self._ask_levels(name, group.give)

    def begin_epoch(self, epoch: int) -> None:
        """Number what is asked from now on by a new epoch of the pipeline."""
        self.epoch, self._issued = epoch, 0

    def ask_anew(self) -> None:
        """Announce all plans again: those of another pipeline have replaced them at the aggregators."""
        for name, group in self.groups.items():
            group.renumber(self._next_version())
            for aggregator in self._aggregators.distrusted():
                if group.client is not None:
                    group.client.mark_silent(aggregator)
            self._announce(name)

    def _adopt(self, changed: Mapping[str, AnnouncedPlan]) -> None:
        for name, announced in changed.items():
            group = self.groups[name]
            group.query = self.planner.queries[name]
            number = self._next_version()
            if group.take(announced, number, self._aggregators.distrusted()):
                self._count("plans")
                self._announce(name)
            self._answers.touch((name,))
            self._plans.note_change(name)

    def _announce(self, name: str) -> None:
        """Publish the whole plan of a query for the aggregators."""
        self._count("grants")
        self._plans.announce(name, self._next_version(), list(self.groups[name].wanted()))

    def _ask_levels(self, name: str, ask: Callable[[int], bool]) -> None:
        """Give levels to the parts of a query or take them back (`ask`), under the next version."""
        if ask(version(self.epoch, self._issued + 1)):
            self._issued += 1
            self._count("levels")
            self._announce(name)

    def _next_version(self) -> int:
        self._issued += 1
        return version(self.epoch, self._issued)

    def wanted(self) -> list[Wanted]:
        """Everything that is asked of the aggregators."""
        return [part for group in self.groups.values() for part in group.wanted()]

    # -- outputs ---------------------------------------------------------------------------------------------------

    def settle(self, at: int, withheld: Callable[[], frozenset[str]]) -> None:
        """Publish the answers that changed as of event time `at`; unsettled ones of `withheld` queries are left out."""
        for name in self._answers.touched:
            self._ask_levels(name, self.groups[name].take_back)
        if touched := self._answers.touched:
            self._answers.publish({name: self.groups[name].answer() for name in touched}, at, withheld())

    def drain(self) -> list[Output]:
        """Return the outputs since the last call."""
        return [*self._answers.drain(), *self._plans.drain()]

    def drain_changes(self) -> tuple[list[str], bool]:
        """Return the groups whose plans changed since the last call, and whether the dynamics did."""
        return self._plans.drain_changes()

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the fields, after `drain`."""
        return State(
            planner=self.planner.state(),
            queries=[_described(query) for query in self.planner.queries.values()],
            groups=State(
                {
                    name: State(query=_described(group.query), plans=group.state(self._network))
                    for name, group in self.groups.items()
                }
            ),
            answers=self._answers.state(),
            plans=self._plans.state(),
            epoch=self.epoch,
            issued=self._issued,
        )

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        planner, queries, groups, answers, plans, self.epoch, self._issued = state.exactly(
            "planner", "queries", "groups", "answers", "plans", "epoch", "issued"
        )
        asked = [_query(described) for described in queries]
        self.planner = Planner.from_state(planner, self._network, asked, self._options, learned=self._learned)
        self.groups = {}
        for name, group in groups.items():
            described, own = group.exactly("query", "plans")
            self.groups[name] = NetworkQuery.from_state(own, _query(described), self._network)
        self._answers.load(answers)
        self._plans.load(plans)


def _described(query: Aggregate) -> list[Any]:
    return [query.name, query.fn, list(query.weights.items()), query.within]


def _query(described: list[Any]) -> Aggregate:
    name, fn, weights, within = described
    return Aggregate(name, fn, dict(weights), within)
