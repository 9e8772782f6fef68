"""Messages and bytes of every policy, against what an engineer would pick today (`docs/design/filters.md` §7).

On generated data predictive filters stand against adaptive ones. On recorded traces (`--traces FOLDER`, or the
environment variable TOLERANT_DATA; left out where there are none) all stand against a fixed deadband per item, at the
same guaranteed error of the *answer*: the same for every item ("uniform"), or in proportion to how much each moves,
known beforehand; and against swinging-door compression, whose answers come only when a segment ends.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from side_by_side import Figure, report
from tolerant.experiments.adaptive_filters import filters_fig3, filters_fig4, filters_fig7, filters_fig8
from tolerant.experiments.workloads.hindsight import count_sent
from tolerant.experiments.workloads.recorded import FOLDER
from tolerant.experiments.workloads.scaled_traces import available, scaled
from tolerant.experiments.workloads.trace_kinds import averages, generated, one_average
from tolerant.filters import Run, simulate
from tolerant.filters.constraints import Terms, WidthConstraints, constraints_of
from tolerant.filters.width_fitting import fitted
from tolerant.kernels.compiled import compiled
from tolerant.queries import Aggregate
from tolerant.traces import Trace, random_walk

UPDATE, PREDICTION, REPORT, GRANT = 16, 24, 44, 24
"""Bytes: a value and its time; a level, slope and time; a report; a width and its version."""
DELTAS = (2.0, 8.0, 30.0)


@compiled
def swinging_door(values: np.ndarray, errors: np.ndarray, warmup: int) -> np.ndarray:
    """Points that swinging-door compression keeps of each item, no value further than its error from the lines.

    The textbook keeps the last value, and a line to it can pass an earlier value by more than the error; this one keeps
    a point in the middle of where the line may go.
    """
    ticks, n = values.shape
    kept = np.zeros(n)
    for item in range(n):
        start, level, low, high = 0, values[0, item], -np.inf, np.inf
        for tick in range(1, ticks):
            span = tick - start
            below, above = values[tick, item] - errors[item] - level, values[tick, item] + errors[item] - level
            if below / span > high or above / span < low:
                level += (low + high) / 2 * (span - 1)
                start = tick - 1
                low, high = values[tick, item] - errors[item] - level, values[tick, item] + errors[item] - level
                kept[item] += tick >= warmup
            else:
                low, high = max(low, below / span), min(high, above / span)
    return kept


def rows_for(trace: Trace, queries: list[Aggregate]) -> WidthConstraints:
    place = {item: k for k, item in enumerate(trace.items)}
    return constraints_of(
        [
            Terms(q.fn, np.array([place[i] for i in q.weights]), np.array(list(q.weights.values()), float), q.within)
            for q in queries
        ],
        len(place),
    )


def proportional(trace: Trace, rows: WidthConstraints) -> np.ndarray:
    """Deadbands in proportion to each item's r.m.s. change, as wide as the queries allow."""
    steps = np.sqrt((np.diff(trace.filled(), axis=0) ** 2).mean(axis=0))
    widths = np.where(rows.unqueried, 0.0, steps + 1e-12 * steps.max())
    used = rows.used(widths)
    return np.where(rows.unqueried, np.inf, fitted(rows, widths * (rows.beta / used).max()))


def on_recorded(trace: Trace, queries: list[Aggregate], warmup: int) -> dict[str, tuple[float, float]]:
    """(messages, bytes) by method."""
    rows = rows_for(trace, queries)
    values = trace.filled()
    runs = {policy: simulate(trace, queries, policy, warmup=warmup) for policy in ("uniform", "adaptive", "predictive")}
    assert not any(run.violations for run in runs.values())
    doors = swinging_door(values, np.where(rows.unqueried, np.inf, rows.uniform) / 2, warmup).sum()
    bands = count_sent(values, proportional(trace, rows), warmup, False).sum()
    found = {policy: (run.cost, sent_bytes(run, policy)) for policy, run in runs.items()}
    return {**found, "proportional": (bands, UPDATE * bands), "swinging door": (doors, UPDATE * doors)}


def sent_bytes(run: Run, policy: str) -> float:
    update = PREDICTION if policy == "predictive" else UPDATE
    return run.updates * update + run.reports * REPORT + run.grants * GRANT


def recorded_figures(ticks: int, warmup: int, draws: int, judged: bool) -> list[Figure]:
    """Geometric means over the cells of what uniform deadbands send, and the worst cell of predictive filters."""
    ratios: dict[str, list[tuple[float, float, float]]] = {}
    for name in available():
        trace = scaled(name, ticks)
        for label, queries in (
            ("one", lambda delta, draw: one_average(trace, delta)),  # noqa: B023
            ("six", lambda delta, draw: averages(trace, delta, 6, (5, 5), (0.3, 1.0), draw)),  # noqa: B023
        ):
            told = []
            for delta in DELTAS:
                # One average is the same in every draw, and weighs as much as all the draws of six.
                cells = [on_recorded(trace, queries(delta, draw), warmup) for draw in range(draws)]
                base = np.array([cell["uniform"] for cell in cells])
                for method in cells[0]:
                    ratio = np.array([cell[method] for cell in cells]) / np.maximum(base, 1)
                    mean = np.exp(np.log(np.maximum(ratio, 0.01)).mean(axis=0))
                    worst = max([*ratio[base[:, 0] >= 100, 0], 0.0])
                    ratios.setdefault(method, []).append((mean[0], mean[1], worst))
                told.append(" / ".join(f"{found[-1][0]:.2f}" for found in ratios.values()))
            print(f"  {name}, {label}: {'   '.join(told)}", flush=True)
    print(f"  (messages over uniform's, at δ = 2, 8, 30 steps: {' / '.join(ratios)})")
    figures = []
    for method, found in ratios.items():
        if method != "uniform":
            messages, size = (float(np.exp(np.mean(np.log([cell[k] for cell in found])))) for k in (0, 1))
            bar = ("≤ 0.75", messages <= 0.75) if judged and method == "predictive" else ("", None)
            figures.append(Figure(f"{method} over uniform, messages", messages, "×", *bar))
            figures.append(Figure(f"{method} over uniform, bytes", size, "×"))
    worst = max(cell[2] for cell in ratios["predictive"])
    return [
        *figures,
        Figure("predictive over uniform, worst cell", worst, "×", "≤ 1.1", worst <= 1.1 if judged else None),
    ]


def generated_figures(seeds: int) -> list[Figure]:
    """Predictive over adaptive, δ = 8 steps, 10 items × 3,000 ticks."""
    figures = []
    for kind, overlap, bar in (
        ("walk", False, 0.88),
        ("walk", True, 0.8),
        ("season", False, 0.5),
        ("noisy", True, 0.55),
        ("bursty", False, 1.08),
    ):
        costs = np.zeros(2)
        for seed in range(seeds):
            trace = generated(kind, 10, 3000, seed)
            queries = averages(trace, 8.0, 5, (2, 5), (1.0, 1.0), seed) if overlap else one_average(trace, 8.0)
            costs += [simulate(trace, queries, policy, warmup=500).cost for policy in ("predictive", "adaptive")]
        ratio = costs[0] / costs[1]
        name = f"{kind}{', overlap' if overlap else ''}"
        figures.append(Figure(f"{name}: predictive over adaptive", ratio, "×", f"≤ {bar}", bool(ratio <= bar)))
    return [*figures, *extremes(seeds)]


def extremes(seeds: int) -> list[Figure]:
    """A minimum and a maximum of 40 walks."""
    costs = np.zeros(2)
    for seed in range(seeds):
        trace = random_walk(40, 3000, np.random.default_rng(seed).uniform(0.1, 1, 40), seed=seed)
        queries = [Aggregate.over(fn, fn, trace.items[half::2], 2.0) for half, fn in enumerate(("min", "max"))]
        costs += [simulate(trace, queries, policy, warmup=500).cost for policy in ("predictive", "adaptive")]
    ratio = costs[0] / costs[1]
    return [Figure("MIN and MAX of walks: predictive over adaptive", ratio, "×", "≤ 0.5", bool(ratio <= 0.5))]


def claims(quick: bool) -> list[Figure]:
    """The claims of [OJW03], from its experiments."""
    figures = []
    for name, figure, delta in (("3", filters_fig3, 3.0), ("4", filters_fig4, 3.0)):
        size = {"ticks": 4000 if quick else 20_000, "warmup": 1000, "seeds": 2 if quick else 4}
        cell = {"costs": "equal costs", "delta": delta, **size}
        rates = {row["policy"]: float(row["updates_per_tick"]) for row in figure.measure(cell)}
        ratio = rates["adaptive"] / rates["optimal"]
        figures.append(Figure(f"Figure {name}: adaptive over optimal, updates", ratio, "×", "≤ 1.45", ratio <= 1.45))
    hosts = {"rest": 3000, "delta": 0.5, "hosts": 80, "ticks": 3000, "warmup": 500}
    seven = {row["policy"]: float(row["messages_per_second"]) for row in filters_fig7.measure(hosts)}
    eight = {
        row["policy"]: float(row["messages_per_second"])
        for row in filters_fig8.measure({"regime": filters_fig8.REGIMES[0], "delta": 0.8, "ticks": 3000, "warmup": 500})
    }
    for name, ratio, bar in (
        ("Figure 7 traffic: adaptive over uniform", seven["adaptive"] / seven["uniform"], 0.85),
        ("Figure 7 traffic: predictive over adaptive", seven["predictive"] / seven["adaptive"], 0.9),
        ("Figure 8, δ = 0.8: adaptive over uniform", eight["adaptive"] / eight["uniform"], 0.5),
    ):
        figures.append(Figure(name, ratio, "×", f"≤ {bar}", ratio <= bar))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Messages and bytes of the policies.")
    parser.add_argument("--quick", action="store_true", help="a small run that shows that it works")
    parser.add_argument("--traces", help="the folder of the recorded traces")
    options = parser.parse_args()
    if options.traces:
        os.environ[FOLDER] = options.traces
    figures = [*generated_figures(1 if options.quick else 3), *claims(options.quick)]
    ticks, draws = (2000, 1) if options.quick else (6000, 2)
    if available():
        figures += recorded_figures(ticks, 500, draws, judged=not options.quick)
    else:
        print(f"no recorded traces found ({FOLDER} names their folder): left out")
    if not report("filters-policies", {"ticks": ticks, "draws": draws, "traces": len(available())}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
