"""Speed of `views.schedule`, against plain Dijkstra on the same graph in plain Python (`docs/design/views.md` §7).

The baseline is what one writes from [DISS] section 2.4.1: nodes are (tick, state), an edge for each minimal set, a
binary heap; no heuristic, no dominance. Ours proves the same cost.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

from side_by_side import Figure, arguments, compare, report
from tolerant.views import Linear, schedule
from tolerant.views.optimal_plan import best_plan
from tolerant.views.plan_search import first_label
from tolerant.views.schedule_problem import posed

COSTS = [Linear(0.25, 0.5), Linear(0.01, 7)]
LIMIT = 12.0


def plain_dijkstra(ticks: int) -> float:
    """The cost of the best plan for one row per tick and table."""
    bound, last, n = LIMIT * (1 + 1e-9), ticks - 1, len(COSTS)

    def next_broken(tick: int, left: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        state = left
        while tick < last:
            tick += 1
            state = tuple(k + 1 for k in state)
            if sum(f(k) for f, k in zip(COSTS, state, strict=True)) > bound:
                break
        return tick, state

    def sets(state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for size in range(1, n + 1):
            for chosen in itertools.combinations(range(n), size):
                left = sum(COSTS[i](state[i]) for i in range(n) if i not in chosen)
                if left <= bound and not any(set(one) <= set(chosen) for one in found):
                    found.append(chosen)
                    yield chosen

    first = next_broken(-1, (0,) * n)
    heap, known, done = [(0.0, first)], {first: 0.0}, set()
    while heap:
        paid, node = heapq.heappop(heap)
        if node in done:
            continue
        done.add(node)
        tick, state = node
        if tick > last:
            return paid
        if tick == last:
            reached = [(sum(f(k) for f, k in zip(COSTS, state, strict=True)), (last + 1, ()))]
        else:
            reached = []
            for chosen in sets(state):
                after = next_broken(tick, tuple(0 if i in chosen else k for i, k in enumerate(state)))
                reached.append((sum(COSTS[i](state[i]) for i in chosen), after))
        for price, after in reached:
            if paid + price < known.get(after, float("inf")):
                known[after] = paid + price
                heapq.heappush(heap, (paid + price, after))
    raise AssertionError("a plan always exists")


def optimal(ticks: int) -> list[Figure]:
    """Ours against Dijkstra; growth from 501 to 1,001 ticks; memory of a label."""
    few, small, large = (np.ones((size, 2), np.int64) for size in (ticks, 501, 1001))
    assert abs(schedule(COSTS, few, LIMIT, "optimal").cost - plain_dijkstra(ticks)) < 1e-6
    comparison = compare(
        f"best plan for {ticks} uniform ticks, 2 tables",
        {"optimal": lambda: schedule(COSTS, few, LIMIT, "optimal"), "plain dijkstra": lambda: plain_dijkstra(ticks)},
        warmups=0,
    )
    print(comparison.text(work=ticks, unit="ticks"))
    growth = compare(
        "twice the ticks",
        {
            "501": lambda: schedule(COSTS, small, LIMIT, "optimal"),
            "1001": lambda: schedule(COSTS, large, LIMIT, "optimal"),
        },
        rounds=20,
    )
    ratio, grown = comparison.ratio("optimal", "plain dijkstra"), growth.ratio("501", "1001")
    return [
        Figure(f"optimal over plain Dijkstra, {ticks} ticks", ratio, "×", "≥ 3, goal 30", ratio >= 3),
        Figure("optimal, 1,001 ticks", 1e3 * growth.timings[1].best, "ms"),
        Figure("optimal, growth from 501 to 1,001 ticks", grown, "×", "≤ 10", grown <= 10),
        memory(),
    ]


def memory() -> Figure:
    """Bytes a label, all arrays of the search together, when they are just full and are copied to larger ones."""
    labels = first_label(2, 2, 0, 1 << 16)
    kept = sum(part.nbytes for part in (labels.links, labels.costs, labels.base, labels.heap)) / (1 << 16)
    found = best_plan(posed(COSTS, np.ones((2001, 2), np.int64), LIMIT, foresight=True))
    print(f"  the optimum of 2,001 ticks took {found.labels:,} labels")
    return Figure("memory of a label while the arrays grow", 3 * kept, "bytes", "≤ 200", 3 * kept <= 200)


def rules(ticks: int) -> list[Figure]:
    """Naive and online on Poisson arrivals of 3 tables."""
    costs = [*COSTS, Linear(0.1, 2.0)]
    rows = np.random.default_rng(0).poisson(1.0, (2 * ticks, 3))
    figures = []
    for method in ("naive", "online"):
        comparison = compare(
            f"{method}, {ticks:,} ticks × 3 tables",
            {
                "one": lambda method=method: schedule(costs, rows[:ticks], LIMIT, method),
                "two": lambda method=method: schedule(costs, rows, LIMIT, method),
            },
            rounds=5,
        )
        print(comparison.text(work=ticks, unit="ticks"))
        seconds, grown = comparison.timings[0].best, comparison.ratio("one", "two")
        figures += [
            Figure(f"{method}, {ticks:,} ticks × 3 tables", seconds, "s", "≤ 1", seconds <= 1),
            Figure(f"{method}, twice the ticks", grown, "×", "≤ 2.5", grown <= 2.5),
        ]
    return figures


def forecast(ticks: int) -> Figure:
    """Milliseconds an action, window 100, 2 tables, costs of both kinds."""
    rows = np.random.default_rng(1).poisson(1.0, (ticks, 2))
    kinds: dict[str, list[Callable[[int], float]]] = {
        "linear": list(COSTS),
        "square root": [lambda k: 0.9 * k**0.5 if k else 0.0, lambda k: 0.2 * k**0.5 + 7 if k else 0.0],
    }
    worst = 0.0
    for kind, costs in kinds.items():
        schedule(costs, rows[:200], LIMIT, "forecast")
        best, actions = float("inf"), 1
        for _ in range(3):
            start = time.perf_counter()
            actions = len(schedule(costs, rows, LIMIT, "forecast").actions)
            best = min(best, time.perf_counter() - start)
        print(f"  forecast, {kind} costs: {1e3 * best / actions:.3f} ms an action, {actions} actions")
        worst = max(worst, 1e3 * best / actions)
    return Figure("forecast, window 100, the dearer kind of cost", worst, "ms an action", "≤ 20", worst <= 20)


def main() -> None:
    quick = arguments("Speed of view schedules.").quick
    ticks = 201 if quick else 501
    figures = [*optimal(ticks), *rules(100_000), forecast(500 if quick else 2_000)]
    if not report("views-schedule", {"ticks of the optimum": ticks}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
