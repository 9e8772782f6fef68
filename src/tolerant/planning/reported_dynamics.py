"""Dynamics from the aggregators' reports, for a planner that sees parts but not items (`docs/design/planning.md` §2.3,
§6).

Only items that one aggregator serves can be in one part, so some aggregator observes every cosine that a plan needs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tolerant.kernels.snapshots import State
from tolerant.planning.aggregator_network import Network
from tolerant.planning.dynamics import Dynamics, cosine_of
from tolerant.planning.planning_arrays import Floats
from tolerant.planning.running_dynamics import RunningDynamics


@dataclass(frozen=True, eq=False)
class DynamicsReport:
    """What an aggregator knows of its items: how far each moves per tick (float64[items]), their cosines
    (float64[items, items]), and over how many ticks.
    """

    items: tuple[str, ...]
    moved: Floats
    cosine: Floats
    ticks: int

    @classmethod
    def of(cls, running: RunningDynamics) -> DynamicsReport:
        """Return the report of values that passed filters: by jumps, which are right for random walks and any filter
        (§2.3).
        """
        state = running.state()
        squares = np.diag(state["products"]) / np.where(state["weight"] > 0, state["weight"], 1.0)
        return cls(running.items, np.sqrt(2.0 / math.pi * squares), cosine_of(state["products"]), running.ticks)


class ReportedDynamics:
    """The dynamics of a network's items, each from the aggregator that holds it most closely."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.items = network.items
        self._reports: dict[str, DynamicsReport] = {}
        self._known: Dynamics | None = None

    def update(self, aggregator: str, report: DynamicsReport) -> None:
        """Apply a newer report; items that the aggregator does not serve are ignored.

        Raises:
            ValueError: no aggregator has this name, or the numbers are impossible.
        """
        if aggregator not in self.network.bounds:
            raise ValueError(f"no aggregator is called {aggregator!r}")
        Dynamics(report.items, report.moved, report.cosine)  # raises if something is wrong with it
        if report.ticks < 0:
            raise ValueError(f"ticks must not be negative, got {report.ticks}")
        self._reports[aggregator] = report
        self._known = None

    def dynamics(self) -> Dynamics:
        """Return what is known now; an item without a report counts as one that has not moved."""
        if self._known is None:
            self._known = self._assembled()
        return self._known

    def add(self, item: str) -> None:
        """Refuse an item: those of the network are fixed."""
        raise ValueError(f"item {item!r} is not in the network that reports come from")

    remove = add

    def _assembled(self) -> Dynamics:
        n = len(self.items)
        moved, cosine = np.zeros(n), np.eye(n)
        closest = np.full((n, n), np.inf)
        for aggregator in self.network.aggregators:
            report = self._reports.get(aggregator)
            if report is None or report.ticks == 0:
                continue
            bounds = self.network.bounds[aggregator]
            own = [place for place, item in enumerate(report.items) if item in bounds]
            if not own:
                continue
            at = np.array([self.network.index[report.items[place]] for place in own])
            within = np.array([bounds[report.items[place]] for place in own])
            both = within[:, None] + within[None, :]
            block = np.ix_(at, at)
            closer = both < closest[block]
            closest[block] = np.where(closer, both, closest[block])
            cosine[block] = np.where(closer, report.cosine[np.ix_(own, own)], cosine[block])
            moved[at] = np.where(np.diag(closer), report.moved[own], moved[at])
        np.fill_diagonal(cosine, 1.0)
        ticks = max((report.ticks for report in self._reports.values()), default=0)
        return Dynamics(self.items, moved * ticks, np.clip(cosine, -1.0, 1.0), ticks)

    def state(self) -> State:
        """Return the reports, for a snapshot; the network is kept elsewhere."""
        reports = self._reports.items()
        return State({name: State(vars(report), items=list(report.items)) for name, report in reports})

    def load(self, state: State) -> None:
        """Restore what `state` returned, for the same network."""
        self._reports = {}
        for name, report in state.items():
            items, moved, cosine, ticks = report.exactly("items", "moved", "cosine", "ticks")
            self._reports[name] = DynamicsReport(tuple(items), moved, cosine, ticks)

    def reporters(self) -> Iterable[str]:
        """Return the aggregators that have reported."""
        return self._reports.keys()
