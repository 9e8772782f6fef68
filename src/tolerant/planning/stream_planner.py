"""Revises the plans of a stream's queries while it runs (`docs/design/planning.md` §2.10, §6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import ArrayLike

from tolerant.kernels.snapshots import SORTED_SET, Fields, State
from tolerant.planning.aggregator_network import Network
from tolerant.planning.alpha_controller import AlphaController
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.heuristics import plan
from tolerant.planning.plan_revision import PERIOD, default_heuristic, reallocate, replan, still_served
from tolerant.planning.query_plan import Plan, Unsatisfiable
from tolerant.planning.running_dynamics import RunningDynamics
from tolerant.queries import Aggregate


@dataclass(frozen=True)
class AnnouncedPlan:
    """The plan of a query and its version; or, where no plan is possible, why."""

    version: int
    plan: Plan | None
    refused: Unsatisfiable | None = None


class DynamicsSource(Protocol):
    """Learns how the items move: `RunningDynamics` from values, `ReportedDynamics` from reports."""

    items: tuple[str, ...]

    def dynamics(self) -> Dynamics:
        """Return what is known now."""
        ...

    def add(self, item: str) -> None:
        """Add an item."""
        ...

    def remove(self, item: str) -> None:
        """Remove an item."""
        ...

    def state(self) -> State:
        """Return what is known, for a snapshot."""
        ...

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        ...


@dataclass(frozen=True)
class PlannerOptions:
    """How a planner plans.

    heuristic: one of `HEURISTICS`; None: exact plans for small queries, search for large ones. halflife: of the
    dynamics learned from values, in ticks. period: ticks from one revision to the next. target: the fraction of plans
    that should need no repair.
    """

    heuristic: str | None = None
    halflife: float = 1000
    period: int = PERIOD
    target: float = 0.95

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"period must be at least 1 tick, got {self.period}")


DEFAULT = PlannerOptions()


class Planner:
    """The pipeline's side of planning; its outputs are a function of its inputs alone.

    Call `update` with values at every tick and `on_period_end` at every period; `mark_down` and `mark_returned` as
    heartbeats stop and resume; `add`, `alter` and `remove` as statements do. Each returns the plans that changed,
    {query: AnnouncedPlan}; a version is higher than every one before it. learned: where the dynamics come from, if not
    from `update`.
    """

    FIELDS = Fields("_version", parts=["dynamics", "alpha"], _down=SORTED_SET, _back=SORTED_SET)

    def __init__(
        self,
        network: Network,
        queries: Iterable[Aggregate] = (),
        options: PlannerOptions = DEFAULT,
        *,
        learned: DynamicsSource | None = None,
    ) -> None:
        self.network, self.options = network, options
        self.dynamics: DynamicsSource = learned or RunningDynamics(network.items, options.halflife)
        self.alpha = AlphaController(options.target)
        self.queries: dict[str, Aggregate] = {}
        self.announced: dict[str, AnnouncedPlan] = {}
        self._version = 0
        self._down: set[str] = set()
        self._back: set[str] = set()
        for query in queries:
            self.add(query)

    @property
    def items(self) -> tuple[str, ...]:
        """The items, in the order of the values that `update` gets."""
        return self.dynamics.items

    @property
    def alive(self) -> Network:
        """The network without the aggregators that are down."""
        return self.network.without(*self._down) if self._down else self.network

    def update(self, values: ArrayLike) -> None:
        """Learn from the items' values at a tick, float64[items], or at several; NaN: no reading."""
        if not isinstance(self.dynamics, RunningDynamics):
            raise ValueError("this planner learns from reports, not from values")
        self.dynamics.update(values)

    def add(self, query: Aggregate) -> dict[str, AnnouncedPlan]:
        """Plan a new query."""
        if query.name in self.queries:
            raise ValueError(f"a query is called {query.name!r} already")
        self.queries[query.name] = query
        try:
            return self._choose([query.name], self.alive)
        except ValueError:
            del self.queries[query.name]
            raise

    def alter(self, name: str, within: float) -> dict[str, AnnouncedPlan]:
        """Give a query another bound; its parts stay where they can."""
        self.queries[name] = replace(self._known(name), within=within)
        old, alive = self.announced[name].plan, self.alive
        if old is None or not still_served(old, alive):
            return self._choose([name], alive)
        old = replace(old, network=alive)
        try:
            new = reallocate(old, within, self.dynamics.dynamics(), self._heuristic(old.query), alpha=self.alpha.alpha)
        except Unsatisfiable as unsatisfiable:
            return self._announce(name, None, unsatisfiable)
        return self._announce(name, new)

    def remove(self, name: str) -> None:
        """Remove a query."""
        self._known(name)
        del self.queries[name], self.announced[name]

    def mark_down(self, aggregator: str) -> dict[str, AnnouncedPlan]:
        """Plan the queries that rely on an aggregator without it: its heartbeats stopped."""
        if aggregator not in self.network.bounds:
            raise ValueError(f"no aggregator is called {aggregator!r}")
        self._back.discard(aggregator)
        if aggregator in self._down:
            return {}
        self._down.add(aggregator)
        hit = [
            name
            for name, announced in self.announced.items()
            if announced.plan is not None and aggregator in announced.plan.relies_on()
        ]
        return self._choose(hit, self.alive)

    def mark_returned(self, aggregator: str) -> None:
        """Use an aggregator again, from the end of this period on."""
        if aggregator in self._down:
            self._back.add(aggregator)

    def on_period_end(self) -> dict[str, AnnouncedPlan]:
        """Revise plans that have become expensive, and use the aggregators that have returned."""
        self._down -= self._back
        self._back = set()
        alive, dynamics = self.alive, self.dynamics.dynamics()
        changed: dict[str, AnnouncedPlan] = {}
        for name, announced in list(self.announced.items()):
            if announced.plan is None:
                changed |= self._choose([name], alive, quiet=True)
                continue
            try:
                new = replan(
                    announced.plan,
                    dynamics,
                    alive,
                    self._heuristic(announced.plan.query),
                    alpha=self.alpha.alpha,
                    period=self.options.period,
                )
            except Unsatisfiable as unsatisfiable:
                changed |= self._announce(name, None, unsatisfiable)
                continue
            if new is not announced.plan:
                changed |= self._announce(name, new)
        return changed

    def rewire(self, network: Network) -> dict[str, AnnouncedPlan]:
        """Use another network: aggregators or items joined or left."""
        referred = {item for query in self.queries.values() for item in query.weights}
        for item in set(self.items) - set(network.items) - referred:
            self.dynamics.remove(item)
        for item in network.items:
            if item not in self.items:
                self.dynamics.add(item)
        self.network = network
        self._down &= set(network.aggregators)
        self._back &= set(network.aggregators)
        alive = self.alive
        hit = [
            name
            for name, announced in self.announced.items()
            if announced.plan is None or not still_served(announced.plan, alive)
        ]
        return self._choose(hit, alive)

    def state(self) -> State:
        """Return everything, for a snapshot; queries and network are kept elsewhere."""
        plans = {
            name: [announced.version, self._recorded(announced.plan), _refusal(announced)]
            for name, announced in self.announced.items()
        }
        return State(fields=self.FIELDS.state(self), plans=plans)

    @classmethod
    def from_state(
        cls,
        state: State,
        network: Network,
        queries: Iterable[Aggregate],
        options: PlannerOptions = DEFAULT,
        *,
        learned: DynamicsSource | None = None,
    ) -> Planner:
        """Return the planner whose `state` this is, for the same network, queries, options and source of dynamics
        (whose state becomes that of the planner's).
        """
        fields, plans = state.exactly("fields", "plans")
        planner = cls(network, (), options, learned=learned)
        planner.FIELDS.load(planner, fields)
        planner.queries = {query.name: query for query in queries}
        for name, (version, record, why) in plans.items():
            on = network.without(*record["without"]) if record and record["without"] else network
            old = Plan.of_record(record, planner.queries[name], on) if record else None
            refused = Unsatisfiable(why[0], why[1], tuple(why[2])) if why else None
            planner.announced[name] = AnnouncedPlan(version, old, refused)
        return planner

    def _choose(self, names: Iterable[str], network: Network, quiet: bool = False) -> dict[str, AnnouncedPlan]:
        """Plan these queries from scratch; `quiet`: announce no query that is still impossible."""
        dynamics = self.dynamics.dynamics()
        changed: dict[str, AnnouncedPlan] = {}
        for name in names:
            query = self.queries[name]
            try:
                new = plan(query, network, dynamics, self._heuristic(query), alpha=self.alpha.alpha)
            except Unsatisfiable as unsatisfiable:
                if not quiet:
                    changed |= self._announce(name, None, unsatisfiable)
                continue
            self.alpha.observe(new)
            changed |= self._announce(name, new)
        return changed

    def _announce(self, name: str, new: Plan | None, why: Unsatisfiable | None = None) -> dict[str, AnnouncedPlan]:
        self._version += 1
        self.announced[name] = AnnouncedPlan(self._version, new, why)
        return {name: self.announced[name]}

    def _recorded(self, old: Plan | None) -> dict[str, Any] | None:
        if old is None:
            return None
        gone = [name for name in self.network.aggregators if name not in old.network.bounds]
        return {**old.record(), "without": gone}

    def _heuristic(self, query: Aggregate) -> str:
        return self.options.heuristic or default_heuristic(len(query.weights))

    def _known(self, name: str) -> Aggregate:
        if name not in self.queries:
            raise ValueError(f"no query is called {name!r}; there are {', '.join(self.queries) or 'none'}")
        return self.queries[name]


def _refusal(announced: AnnouncedPlan) -> list[Any] | None:
    return (
        None
        if announced.refused is None
        else [str(announced.refused), announced.refused.tightest, list(announced.refused.items)]
    )
