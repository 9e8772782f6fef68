"""Messages that plans take, heuristic by heuristic, on recorded and generated traces (`docs/design/planning.md` §5.2,
§7).

Plans are made from the first half of a trace and run on the second. Bars are judged on minute prices, where those are
to be had (TOLERANT_DATA names their folder).
"""

from __future__ import annotations

import numpy as np

from side_by_side import Figure, arguments, report
from tolerant.experiments.workloads.aggregator_networks import halves, portfolios, random_network, trace_of, traces
from tolerant.planning import Dynamics, Unsatisfiable, plan, simulate, simulate_levels
from tolerant.queries import Aggregate

HEURISTICS = (
    "naive", "optimal-bounds", "random", "min-cost", "max-gain", "max-gain-relative", "search", "exact", "split",
)  # fmt: skip


def messages(name: str, factor: float, signs: bool, queries: int, seed: int) -> dict[str, float]:
    """Mean refreshes a query: 3 to 10 items, weights U(2, 10), within 0.8, over 25 aggregators."""
    trace = trace_of(name)
    learn, run = halves(trace)
    network = random_network(trace.items, 0.005 * factor, 0.02 * factor, seed=seed)
    asked = portfolios(trace.items, queries, 0.8, sizes=(3, 10), seed=seed)
    if signs:
        rng = np.random.default_rng(seed)
        asked = [
            Aggregate(q.name, "sum", {i: w * rng.choice([-1, 1]) for i, w in q.weights.items()}, q.within)
            for q in asked
        ]
    dynamics, totals, met = Dynamics.of(learn), dict.fromkeys(HEURISTICS, 0), 0
    for query in asked:
        try:
            plans = {heuristic: plan(query, network, dynamics, heuristic) for heuristic in HEURISTICS}
        except Unsatisfiable:
            continue
        met += 1
        for heuristic, made in plans.items():
            found = simulate(made, run)
            assert found.violations == 0
            totals[heuristic] += found.refreshes
    return {heuristic: total / max(met, 1) for heuristic, total in totals.items()}


def levels(queries: int) -> list[Figure]:
    """Minima and maxima of 3 to 10 items, parts far from the answer with levels: all messages over those without."""
    figures = []
    for name in traces("minute prices", "walk", "weather data", "daily stocks"):
        trace = trace_of(name)
        learn, run = halves(trace)
        network, dynamics = random_network(trace.items, 0.00025, 0.001), Dynamics.of(learn)
        for within in (0.05, 0.2):
            rng, always, levelled = np.random.default_rng(1), 0, 0
            for fn in ("min", "max"):
                for _ in range(queries):
                    items = rng.choice(trace.items, rng.integers(3, 11), replace=False).tolist()
                    made = plan(Aggregate.over("q", fn, items, within), network, dynamics, "exact")
                    found = simulate_levels(made, run)
                    assert found.violations == 0
                    always += simulate(made, run).refreshes
                    levelled += found.refreshes + found.level_messages
            ratio = levelled / max(always, 1)
            title = f"{name}, min and max within {within}, with levels"
            figures.append(Figure(title, ratio, "", "≤ 1.02", ratio <= 1.02))
    return figures


def main() -> None:
    quick = arguments("Messages that plans take.").quick
    queries, seeds = (20, 1) if quick else (60, 3)
    sets = [
        (name, factor, signs)
        for name in traces("minute prices", "walk", "weather data", "daily stocks")
        for factor, signs in ((1 / 20, False), (1 / 20, True), (1.0, False))
    ]
    figures, ratios, shares = [], dict[str, list[float]](), dict[str, list[float]]()
    print(f"{'':<42}" + "".join(f"{heuristic:>18}" for heuristic in HEURISTICS))
    for name, factor, signs in sets:
        found = [messages(name, factor, signs, queries, seed) for seed in range(seeds)]
        mean = {heuristic: float(np.mean([one[heuristic] for one in found])) for heuristic in HEURISTICS}
        title = f"{name}, c{' / 20' if factor < 1 else ''}{', signs' if signs else ''}"
        print(f"{title:<42}" + "".join(f"{mean[heuristic]:>18.0f}" for heuristic in HEURISTICS))
        for one, other in (("exact", "max-gain"), ("search", "max-gain"), ("split", "exact")):
            pair = f"{one} over {other}" + (", c / 20" if one == "split" else "")
            if one != "split" or factor < 1:
                ratios.setdefault(pair, []).append(mean[one] / mean[other])
                shares.setdefault(pair, []).extend(each[one] / each[other] for each in found)
        if name == "minute prices" and factor < 1 and not signs:
            for other, bar in (("optimal-bounds", 1 / 3), ("min-cost", 0.85), ("naive", 1 / 3)):
                ratio = mean["max-gain"] / mean[other]
                figures.append(Figure(f"minute prices, max-gain over {other}", ratio, "", f"≤ {bar:.2f}", ratio <= bar))
    for pair, measured in ratios.items():
        average, bar = float(np.mean(measured)), 0.96 if pair.startswith("exact") else 1.0
        figures.append(Figure(f"{pair}, mean of the sets", average, "", f"≤ {bar:g}", average <= bar))
        quantiles = np.quantile(shares[pair], [0, 0.5, 1]).tolist()
        figures += [
            Figure(f"{pair}, {word} of the networks", x, "")
            for word, x in zip(("least", "median", "most"), quantiles, strict=True)
        ]
    figures += levels(10 if quick else 40)
    if not report("planning-messages", {"queries": queries, "networks": seeds, "sets": len(sets)}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
