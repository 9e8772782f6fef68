"""Speed of `polling.simulate` and `choose`, against what a user would write (`docs/design/polling.md` §7).

The baseline of a simulation is a plain NumPy loop that does only the chain's step, the "max" rule and the truth, with a
dense matrix and no feedback; ours learns, and gives feedback to every query. For many queries the yardstick is SciPy's
product of the same sparse matrix with a vector: what looking once at every query costs at least.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse

from side_by_side import Figure, arguments, compare, report
from tolerant.experiments.workloads.stock_prices import polled_trace, portfolios
from tolerant.polling import choose, simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace


def plain_numpy(values: np.ndarray, weights: np.ndarray, within: float, states: int = 21) -> float:
    """A poller's tick in plain NumPy: step the chains, pull by the "max" rule, compare with the truth."""
    rng = np.random.default_rng(0)
    ticks, n = values.shape
    spacing = within / np.abs(weights).sum(axis=0).max() / (states // 2)
    counts = np.ones((n, states, states)).cumsum(axis=2)
    everyone, reach = np.arange(n), np.abs(weights).sum(axis=0)
    state, drift, held, good = np.full(n, states // 2), np.zeros(n), values[0].copy(), 0
    for t in range(1, ticks):
        rows = counts[everyone, state]
        state = (rows > (rng.random(n) * rows[:, -1])[:, None]).argmax(axis=1)
        drift += (state - states // 2) * spacing
        if (np.abs(weights @ drift) > within).any():
            scores = np.abs(drift) * reach
            pulled = scores >= 0.8 * scores.max()
            held[pulled] = values[t, pulled]
            drift[pulled] = 0.0
        good += (np.abs(weights @ (values[t] - held)) <= within).sum()
    return good / ticks / len(weights)


def dense(queries: list[Aggregate], items: tuple[str, ...]) -> np.ndarray:
    return np.array([[query.weights.get(item, 0.0) for item in items] for query in queries])


def against_numpy(ticks: int) -> list[Figure]:
    trace = polled_trace("walk", ticks)
    queries = portfolios(500, 2400, 0.98)
    table = dense(queries, trace.items)
    comparison = compare(
        f"20 items, 500 queries, {ticks:,} ticks",
        {
            "max": lambda: simulate(trace, queries, "max"),
            "risk": lambda: simulate(trace, queries, "risk"),
            "plain numpy": lambda: plain_numpy(trace.values, table, 2400.0),
        },
        rounds=15,  # of some hundredths of a second: of three, each may be disturbed
    )
    print(comparison.text(work=ticks, unit="ticks"))
    ratio = comparison.ratio("max", "plain numpy")
    return [
        Figure("max over plain numpy", ratio, "×", "≥ 5", ratio >= 5),
        Figure("risk over plain numpy", comparison.ratio("risk", "plain numpy"), "×"),
    ]


def growth(ticks: int) -> list[Figure]:
    """What five times the queries and twice the ticks cost."""
    trace, longer = polled_trace("walk", ticks), polled_trace("walk", 2 * ticks)
    few, many = portfolios(400, 2400, 0.98), portfolios(2000, 2400, 0.98)
    figures = []
    for chooser in ("max", "risk"):
        methods: dict[str, Callable[[], object]] = {
            "base": lambda chooser=chooser: simulate(trace, few, chooser),
            "queries": lambda chooser=chooser: simulate(trace, many, chooser),
            "ticks": lambda chooser=chooser: simulate(longer, few, chooser),
        }
        comparison = compare(f"growth of {chooser}", methods, rounds=7)
        for name, bar, what in (("queries", 6.0, "5 times the queries"), ("ticks", 2.2, "twice the ticks")):
            ratio = comparison.ratio("base", name)
            figures.append(Figure(f"{chooser}, {what}", ratio, "×", f"≤ {bar:g}", ratio <= bar))
    return figures


def many_queries(queries: int, ticks: int) -> list[Figure]:
    """A tick over very many queries, in products of the sparse matrix."""
    names = [f"i{k}" for k in range(200)]
    rng = np.random.default_rng(4)
    steps = rng.normal(size=(2 * ticks, 200)) * 0.02 * np.exp(rng.normal(0, 0.5, 200))
    trace = Trace(names, 100 + np.cumsum(steps, axis=0))
    half = Trace(names, trace.values[:ticks])
    asked = portfolios(queries, 2400, 0.98, items=names)
    column = {name: k for k, name in enumerate(names)}
    starts = np.cumsum([0, *(len(query.weights) for query in asked)]).astype(np.int32)
    where = np.array([column[item] for query in asked for item in query.weights], np.int32)
    matrix = scipy.sparse.csr_array(
        (np.concatenate([list(query.weights.values()) for query in asked]), where, starts), shape=(queries, 200)
    )
    product = best(lambda: [matrix @ trace.values[k] for k in range(20)]) / 20
    figures = [Figure("one product W @ x", 1e6 * product, "µs")]
    for chooser, bar, goal in (("max", 6, 4), ("risk", 18, 6), ("ideal-push", 8, 0)):
        times = {t.ticks: best(lambda t=t, chooser=chooser: simulate(t, asked, chooser)) for t in (half, trace)}
        cost = (times[2 * ticks] - times[ticks]) / ticks / product
        wanted = f"≤ {bar}" + (f", goal {goal}" if goal else "")
        figures.append(Figure(f"{chooser}, a tick in products", cost, "", wanted, cost <= bar))
    return figures


def best(run: Callable[[], object], rounds: int = 3) -> float:
    run()
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def selection(n: int, queries: int) -> list[Figure]:
    """The exact solver against every subset, and at its full size."""
    figures = []
    for size, tried in ((12, True), (n, False)):
        rng = np.random.default_rng(5)
        names = [f"i{k}" for k in range(size)]
        asked = [
            Aggregate(f"q{q}", "sum", dict(zip(names, rng.normal(0, 1, size), strict=True)), 1.0)
            for q in range(queries)
        ]
        changes = {name: float(rng.normal()) for name in names}
        seconds = best(lambda changes=changes, asked=asked: choose(changes, asked, "exact"))
        figures.append(Figure(f"exact, {size} items, {queries} queries", seconds, "s", "≤ 1", seconds <= 1))
        if tried:
            table = dense(asked, tuple(names)) * np.array(list(changes.values()))
            subsets = best(lambda table=table: every_subset(table))
            figures.append(Figure("exact over every subset", subsets / seconds, "×", "≥ 1", subsets >= seconds))
    return figures


def every_subset(parts: np.ndarray) -> int:
    """The most items that can be kept, by looking at all subsets at once."""
    kept = np.array(list(itertools.product((0.0, 1.0), repeat=parts.shape[1])))
    within = (np.abs(kept @ parts.T) <= 1.0).all(axis=1)
    return int(kept[within].sum(axis=1).max())


def importing() -> list[Figure]:
    """How much longer the package takes to import than NumPy and Numba."""
    seconds = {}
    for name in ("numpy, numba", "numpy, numba, tolerant.polling"):
        code = f"import time; s = time.perf_counter(); import {name}; print(time.perf_counter() - s)"
        runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in "123"]
        seconds[name] = min(float(run.stdout) for run in runs)
    more = seconds["numpy, numba, tolerant.polling"] - seconds["numpy, numba"]
    return [Figure("import, beyond numpy and numba", more, "s", "≤ 0.5", more <= 0.5)]


def main() -> None:
    quick = arguments(__doc__ or "").quick
    ticks = 1_000 if quick else 3_000
    queries, few = (10_000, 200) if quick else (50_000, 400)
    figures = [
        *against_numpy(ticks),
        *growth(ticks),
        *many_queries(queries, few),
        *selection(20, 10),
        *importing(),
    ]
    if not report("polling-simulate", {"ticks": ticks, "queries": queries}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
