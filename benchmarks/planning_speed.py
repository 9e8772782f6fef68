"""Speed of planning against plain Python and SciPy (`docs/design/planning.md` §7).

The baseline of `plan`, `exact` and `simulate` is `planning_plain.py`, which does the same line by line; that of
`allocate` is `scipy.optimize`'s SLSQP, with the gradient given to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import planning_plain as plain
from side_by_side import Figure, arguments, compare, report
from tolerant.planning import Dynamics, Plan, allocate, plan, plan_many, simulate
from tolerant.traces import random_walk


def dynamics_of(rng: np.random.Generator, items: tuple[str, ...]) -> Dynamics:
    """Five shared factors and noise of their own, sizes log-normal."""
    loads = rng.normal(size=(len(items), 5)) / 2
    steps = rng.normal(size=(2_000, 5)) @ loads.T + rng.normal(size=(2_000, len(items)))
    return Dynamics(items, rng.lognormal(0, 0.8, len(items)), np.corrcoef(steps.T))


def named(count: int) -> tuple[str, ...]:
    return tuple(f"i{k}" for k in range(count))


def processor_time(work: Callable[[], object]) -> float:
    """The least of seven rounds, in seconds of the processor: growth is the work's, whoever else is running."""
    rounds = []
    for _ in range(8):
        start = time.process_time()
        work()
        rounds.append(time.process_time() - start)
    return min(rounds[1:])


def simulations(ticks: int) -> list[Figure]:
    def case(items: int, long: int) -> tuple[Plan, object]:
        rng = np.random.default_rng(1)
        names = named(items)
        network = plain.random_network(rng, items, names, 2, 5, 0.05, 0.2)
        query = plain.random_query(rng, names, items, 10.0 * items)
        return plan(query, network, dynamics_of(rng, names)), random_walk(names, long, 0.5)

    made, trace = case(10, ticks)
    run = simulate(made, trace)
    assert (list(run.by_part), run.violations, run.feeds) == plain.simulated(made, trace)
    pair = compare(
        f"simulate, 10 items × {ticks:,} ticks",
        {"ours": lambda: simulate(made, trace), "plain Python": lambda: plain.simulated(made, trace)},
    )
    print(pair.text(work=10 * ticks, unit="item-ticks"))
    sizes = {"base": case(20, 50_000), "ticks": case(20, 100_000), "items": case(40, 50_000)}
    times = {name: processor_time(lambda one=one: simulate(*one)) for name, one in sizes.items()}
    ratio = pair.ratio("ours", "plain Python")
    figures = [Figure("simulate over plain Python", ratio, "×", "≥ 50", ratio >= 50)]
    for name in ("ticks", "items"):
        more = times[name] / times["base"]
        figures.append(Figure(f"simulate, twice the {name}", more, "×", "≤ 2.6", more <= 2.6))
    return figures


def large_plans() -> list[Figure]:
    def case(aggregators: int):
        rng = np.random.default_rng(2)
        names = named(300)
        network = plain.random_network(rng, aggregators, names, 40, 80, 0.0, 0.01)
        return plain.random_query(rng, names, 300, 50.0), network, dynamics_of(rng, names)

    one, two = case(150), case(300)
    ours, slow = plan(*one), plain.greedy(*one)
    assert abs(ours.cost / slow.cost - 1) < 1e-6
    pair = compare(
        "max-gain, 300 items, 150 aggregators",
        {"ours": lambda: plan(*one), "plain Python": lambda: plain.greedy(*one), "twice": lambda: plan(*two)},
    )
    print(pair.text())
    ratio, growth = pair.ratio("ours", "plain Python"), pair.ratio("ours", "twice")
    return [
        Figure("max-gain, 300 items, over plain Python", ratio, "×", "≥ 20", ratio >= 20),
        Figure("the same, twice the aggregators", growth, "×", "≤ 2.5", growth <= 2.5),
    ]


def small_case(rng: np.random.Generator, size: int, aggregators: int = 25, of: int = 25):
    names = named(of)
    network = plain.random_network(rng, aggregators, names, 1, min(10, of), 0.00025, 0.001)
    return plain.random_query(rng, names, size, 0.8), network, dynamics_of(rng, names)


def small_plans(many: int) -> list[Figure]:
    rng = np.random.default_rng(3)
    query, network, dynamics = small_case(rng, 10)
    queries = [plain.random_query(rng, named(25), 10, 0.8, name=f"q{k}") for k in range(many)]
    one = compare(
        "max-gain, 10 items, 25 aggregators, 50 times",
        {
            "ours": lambda: [plan(query, network, dynamics) for _ in range(50)],
            "plain Python": lambda: [plain.greedy(query, network, dynamics) for _ in range(50)],
        },
    )
    bulk = compare(
        f"plan_many, {many} queries",
        {
            "ours": lambda: plan_many(queries, network, dynamics),
            "plain Python": lambda: [plain.greedy(one, network, dynamics) for one in queries],
        },
    )
    print(one.text(work=50, unit="plans"), bulk.text(work=many, unit="plans"), sep="\n")
    ratios = one.ratio("ours", "plain Python"), bulk.ratio("ours", "plain Python")
    return [
        Figure("max-gain, 10 items, over plain Python", ratios[0], "×", "≥ 5", ratios[0] >= 5),
        Figure(f"plan_many of {many}, over plain Python", ratios[1], "×", "≥ 10", ratios[1] >= 10),
    ]


def allocations() -> list[Figure]:
    figures = []
    for parts in (20, 100):
        rng = np.random.default_rng(parts)
        rough, floors = rng.lognormal(0, 2, parts), rng.uniform(0, 1, parts)
        within = float(floors.sum() * 1.3)

        def cost(bounds, rough=rough):
            return float((rough / bounds**2).sum())

        def slsqp(rough=rough, floors=floors, within=within, cost=cost):
            return minimize(
                cost,
                floors + (within - floors.sum()) / floors.size,
                jac=lambda c: -2 * rough / c**3,
                bounds=[(floor, None) for floor in floors],
                constraints={"type": "ineq", "fun": lambda c: within - c.sum(), "jac": lambda c: -np.ones(c.size)},
                method="SLSQP",
                options={"maxiter": 500, "ftol": 1e-12},
            )

        def ours(rough=rough, floors=floors, within=within):
            for _ in range(100):
                allocate(rough, floors, within)

        assert cost(allocate(rough, floors, within)) <= slsqp().fun * (1 + 1e-9)
        pair = compare(f"allocate, {parts} parts (ours 100 times)", {"ours": ours, "SLSQP": slsqp})
        ratio = 100 * pair.ratio("ours", "SLSQP")
        figures.append(Figure(f"allocate over SLSQP, {parts} parts", ratio, "×", "≥ 100", ratio >= 100))
    return figures


def exact_plans(instances: int) -> list[Figure]:
    rng = np.random.default_rng(4)
    ten, twelve = ([small_case(rng, size) for _ in range(instances)] for size in (10, 12))
    pair = compare(
        f"{instances} queries on 25 aggregators",
        {
            "max-gain, 10 items": lambda: [plan(*one) for one in ten],
            "exact, 10 items": lambda: [plan(*one, "exact") for one in ten],
            "exact, 12 items": lambda: [plan(*one, "exact") for one in twelve],
        },
    )
    few = [small_case(rng, 6, aggregators=5, of=6) for _ in range(3)]
    for one in few:
        assert abs(plan(*one, "exact").cost / plain.cheapest(*one) - 1) < 1e-9
    brute = compare(
        "exact, 6 items, 5 aggregators",
        {
            "ours": lambda: [plan(*one, "exact") for one in few],
            "every assignment": lambda: [plain.cheapest(*one) for one in few],
        },
    )
    print(pair.text(work=instances, unit="plans"), brute.text(), sep="\n")
    over, more = pair.ratio("max-gain, 10 items", "exact, 10 items"), pair.ratio("exact, 10 items", "exact, 12 items")
    forced = brute.ratio("ours", "every assignment")
    near = [plan(*one, "search").cost / plan(*one, "exact").cost for one in ten + twelve]
    mean = float(np.mean(near))
    return [
        Figure("exact, 10 items, in times of max-gain", over, "×", "< 30", over < 30),
        Figure("exact, 12 items, in times of 10", more, "×", "≤ 15", more <= 15),
        Figure("exact over every assignment, 6 items", forced, "×", "≥ 20", forced >= 20),
        Figure("search, cost over exact, mean", mean, "×", "≤ 1.02", mean <= 1.02),
        Figure("search, cost over exact, most", max(near), "×"),
    ]


def main() -> None:
    quick = arguments("Speed of planning.").quick
    ticks, many, instances = (10_000, 100, 10) if quick else (10_000, 500, 40)
    figures = [
        *simulations(ticks),
        *large_plans(),
        *small_plans(many),
        *allocations(),
        *exact_plans(instances),
    ]
    if not report("planning-speed", {"ticks": ticks, "queries": many, "instances": instances}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
