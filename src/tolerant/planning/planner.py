"""Keeps the plans of a stream's queries good while it runs (`specs/3-planning.md` §2.10, §6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from numpy.typing import ArrayLike, NDArray

from tolerant.planning.alpha import AlphaController
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.heuristics import plan
from tolerant.planning.network import Network
from tolerant.planning.plans import Plan, Unsatisfiable
from tolerant.planning.replanning import PERIOD, carried, reallocate, replan, suited
from tolerant.planning.running import RunningDynamics
from tolerant.queries import Aggregate


@dataclass(frozen=True)
class Announced:
    """A plan that is in force, and its version; or, where there can be none, why."""

    version: int
    plan: Plan | None
    refused: Unsatisfiable | None = None


class Learned(Protocol):
    """What is known of how the items move; `RunningDynamics` and `ReportedDynamics` are."""

    items: tuple[str, ...]

    def dynamics(self) -> Dynamics:
        """What is known now."""
        ...

    def add(self, item: str) -> None:
        """An item joins."""
        ...

    def remove(self, item: str) -> None:
        """An item leaves."""
        ...

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and plain values."""
        ...


class Planner:
    """The pipeline's side of planning: what it takes in decides what it says, and nothing else does.

    `update` with values at every tick and `boundary` at every period; `missed` and `returned` as heartbeats stop and
    come again; `add`, `alter` and `remove` as statements do. Each returns the plans that changed, {query: Announced};
    a version is higher than every one before it. heuristic None: exact plans for small queries, search for large ones.
    learned: what else than `update` says how the items move.
    """

    def __init__(
        self,
        network: Network,
        queries: Iterable[Aggregate] = (),
        *,
        heuristic: str | None = None,
        halflife: float = 1000,
        period: int = PERIOD,
        target: float = 0.95,
        learned: Learned | None = None,
    ) -> None:
        if period < 1:
            raise ValueError(f"period must be at least 1 tick, got {period}")
        self.network, self.heuristic, self.period = network, heuristic, period
        self.dynamics: Learned = learned or RunningDynamics(network.items, halflife)
        self.alpha = AlphaController(target)
        self.queries: dict[str, Aggregate] = {}
        self.announced: dict[str, Announced] = {}
        self._version = 0
        self._down: set[str] = set()
        self._back: set[str] = set()
        for query in queries:
            self.add(query)

    @property
    def items(self) -> tuple[str, ...]:
        """The order of the values that `update` takes."""
        return self.dynamics.items

    @property
    def alive(self) -> Network:
        """The network without the aggregators that are down."""
        return self.network.without(*self._down) if self._down else self.network

    def update(self, values: ArrayLike) -> None:
        """The items' values at a tick, float64[items], or at several; NaN: no reading."""
        if not isinstance(self.dynamics, RunningDynamics):
            raise ValueError("this planner learns from reports, not from values")
        self.dynamics.update(values)

    def add(self, query: Aggregate) -> dict[str, Announced]:
        """Plan a new query."""
        if query.name in self.queries:
            raise ValueError(f"a query is called {query.name!r} already")
        self.queries[query.name] = query
        try:
            return self._choose([query.name], self.alive)
        except ValueError:
            del self.queries[query.name]
            raise

    def alter(self, name: str, within: float) -> dict[str, Announced]:
        """Give a query another bound: the parts stay where they can."""
        self.queries[name] = replace(self._known(name), within=within)
        old, alive = self.announced[name].plan, self.alive
        if old is None or not carried(old, alive):
            return self._choose([name], alive)
        old = replace(old, network=alive)
        try:
            made = reallocate(old, within, self.dynamics.dynamics(), self._heuristic(old.query), alpha=self.alpha.alpha)
        except Unsatisfiable as impossible:
            return self._announce(name, None, impossible)
        return self._announce(name, made)

    def remove(self, name: str) -> None:
        """Forget a query."""
        self._known(name)
        del self.queries[name], self.announced[name]

    def missed(self, aggregator: str) -> dict[str, Announced]:
        """An aggregator fell silent: the queries that rely on it are planned on the others."""
        if aggregator not in self.network.bounds:
            raise ValueError(f"no aggregator is called {aggregator!r}")
        self._back.discard(aggregator)
        if aggregator in self._down:
            return {}
        self._down.add(aggregator)
        hit = [
            name
            for name, said in self.announced.items()
            if said.plan is not None and aggregator in said.plan.relies_on()
        ]
        return self._choose(hit, self.alive)

    def returned(self, aggregator: str) -> None:
        """An aggregator is there again; its items return to it at the next boundary."""
        if aggregator in self._down:
            self._back.add(aggregator)

    def boundary(self) -> dict[str, Announced]:
        """The end of a period: plans that have become dear are changed, and those who came back are counted in."""
        self._down -= self._back
        self._back = set()
        alive, dynamics = self.alive, self.dynamics.dynamics()
        changed: dict[str, Announced] = {}
        for name, said in list(self.announced.items()):
            if said.plan is None:
                changed |= self._choose([name], alive, quiet=True)
                continue
            try:
                made = replan(
                    said.plan,
                    dynamics,
                    alive,
                    self._heuristic(said.plan.query),
                    alpha=self.alpha.alpha,
                    period=self.period,
                )
            except Unsatisfiable as impossible:
                changed |= self._announce(name, None, impossible)
                continue
            if made is not said.plan:
                changed |= self._announce(name, made)
        return changed

    def rewire(self, network: Network) -> dict[str, Announced]:
        """Another network: aggregators or items joined or left."""
        asked_for = {item for query in self.queries.values() for item in query.weights}
        for item in set(self.items) - set(network.items) - asked_for:
            self.dynamics.remove(item)
        for item in network.items:
            if item not in self.items:
                self.dynamics.add(item)
        self.network = network
        self._down &= set(network.aggregators)
        self._back &= set(network.aggregators)
        alive = self.alive
        hit = [name for name, said in self.announced.items() if said.plan is None or not carried(said.plan, alive)]
        return self._choose(hit, alive)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and plain values for `kernels.snapshots.pack`; queries and network are kept elsewhere."""
        arrays, running = self.dynamics.state()
        plans = {name: [said.version, self._recorded(said.plan), _why(said)] for name, said in self.announced.items()}
        return arrays, {
            "running": running,
            "alpha": self.alpha.state(),
            "plans": plans,
            "version": self._version,
            "down": sorted(self._down),
            "back": sorted(self._back),
        }

    @classmethod
    def from_state(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        values: Mapping[str, Any],
        network: Network,
        queries: Iterable[Aggregate],
        *,
        heuristic: str | None = None,
        period: int = PERIOD,
        learned: Learned | None = None,
    ) -> Planner:
        """What `state` described, for the same network and queries, and `learned` where it was given one."""
        made = cls(network, heuristic=heuristic, period=period)
        made.dynamics = learned or RunningDynamics.from_state(arrays, values["running"])
        made.alpha = AlphaController.from_state(values["alpha"])
        made.queries = {query.name: query for query in queries}
        made._version = values["version"]
        made._down, made._back = set(values["down"]), set(values["back"])
        for name, (version, record, why) in values["plans"].items():
            on = network.without(*record["without"]) if record and record["without"] else network
            found = Plan.of_record(record, made.queries[name], on) if record else None
            refused = Unsatisfiable(why[0], why[1], tuple(why[2])) if why else None
            made.announced[name] = Announced(version, found, refused)
        return made

    def _choose(self, names: Iterable[str], network: Network, quiet: bool = False) -> dict[str, Announced]:
        """Plan these queries from nothing; `quiet`: say nothing of those that are as impossible as before."""
        dynamics = self.dynamics.dynamics()
        changed: dict[str, Announced] = {}
        for name in names:
            query = self.queries[name]
            try:
                made = plan(query, network, dynamics, self._heuristic(query), alpha=self.alpha.alpha)
            except Unsatisfiable as impossible:
                if not quiet:
                    changed |= self._announce(name, None, impossible)
                continue
            self.alpha.observe(made)
            changed |= self._announce(name, made)
        return changed

    def _announce(self, name: str, made: Plan | None, why: Unsatisfiable | None = None) -> dict[str, Announced]:
        self._version += 1
        self.announced[name] = Announced(self._version, made, why)
        return {name: self.announced[name]}

    def _recorded(self, made: Plan | None) -> dict[str, Any] | None:
        if made is None:
            return None
        gone = [name for name in self.network.aggregators if name not in made.network.bounds]
        return {**made.record(), "without": gone}

    def _heuristic(self, query: Aggregate) -> str:
        return self.heuristic or suited(len(query.weights))

    def _known(self, name: str) -> Aggregate:
        if name not in self.queries:
            raise ValueError(f"no query is called {name!r}; there are {', '.join(self.queries) or 'none'}")
        return self.queries[name]


def _why(said: Announced) -> list[Any] | None:
    return None if said.refused is None else [str(said.refused), said.refused.tightest, list(said.refused.items)]
