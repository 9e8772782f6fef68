"""Speed of `filters.simulate` and of a period's end, against what a user would write (`docs/design/filters.md` §7).

The baseline of the tick loop is plain NumPy for uniform widths, without an audit; ours checks every promise at every
tick. The baseline of the targets is `scipy.optimize.nnls`. Memory is that of a process that does nothing else, at its
peak, so Python's own dictionaries and lists of items are in it.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from side_by_side import Figure, arguments, compare, report
from tolerant.filters.constraints import WidthConstraints, constraints_of
from tolerant.filters.filter_simulation import simulate
from tolerant.filters.growth import reallocate
from tolerant.filters.targets import improve, solve
from tolerant.kernels.random import key_of
from tolerant.queries import Aggregate
from tolerant.traces import Trace, random_walk


def plain_numpy(values: np.ndarray, half: float) -> int:
    """How many updates uniform filters let pass."""
    centres, updates = values[0].copy(), 0
    for value in values[1:]:
        passes = abs(value - centres) > half
        centres[passes] = value[passes]
        updates += passes.sum()
    return int(updates)


def walks(items: int, ticks: int) -> tuple[Trace, list[Aggregate]]:
    trace = random_walk(items, ticks, np.random.default_rng(0).uniform(0, 1, items))
    return trace, [Aggregate.over("mean", "avg", trace.items, within=4.0)]


def tick_loops(items: int, ticks: int, bars: dict[str, float]) -> list[Figure]:
    """How many times as fast each policy is as the baseline."""
    trace, queries = walks(items, ticks)
    methods: dict[str, Callable[[], object]] = {
        policy: lambda policy=policy: simulate(trace, queries, policy) for policy in bars
    }
    comparison = compare(
        f"{items} items × {ticks:,} ticks", {**methods, "plain numpy": lambda: plain_numpy(trace.values, 4.0)}
    )
    assert simulate(trace, queries, "uniform").updates == plain_numpy(trace.values, 4.0)
    print(comparison.text(work=items * ticks, unit="item-ticks"))
    ratios = {policy: comparison.ratio(policy, "plain numpy") for policy in bars}
    return [
        Figure(f"{policy} over plain numpy, {items} items", ratio, "×", f"≥ {bars[policy]}", ratio >= bars[policy])
        for policy, ratio in ratios.items()
    ]


def predictive_loop(ticks: int) -> Figure:
    """How many times as long as the baseline the predictive policy takes: every item runs 108 shadow filters."""
    trace, queries = walks(200, ticks)
    comparison = compare(
        f"predictive, 200 items × {ticks:,} ticks",
        {
            "predictive": lambda: simulate(trace, queries, "predictive"),
            "plain numpy": lambda: plain_numpy(trace.values, 4.0),
        },
    )
    print(comparison.text(work=200 * ticks, unit="item-ticks"))
    ratio = 1 / comparison.ratio("predictive", "plain numpy")
    return Figure("predictive, times plain numpy's time", ratio, "×", "≤ 40", ratio <= 40)


def overlapping(rows: int, items: int, each: int) -> tuple[WidthConstraints, np.ndarray]:
    """Averages over random items, and the same as a dense matrix."""
    rng = np.random.default_rng(1)
    members = [rng.choice(items, each, replace=False) for _ in range(rows)]
    table = np.zeros((rows, items))
    for row, chosen in enumerate(members):
        table[row, chosen] = 1.0
    return constraints_of([("avg", chosen, np.ones(each), 1.0) for chosen in members], items), table


def targets(rounds: int) -> Figure:
    """Each round has new Poisson counts of the same rates, as at successive boundaries: warm, yet another problem."""
    rng = np.random.default_rng(2)
    rows, table = overlapping(200, 200, 50)
    rates, widths = rng.uniform(1, 5, 200), rng.uniform(0.5, 2, 200)
    burdens = [rng.poisson(rates) / 10 / widths for _ in range(rounds + 1)]
    start = solve(rows, burdens[0])

    def warm() -> None:
        current = start.copy()
        for one in burdens[1:]:
            improve(rows.arrays, one, current)

    def cold() -> None:
        for one in burdens[1:]:
            nnls(table.T, one)

    comparison = compare(f"targets of 200 rows over 25 % of 200 items, {rounds} times", {"warm": warm, "nnls": cold})
    print(comparison.text(work=rounds, unit="solves"))
    share = 1 / comparison.ratio("warm", "nnls")
    return Figure("targets, share of nnls's time", share, "", "≤ 0.2", share <= 0.2)


def boundaries(items: int) -> list[Figure]:
    """The end of a period of one average over many items, and of many averages over many items."""
    many = constraints_of(
        [("avg", np.random.default_rng(k).choice(items, 100, replace=False), np.ones(100), 1.0) for k in range(1000)],
        items,
    )
    one = {n: constraints_of([("avg", np.arange(n), np.ones(n), 1.0)], n) for n in (items, 10 * items)}
    small, large = one.values()
    times = {name: best_boundary(rows) for name, rows in (("many", many), ("small", small), ("large", large))}
    growth = times["large"] / times["small"]
    return [
        Figure(f"boundary, 1,000 averages of 100 of {items:,} items", 1e3 * times["many"], "ms"),
        Figure(f"boundary, one average of {10 * items:,} items", 1e3 * times["large"], "ms"),
        Figure("its growth for 10 times the items", growth, "×"),
    ]


def best_boundary(rows: WidthConstraints) -> float:
    rng = np.random.default_rng(3)
    widths, asked, costs, seconds = rows.uniform, None, np.ones(rows.n_items), []
    for number in range(6):
        counts = rng.poisson(1, rows.n_items)
        start = time.perf_counter()
        decided = reallocate(
            rows, widths, counts, costs, period=10, shrink=0.05, targets=asked, key=key_of(0, 0, number)
        )  # fmt: skip
        seconds.append(time.perf_counter() - start)
        widths, asked = decided.widths, decided.targets
    return min(seconds[1:])


def growth_of_cost(items: int, ticks: int) -> list[Figure]:
    """What twice and four times the ticks or the items cost: the larger growth of two doublings."""
    figures = []
    for policy in ("uniform", "adaptive", "predictive"):
        n, length = (items, ticks) if policy != "predictive" else (items // 4, ticks // 10)
        sizes = {
            "base": (n, length),
            "ticks": (n, 2 * length),
            "ticks again": (n, 4 * length),
            "items": (2 * n, length),
            "items again": (4 * n, length),
        }
        work = {name: walks(*size) for name, size in sizes.items()}
        comparison = compare(
            policy, {name: lambda one=one, policy=policy: simulate(*one, policy) for name, one in work.items()}
        )
        for what in ("ticks", "items"):
            ratio = max(comparison.ratio("base", what), comparison.ratio(what, f"{what} again"))
            figures.append(Figure(f"{policy}, twice the {what}", ratio, "×", "≤ 2.6", ratio <= 2.6))
    return figures


def a_million_items(items: int) -> list[Figure]:
    """One average over very many items, 20 ticks with two boundaries; milliseconds a tick."""
    values = np.random.default_rng(4).normal(size=(20, items)).cumsum(axis=0)
    trace = Trace(tuple(f"item{k}" for k in range(items)), values)
    query = Aggregate.over("mean", "avg", trace.items, within=3.0)
    figures = []
    for policy in ("uniform", "adaptive"):
        start = time.perf_counter()
        run = simulate(trace, [query], policy)
        seconds = time.perf_counter() - start
        assert run.violations == 0
        figures.append(Figure(f"{policy}, one average of {items:,} items, a tick", 1e3 * seconds / 20, "ms"))
    return figures


def memory(items: int) -> list[Figure]:
    """Arrays of length items that a simulation takes beside the trace, and whether it copies the trace.

    The trace has gaps, so that it is filled: that one copy is allowed, and is not among the arrays.
    """
    figures = []
    for policy, bar in (("uniform", 40), ("optimal", 40), ("adaptive", 40), ("predictive", 500)):
        short, long = (alone(arrays_taken, policy, items, ticks) for ticks in (30, 120))
        arrays, copies = max(short - 30, long - 120), (long - short) / 90
        figures.append(Figure(f"{policy}, arrays beside the filled trace", arrays, "", f"≤ {bar}", arrays <= bar))
        figures.append(Figure(f"{policy}, copies of the trace", copies, "", "≤ 1, the filled one", copies <= 1.1))
    return figures


def alone(function: Callable[..., float], *given: object) -> float:
    """What it returns in a process that does nothing else."""
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        return fresh.apply(function, given)


def arrays_taken(policy: str, items: int, ticks: int) -> float:
    """By how much this process grows at most, in arrays of float64[items]."""
    simulate(*walks_with_a_gap(5, 30), policy)
    trace, queries = walks_with_a_gap(items, ticks)
    hundred = growth_in_bytes(lambda: np.ones((100, items))) / (8 * items)
    assert abs(hundred - 100) < 5, f"100 arrays were measured as {hundred}"
    return growth_in_bytes(lambda: simulate(trace, queries, policy)) / (8 * items)


def walks_with_a_gap(items: int, ticks: int) -> tuple[Trace, list[Aggregate]]:
    trace, queries = walks(items, ticks)
    trace.values[ticks // 2, 0] = np.nan
    return trace, queries


def growth_in_bytes(run: Callable[[], object]) -> int:
    """How much more memory than before this process has at most while it runs. Linux alone can say it.

    `ru_maxrss` cannot: it never falls, and a process begins with that of its parent. What was freed before is given
    back first, or it would be used again unseen.
    """
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    run()
    return resident("VmHWM") - before


def resident(field: str) -> int:
    """Bytes of this process in memory: now (VmRSS), or at most since that was cleared (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))


def main() -> None:
    quick = arguments("Speed of simulate and of a period's end.").quick
    ticks = 2_000 if quick else 20_000
    figures = [
        *tick_loops(200, ticks, {"uniform": 2.0, "adaptive": 1.0}),
        *tick_loops(20, ticks, {"uniform": 8.0}),
        predictive_loop(1_000 if quick else 3_000),
        targets(5 if quick else 20),
        *growth_of_cost(200, ticks),
        *boundaries(10_000 if quick else 100_000),
        *a_million_items(100_000 if quick else 1_000_000),
        *memory(20_000 if quick else 100_000),
    ]
    if quick:  # the bars are for the full sizes
        figures = [replace(figure, holds=None) for figure in figures]
    if not report("filters-simulate", {"ticks": ticks}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
