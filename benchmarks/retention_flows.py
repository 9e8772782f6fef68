"""Speed of the optimum and of FlowExpect against HiGHS on the same graphs (`docs/design/retention.md` §7)."""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from side_by_side import Figure, arguments, compare, report
from tolerant.experiments.workloads.moving_streams import streams, walks
from tolerant.retention import join
from tolerant.retention.offline.flow import Arcs
from tolerant.retention.offline.flow_expect import decide
from tolerant.retention.offline.optimal_join import best_join, graph_of


def by_highs(nodes: int, arcs: Arcs, source: int, sink: int, units: int) -> float:
    """The most gain, as a linear program."""
    m = len(arcs.tails)
    ends, columns = np.concatenate([arcs.tails, arcs.heads]), np.tile(np.arange(m), 2)
    balance = coo_array((np.repeat([1.0, -1.0], m), (ends, columns)), shape=(nodes, m)).tocsr()
    supply = np.zeros(nodes)
    supply[source], supply[sink] = units, -units
    bounds = np.stack([np.zeros(m), arcs.room], axis=1)
    return -linprog(-arcs.gains, A_eq=balance, b_eq=supply, bounds=bounds, method="highs").fun


def optimum(name: str, r: np.ndarray, s: np.ndarray, memory: int, rounds: int) -> Figure:
    graph = graph_of(r, s, memory, None, 0)

    def theirs() -> float:
        return by_highs(graph.nodes, graph.arcs, graph.source, graph.sink, memory)

    assert round(theirs()) == best_join(r, s, memory, None, 0)[0]
    comparison = compare(
        f"optimum, {name}, n = {len(r):,}, memory {memory}",
        {"ours": lambda: best_join(r, s, memory, None, 0), "HiGHS": theirs},
        rounds=rounds,
    )
    print(comparison.text())
    ratio = comparison.ratio("ours", "HiGHS")
    return Figure(f"optimum over HiGHS, {name}, n = {len(r):,}", ratio, "×", "≥ 5", ratio >= 5)


def half_a_second(ticks: int) -> list[Figure]:
    """The optimum of the workloads of [DISS] chapter 3 at memory 10."""
    figures = []
    for name in ("TOWER", "ROOF", "FLOOR"):
        r, s, _ = streams(name, ticks, 1)
        comparison = compare(f"optimum of {name}", {"ours": lambda r=r, s=s: join(r, s, 10, "optimal")})
        seconds = comparison.timings[0].best
        figures.append(Figure(f"optimum of {name}, n = {ticks:,}, memory 10", seconds, "s", "< 0.5", seconds < 0.5))
    return figures


def expect_arcs(gains: np.ndarray, later: np.ndarray, memory: int) -> tuple[int, Arcs]:
    """FlowExpect's graph as one would build it for a solver; hubs are nodes 0 … steps."""
    n, steps = gains.shape
    tails, heads, room, gain = list(range(steps)), list(range(1, steps + 1)), [memory] * steps, [0.0] * steps
    nodes = steps + 1
    chains = [(0, gains[k]) for k in range(n)]
    chains += [(i, later[k, i - 1]) for i in range(1, steps) for k in (0, 1)]
    for enters, worth in chains:
        before = enters
        for i in range(enters + 1, steps + 1):
            tails += [before, nodes]
            heads += [nodes, i]
            room += [1, 1]
            gain += [worth[i - 1], 0.0]
            before, nodes = nodes, nodes + 1
    return nodes, Arcs(np.array(tails), np.array(heads), np.array(room), np.array(gain))


def plans(rounds: int) -> Figure:
    """One decision of FlowExpect: memory 10, twelve candidates, five ticks ahead, gains as on ROOF."""
    rng = np.random.default_rng(0)
    cases = [(rng.random((12, 5)) * 0.1, rng.random((2, 5, 5)) * 0.05) for _ in range(rounds)]

    def ours() -> float:
        return sum(decide(gains, later, 10)[1] for gains, later in cases)

    def theirs() -> float:
        total = 0.0
        for gains, later in cases:
            nodes, arcs = expect_arcs(gains, later, 10)
            total += by_highs(nodes, arcs, 0, 5, 10)
        return total

    assert abs(ours() - theirs()) < 1e-6
    comparison = compare(f"{rounds} plans of FlowExpect", {"ours": ours, "HiGHS": theirs})
    print(comparison.text(work=rounds, unit="plans"))
    ratio = comparison.ratio("ours", "HiGHS")
    return Figure("a plan of FlowExpect over HiGHS", ratio, "×", "≥ 5", ratio >= 5)


def ticks_of_flow_expect(ticks: int) -> Figure:
    """A whole tick, chances and meetings included, against the program alone."""
    r, s, models = streams("ROOF", ticks, 1)
    gains, later = np.full((12, 5), 0.05), np.full((2, 5, 5), 0.03)

    def theirs() -> None:
        for _ in range(20):
            nodes, arcs = expect_arcs(gains, later, 10)
            by_highs(nodes, arcs, 0, 5, 10)

    comparison = compare(
        f"{ticks} ticks of FlowExpect on ROOF, memory 10; HiGHS: 20 plans",
        {"ours": lambda: join(r, s, 10, "flow-expect", models=models), "HiGHS": theirs},
    )
    ours, solver = (timing.best for timing in comparison.timings)
    ratio = (solver / 20) / (ours / ticks)
    print(f"{comparison.title}: {1e3 * ours / ticks:.2f} ms a tick, HiGHS {1e3 * solver / 20:.2f} ms")
    return Figure("a tick of FlowExpect over HiGHS", ratio, "×", "≥ 5", ratio >= 5)


def main() -> None:
    quick = arguments(__doc__ or "").quick
    ticks = 1000 if quick else 5000
    weights = 1.0 / np.arange(1, 1001)
    zipf = np.random.default_rng(0).choice(1000, (2, ticks), p=weights / weights.sum())
    roof = streams("ROOF", 5 * ticks if quick else 50_000, 1)
    figures = [
        optimum("Zipf 1, 1,000 values", zipf[0], zipf[1], 50, 1),
        optimum("ROOF", roof[0], roof[1], 20, 1),
        optimum("WALK", *walks(ticks, 1), 10, 1 if quick else 3),
        *half_a_second(5000),
        plans(10 if quick else 50),
        ticks_of_flow_expect(100 if quick else 500),
    ]
    sys.exit(0 if report("retention-flows", {"ticks": ticks}, figures) else 1)


if __name__ == "__main__":
    main()
