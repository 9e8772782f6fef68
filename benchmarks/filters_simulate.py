"""Speed of `filters.simulate` and of a boundary, against what a user would write or pick (`specs/1-filters.md` §7).

The baseline of the tick loop is plain NumPy for uniform widths, without an audit; ours checks every promise at every
tick. The baseline of the targets is `scipy.optimize.nnls`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls

from side_by_side import Figure, arguments, compare, report
from tolerant.filters.growth import boundary
from tolerant.filters.rows import Rows, rows_of
from tolerant.filters.simulate import simulate
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


def overlapping(rows: int, items: int, each: int) -> tuple[Rows, np.ndarray]:
    """Averages over random items, and the same as a dense matrix."""
    rng = np.random.default_rng(1)
    members = [rng.choice(items, each, replace=False) for _ in range(rows)]
    table = np.zeros((rows, items))
    for row, chosen in enumerate(members):
        table[row, chosen] = 1.0
    return rows_of([("avg", chosen, np.ones(each), 1.0) for chosen in members], items), table


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
    """A boundary of one average over many items, and of many averages over many items."""
    many = rows_of(
        [("avg", np.random.default_rng(k).choice(items, 100, replace=False), np.ones(100), 1.0) for k in range(1000)],
        items,
    )
    one = {n: rows_of([("avg", np.arange(n), np.ones(n), 1.0)], n) for n in (items, 10 * items)}
    small, large = one.values()
    times = {name: best_boundary(rows) for name, rows in (("many", many), ("small", small), ("large", large))}
    growth = times["large"] / times["small"]
    return [
        Figure(f"boundary, 1,000 averages of 100 of {items:,} items", 1e3 * times["many"], "ms"),
        Figure(f"boundary, one average of {10 * items:,} items", 1e3 * times["large"], "ms"),
        Figure("its growth for 10 times the items", growth, "×"),
    ]


def best_boundary(rows: Rows) -> float:
    rng = np.random.default_rng(3)
    widths, asked, costs, seconds = rows.uniform, None, np.ones(rows.n_items), []
    for number in range(6):
        counts = rng.poisson(1, rows.n_items)
        start = time.perf_counter()
        decided = boundary(
            rows, widths, counts, costs, period=10, shrink=0.05, targets=asked, key=key_of(0, 0, number)
        )  # fmt: skip
        seconds.append(time.perf_counter() - start)
        widths, asked = decided.widths, decided.targets
    return min(seconds[1:])


def growth_of_cost(items: int, ticks: int) -> list[Figure]:
    """What twice the ticks and twice the items cost."""
    sizes = {"base": (items, ticks), "ticks": (items, 2 * ticks), "items": (2 * items, ticks)}
    work = {name: walks(*size) for name, size in sizes.items()}
    figures = []
    for policy in ("uniform", "adaptive"):
        comparison = compare(
            policy,
            {name: lambda one=one, policy=policy: simulate(*one, policy) for name, one in work.items()},
            rounds=5,
        )
        for name in ("ticks", "items"):
            ratio = comparison.ratio("base", name)
            figures.append(Figure(f"{policy}, twice the {name}", ratio, "×", "≤ 2.6", ratio <= 2.6))
    return figures


def main() -> None:
    quick = arguments("Speed of simulate and of a boundary.").quick
    ticks = 2_000 if quick else 20_000
    figures = [
        *tick_loops(200, ticks, {"uniform": 2.0, "adaptive": 1.0}),
        *tick_loops(20, ticks, {"uniform": 8.0}),
        targets(5 if quick else 20),
        *growth_of_cost(200, ticks),
        *boundaries(10_000 if quick else 100_000),
    ]
    if not report("filters-simulate", {"ticks": ticks}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
