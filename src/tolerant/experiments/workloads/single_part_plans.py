"""Measures queries that one aggregator answers alone: refreshes of a part against the cost model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tolerant.experiments.workloads.aggregator_networks import portfolios, trace_of
from tolerant.planning import Dynamics, Network, Part, Plan, simulate
from tolerant.planning.optimizer.plan_problem import moments_of, pose
from tolerant.queries import Aggregate
from tolerant.traces import Trace


class SinglePartQueries:
    """A trace, an aggregator that holds exact copies of all its items, and queries of 3 to 7 items at
    weights U(1, 10).
    """

    def __init__(self, name: str, queries: int, ticks: int) -> None:
        self.trace: Trace = trace_of(name, ticks=ticks)
        self.network = Network({"all": dict.fromkeys(self.trace.items, 0.0)})
        self.dynamics = Dynamics.of(self.trace)
        self.queries = portfolios(self.trace.items, queries, 1.0, sizes=(3, 7), weights=(1.0, 10.0), seed=3)

    def norms(self, query: Aggregate) -> tuple[float, float]:
        """Return R and N of the whole query as one part."""
        ready = pose(query, self.network, self.dynamics)
        num, den = moments_of(ready.problem, np.arange(len(ready.weights)), len(ready.weights))
        return float(np.sqrt(num)), float(np.sqrt(den))

    def refreshes(self, query: Aggregate, within: float) -> int:
        """Count the refreshes of the query as one part with this bound."""
        wider = Aggregate(query.name, "sum", query.weights, within)
        part = Part("all", dict(query.weights), within, 0.0)
        return simulate(Plan(wider, self.network, (part,), 0.0), self.trace).refreshes


def ppmcc(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Pearson's product-moment correlation coefficient; 0 where either does not vary."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Spearman's coefficient: the correlation of the ranks, ties by their mean."""
    from scipy.stats import rankdata

    return ppmcc(rankdata(x).tolist(), rankdata(y).tolist())
