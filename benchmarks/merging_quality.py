"""How good the plans are, and what exact ones cost (`docs/design/merging.md` §5, §7).

Distances are to optima: of partition up to 10 queries, certified by column generation at 100. The baseline of directed
search at 100 queries is the version of it in [CBGM], 50 random states of the whole set.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from side_by_side import Figure, arguments, compare, report
from tolerant.merging import Costs, area, distance, generate, lower_bound, merge, total_cost
from tolerant.merging.directed_search import directed
from tolerant.merging.pricing import Pricing
from tolerant.merging.units import collapsed

BASE = Costs(365, 3.25, 0.16)


def dense(n: int, seed: int) -> NDArray[np.float64]:
    """Rectangles of which all may belong together."""
    return generate(n, side=100, seed=seed)


def processor_seconds(n: int) -> float:
    """What the optimum of n takes, in time of the processor: on a busy machine a long run is held up more than a short
    one, and their ratio would be the machine's.
    """
    begun = time.process_time()
    merge(dense(n, 1), BASE, "partition")
    return time.process_time() - begun


def partition(sizes: tuple[int, ...]) -> list[Figure]:
    """What two queries more cost, and blobs far apart."""
    times = {n: min(processor_seconds(n) for _ in range(5)) for n in sizes}
    growth = times[sizes[-1]] / times[sizes[-2]]
    one = dense(8, 3)
    far = np.concatenate([dense(8, 3 + k) + 10_000.0 * k for k in range(5)])
    alone = sum(merge(far[8 * k : 8 * k + 8], BASE, "partition").cost for k in range(5))
    assert np.isclose(merge(far, BASE, "partition").cost, alone, rtol=1e-12)
    comparison = compare(
        "partition, 20 times",
        {
            "one blob of 8": lambda: [merge(one, BASE, "partition") for _ in range(20)],
            "five, far apart": lambda: [merge(far, BASE, "partition") for _ in range(20)],
        },
        rounds=5,
    )
    blobs = comparison.ratio("one blob of 8", "five, far apart")
    return [
        Figure(f"partition, {sizes[-1]} against {sizes[-2]} queries", growth, "×", "≤ 10", growth <= 10),
        Figure(f"partition, {sizes[-2]} queries", times[sizes[-2]], "s", "< 2", times[sizes[-2]] < 2),
        Figure("partition, 5 blobs of 8 against one", blobs, "×", "≤ 20", blobs <= 20),
    ]


def few(samples: int) -> list[Figure]:
    """Directed search against the optimum of up to 10 queries."""
    off, above = [], 0
    for sample in range(samples):
        rectangles = generate(3 + sample % 8, seed=sample)
        cost = {m: merge(rectangles, BASE, m).cost for m in ("none", "pairs", "directed", "partition")}
        off.append(distance(cost["directed"], cost["partition"], cost["none"]))
        above += cost["directed"] > cost["pairs"] * (1 + 1e-12)
    mean = float(np.mean(off))
    return [
        Figure("directed, n ≤ 10: mean Distance", mean, "%", "≤ 0.5", mean <= 0.5),
        Figure("directed, n ≤ 10: above pairs", above, "times", "never", above == 0),
    ]


def hundred(samples: int) -> list[Figure]:
    """Pairs, the directed search of [CBGM] and ours against certified bounds at 100 queries."""
    off: dict[str, list[float]] = {"pairs": [], "whole": [], "windows": []}
    seconds: dict[str, list[float]] = {"whole": [], "windows": []}
    proving, closed = [], 0
    for sample in range(samples):
        rectangles = generate(100, seed=500 + sample)
        begun = time.perf_counter()
        bound = lower_bound(rectangles, BASE)
        proving.append(time.perf_counter() - begun)
        none = merge(rectangles, BASE, "none").cost
        pricing = Pricing(collapsed(rectangles), BASE, area)
        found = {"pairs": merge(rectangles, BASE).cost}
        for name, limit in (("whole", 100), ("windows", 60)):
            begun = time.perf_counter()
            labels, _ = directed(pricing, 50, 0, whole_limit=limit)
            seconds[name].append(time.perf_counter() - begun)
            found[name] = total_cost(rectangles, [np.flatnonzero(labels == k) for k in np.unique(labels)], BASE)
        closed += min(found.values()) <= bound * (1 + 1e-9)
        for name, cost in found.items():
            off[name].append(distance(cost, bound, none))
    mean = {name: float(np.mean(values)) for name, values in off.items()}
    ratio, slower = mean["windows"] / max(mean["pairs"], 1e-12), sum(seconds["windows"]) / sum(seconds["whole"])
    return [
        Figure("pairs, n = 100: mean Distance", mean["pairs"], "%"),
        Figure("directed, [CBGM]'s, n = 100: mean Distance", mean["whole"], "%"),
        Figure("directed, n = 100: mean Distance", mean["windows"], "%", "≤ 0.3", mean["windows"] <= 0.3),
        Figure("directed over pairs, Distance", ratio, "", "≤ 0.75", ratio <= 0.75),
        Figure("directed over [CBGM]'s, time", slower, "×", "≤ 2", slower <= 2),
        Figure("lower bound, n = 100, seconds a set", float(np.mean(proving)), "s"),
        Figure(f"sets of {samples} where the bound is met", closed, "sets"),
    ]


def main() -> None:
    quick = arguments("Distances to the optimum, and what exact plans cost.").quick
    merge(generate(70), BASE, "directed", starts=3)  # compiles
    lower_bound(generate(30), BASE)
    figures = [
        *partition((14, 16) if quick else (14, 16, 18)),
        *few(80 if quick else 800),
        *hundred(2 if quick else 18),
    ]
    if not report("merging-quality", {"prices": "365, 3.25, 0.16"}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
