"""The runs whose digests `tools/digests.py` takes: name → (number of seeds, function of a seed)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

Run = Callable[[int], Any]


def streams(seed: int) -> Any:
    """A stream under faults."""
    from tolerant.testing import simulate_faults

    report = simulate_faults(seed)
    return [report.ok, report.answers, report.settled_answers, report.messages, report.rows, report.late]


def tables(seed: int) -> Any:
    """A table under faults."""
    from tolerant.testing.tables import simulate_table

    return simulate_table(seed).ok


def pairs(seed: int) -> Any:
    """Joins of two tables under faults."""
    from tolerant.testing.pairs import simulate_pair

    return simulate_pair(seed).ok


def networks(seed: int) -> Any:
    """A network of aggregators under faults."""
    from tolerant.testing.networks import SimulatedNetwork

    network = SimulatedNetwork(seed)
    network.run(6)
    return [len(network.violations()), network.settled()]


def leases(seed: int) -> Any:
    """A stream whose sources die often."""
    from tolerant.testing import Faults, simulate_faults

    return simulate_faults(seed, faults=Faults(source_crash=0.05)).ok


def quarantine(seed: int) -> Any:
    """A stream with entries at which every shard fails."""
    from tolerant.testing import Faults, simulate_faults

    return simulate_faults(seed, faults=Faults(poison=0.02)).ok


def sums(seed: int) -> Any:
    """A stream whose sources filter sums of their items."""
    from tolerant.testing import simulate_faults
    from tolerant.testing.adversarial import AdversarialShard, AdversarialSource

    return simulate_faults(seed, shard_factory=AdversarialShard, source_factory=AdversarialSource).ok


def _workload(seed: int, ticks: int, fidelity: float = 1.0) -> tuple[Any, list[Any]]:
    from tolerant.queries import Aggregate
    from tolerant.traces import random_walk

    rng = random.Random(seed)
    items = [f"i{number}" for number in range(rng.randint(3, 8))]
    trace = random_walk(items, ticks, [rng.choice((0.1, 1.0, 3.0)) for _ in items], seed=seed)
    queries = [
        Aggregate.over(f"q{number}", fn, rng.sample(items, rng.randint(2, len(items))), rng.uniform(2, 20), fidelity)
        for number, fn in enumerate(rng.choices(("sum", "avg", "min", "max"), k=3))
    ]
    return trace, queries


def filters(seed: int) -> Any:
    """One policy over a random walk."""
    from tolerant.filters import simulate

    trace, queries = _workload(seed, 300)
    policy = ("exact", "uniform", "optimal", "adaptive", "predictive")[seed % 5]
    run = simulate(trace, queries, policy, period=5 + seed % 7, warmup=seed % 3 * 10, seed=seed)
    return [run.updates, run.grants, run.cost, run.violations, run.widths]


def polling(seed: int) -> Any:
    """One chooser over a random walk."""
    from tolerant.polling import simulate

    chooser = ("every-tick", "all", "per-item", "positive-negative", "max", "risk", "ideal-push")[seed % 7]
    trace, queries = _workload(seed, 200, 0.9)
    queries = [query for query in queries if query.fn in ("sum", "avg")] or queries[:0]
    if not queries:
        trace, queries = _workload(seed + 1000, 200, 0.9)
        queries = [query for query in queries if query.fn in ("sum", "avg")]
    if not queries:
        return None
    run = simulate(trace, queries, chooser, window=50, seed=seed)
    return [run.pulls, run.pulls_by_item, run.fidelity, run.cost, run.requests, run.safety]


def planning(seed: int) -> Any:
    """One heuristic's plan of one query, and its simulation."""
    from tolerant.planning import Dynamics, Network, Unsatisfiable, plan, simulate
    from tolerant.queries import Aggregate

    heuristics = ("naive", "optimal-bounds", "random", "min-cost", "max-gain", "max-gain-relative", "search", "exact")
    rng = random.Random(seed)
    trace, _ = _workload(seed, 150)
    covered = {
        f"A{number}": {i: rng.uniform(0.1, 1) for i in rng.sample(trace.items, rng.randint(1, len(trace.items)))}
        for number in range(4)
    }
    covered["A9"] = {item: rng.uniform(0.1, 1) for item in trace.items}
    query = Aggregate.over("q", "sum", trace.items, rng.uniform(4, 20))
    try:
        made = plan(query, Network(covered), Dynamics.of(trace), heuristics[seed % 8], seed=seed)
    except Unsatisfiable as error:
        return str(error)
    run = simulate(made, trace)
    return [[list(vars_of(part)) for part in made.parts], made.cost, made.repairs, run.refreshes, run.violations]


def vars_of(value: Any) -> list[Any]:
    """The values of a dataclass, in order."""
    return [getattr(value, name) for name in value.__dataclass_fields__]


def merging(seed: int) -> Any:
    """One method over random rectangles."""
    from tolerant.merging import Costs, merge, total_cost

    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 10, (8, 2))
    rectangles = np.hstack([corners, corners + rng.uniform(0.1, 5, (8, 2))])
    method = ("none", "pairs", "directed", "clusters", "partition", "exhaustive")[seed % 6]
    costs = Costs(*rng.uniform(0.1, 10, 3))
    made = merge(rectangles, costs, method, starts=5, seed=seed)
    return [made.groups, made.cost, total_cost(rectangles, made.groups, costs)]


def joins(seed: int) -> Any:
    """Band and select joins by every method, a partition and a histogram."""
    from tolerant.joins import BandJoins, SelectJoins, interval_histogram, stabbing_partition

    rng = np.random.default_rng(seed)
    lows = rng.uniform(-5, 5, 40)
    highs = lows + rng.uniform(0, 4, 40)
    results: list[Any] = [stabbing_partition(lows, highs)]
    histogram = interval_histogram(lows, highs, 6, ("ssi", "equal-width", "optimal")[seed % 3])
    results += [histogram.edges, histogram.heights]
    band, select = BandJoins(0.2), SelectJoins(0.2)
    for query in range(40):
        band.add(query, lows[query], highs[query])
        select.add(query, lows[query], highs[query], lows[-query], highs[-query])
    for row in range(60):
        band.insert(row, float(rng.normal(0, 4)))
        select.insert(row, float(rng.integers(0, 5)), float(rng.normal(0, 3)))
    for query in range(0, 40, 7):
        band.remove(query)
        select.remove(query)
    for method in ("ssi", "queries", "data", "merge", "hotspot"):
        results.append(_sorted_pairs(band.probe(float(rng.normal()), method)))
    for method in ("ssi", "select-first", "join-first", "scan", "hotspot"):
        results.append(_sorted_pairs(select.probe(float(rng.normal()), float(rng.integers(0, 5)), method)))
    return results


def _sorted_pairs(pairs: Any) -> Any:
    return sorted(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


def retention(seed: int) -> Any:
    """One policy of joins and one of caches."""
    from tolerant.retention import Stationary, cache, join

    rng = np.random.default_rng(seed)
    r, s = rng.integers(0, 12, 300), rng.integers(0, 12, 300).cumsum() % 17
    policy = ("rand", "prob", "life", "heeb", "optimal")[seed % 5]
    window = 40 if policy == "life" or seed % 2 else None
    joined = join(r, s % 12, 10, policy, window=window, warmup=20, seed=seed)
    models = (Stationary(np.full(12, 1 / 12)),) * 2
    planned = join(r[:40], s[:40] % 12, 4, "flow-expect", models=models, lookahead=3, seed=seed)
    cached = cache(s, 5, ("rand", "lru", "lfu", "heeb", "optimal")[seed % 5], seed=seed)
    return [joined.results, joined.share_r, planned.results, cached.hits]


def views(seed: int) -> Any:
    """One method's schedule."""
    from tolerant.views import Linear, schedule

    rng = np.random.default_rng(seed)
    costs = [Linear(float(rng.uniform(0.1, 1)), float(rng.uniform(1, 5))) for _ in range(3)]
    arrivals = rng.integers(0, 4, (20, 3))
    method = ("naive", "online", "estimated", "forecast", "optimal")[seed % 5]
    estimate = int(rng.integers(10, 40)) if method == "estimated" else None
    made = schedule(costs, arrivals, 25.0, method, estimate=estimate)
    return [made.actions, made.cost]


def notifications(seed: int) -> Any:
    """Messages of range minima, maxima and distinct values."""
    from tolerant.notifications import RangeDistinct, RangeMax, RangeMin

    rng = random.Random(seed)
    index = (RangeMin, RangeMax, RangeDistinct)[seed % 3]()
    known: list[int] = []
    results: list[Any] = []
    for number in range(80):
        x, y = rng.randrange(30), rng.randrange(20)
        if known and rng.random() < 0.4:
            chosen = rng.choice(known)
            if rng.random() < 0.5:
                known.remove(chosen)
                messages = index.delete(chosen)
            else:
                messages = index.update(chosen, x, y)
        else:
            known.append(number)
            messages = index.insert(number, x, y)
        results.append([vars_of(message) if hasattr(message, "__dataclass_fields__") else list(message)
                        for message in messages])  # fmt: skip
    return results


def of_kind(name: str) -> Run:
    """A history of one kind of shard, with true sources only."""

    def play(seed: int) -> Any:
        from stages import STAGES

        stage = STAGES[name](seed)
        for _ in range(15):
            stage.step()
        stage.finish()

    return play


QUICK_KINDS = ("adaptive", "tables", "joined", "looked_up", "networked", "views")
SLOW_KINDS = ("bounded", "kept", "polled")
RUNS: dict[str, tuple[int, Run]] = {
    "faults: streams": (60, streams),
    **{
        f"faults: {run.__name__}": (20, run)
        for run in (tables, pairs, networks, leases, quarantine, sums)
    },
    **{
        f"core: {run.__name__}": (200, run)
        for run in (filters, polling, planning, merging, joins, retention, views, notifications)
    },
    **{f"shard: {name}": (40, of_kind(name)) for name in QUICK_KINDS},
    **{f"shard: {name}": (10, of_kind(name)) for name in SLOW_KINDS},
}  # fmt: skip
