"""Speed, growth and memory of `pairs`, of changes and of routing, against plain NumPy (`docs/design/merging.md` §7).

The baseline of `pairs` is the same algorithm without an index, a row of gains at a time in NumPy; its groups are the
same. That of `route` checks every row against every box, in blocks. Density is that of the base case of [CBGM]:
100 rectangles on 400 × 400, 80 % of them in clusters of 24.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from side_by_side import Figure, arguments, compare, report
from tolerant.merging import Costs, Merger, area, generate, merge, route

BASE = Costs(365, 3.25, 0.16)


def subscriptions(n: int, seed: int = 0) -> NDArray[np.float64]:
    """n rectangles at the base density."""
    return generate(n, share=24 / (0.8 * n), side=400 * np.sqrt(n / 100), seed=seed)


def plain(rectangles: NDArray[np.float64]) -> object:
    """Pairs without an index: a size about which nothing is known."""
    return merge(rectangles, BASE, size=lambda boxes: area(boxes))


def best(work: Callable[[], object], rounds: int = 3) -> float:
    """The best of some rounds, seconds."""
    return compare("", {"work": work}, rounds=rounds, warmups=0).timings[0].best


def pairs(quick: bool) -> list[Figure]:
    few, many, growth = (1000, 20_000, (2_500, 20_000)) if quick else (4000, 100_000, (5_000, 40_000))
    rectangles = subscriptions(few)
    assert merge(rectangles, BASE).groups == plain(rectangles).groups
    comparison = compare(
        f"pairs, {few:,} rectangles",
        {"indexed": lambda: merge(rectangles, BASE), "plain numpy": lambda: plain(rectangles)},
        rounds=3 if quick else 2,
        warmups=0,
    )
    print(comparison.text(work=few, unit="rectangles"))
    given = {n: subscriptions(n) for n in (*growth, many)}
    times = {n: best(lambda one=one: merge(one, BASE)) for n, one in given.items()}
    ratio, grown = comparison.ratio("indexed", "plain numpy"), times[growth[1]] / times[growth[0]]
    share = times[many] / comparison.timings[1].best
    return [
        Figure(f"pairs over plain numpy, {few:,} rectangles", ratio, "×", "≥ 10", ratio >= 10),
        Figure(f"pairs, {growth[1]:,} against {growth[0]:,}", grown, "×", "≤ 24", grown <= 24),
        Figure(f"pairs, {many:,} against plain numpy on {few:,}", share, "×", "≤ 4", share <= 4),
        Figure(f"pairs, {many:,} rectangles", times[many], "s"),
        memory(many),
    ]


def memory(n: int) -> Figure:
    """The most that merging holds at a time beyond its input, groups as tuples included."""
    rectangles = subscriptions(n)
    merge(rectangles, BASE)
    tracemalloc.start()
    merge(rectangles, BASE)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    each = peak / n / 1000
    return Figure(f"memory of pairs, {n:,} rectangles", each, "kB each", "≤ 1", each <= 1)


def overlapping(n: int) -> Figure:
    """Everything overlaps everything: the index cannot help."""
    rectangles = generate(n, side=200)
    return Figure(f"pairs, {n:,} rectangles in 200 × 200", best(lambda: merge(rectangles, BASE)), "s")


def changes(live: int, replaced: int) -> list[Figure]:
    """A change against merging afresh, and what is lost by many of them."""
    rectangles = subscriptions(live + replaced, seed=1)
    rectangles = rectangles[np.random.default_rng(0).permutation(len(rectangles))]
    merger = Merger(BASE)
    merger.add_many(list(range(live)), rectangles[:live])
    merger.remove(0)
    merger.add(0, rectangles[0])  # compiles
    fresh, changed = [], []
    for start in range(0, replaced, 100):  # in turns, so that a noisy minute falls on both
        fresh.append(best(lambda: merge(rectangles[:live], BASE), 1))
        begun = time.perf_counter()
        for k in range(start, start + 100):
            merger.remove(k)
            merger.add(live + k, rectangles[live + k])
        changed.append((time.perf_counter() - begun) / 200)
    each = float(np.median(changed))
    share = each / float(np.median(fresh))
    lost = merger.cost / merge(rectangles[replaced:], BASE).cost
    return [
        Figure(f"one change, {live:,} live, of a fresh pairs", share, "", "≤ 0.02", share <= 0.02),
        Figure(f"one change, {live:,} live", 1e3 * each, "ms"),
        Figure(f"cost after {2 * replaced:,} changes over fresh", lost, "", "≤ 1.01", lost <= 1.01),
    ]


def all_pairs(points: NDArray[np.float64], boxes: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every row against every box, in blocks that fit the cache."""
    rows, found = [], []
    for start in range(0, len(points), 2000):
        block = points[start : start + 2000, None]
        inside = (block[..., 0] >= boxes[:, 0]) & (block[..., 0] <= boxes[:, 2])
        inside &= (block[..., 1] >= boxes[:, 1]) & (block[..., 1] <= boxes[:, 3])
        row, box = np.nonzero(inside)
        rows.append(row + start)
        found.append(box)
    return np.concatenate(rows), np.concatenate(found)


def routing(rows: int) -> Figure:
    rectangles = subscriptions(1800, seed=2)
    groups = merge(rectangles, BASE).groups[:1000]
    boxes = np.array([[*rectangles[list(g), :2].min(0), *rectangles[list(g), 2:].max(0)] for g in groups])
    points = np.random.default_rng(3).uniform(0, rectangles.max(), (rows, 2))
    for ours, theirs in zip(route(points[:5000], boxes), all_pairs(points[:5000], boxes), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    comparison = compare(
        f"route {rows:,} rows to {len(boxes)} channels",
        {"route": lambda: route(points, boxes), "all pairs, numpy": lambda: all_pairs(points, boxes)},
    )
    print(comparison.text(work=rows))
    ratio = comparison.ratio("route", "all pairs, numpy")
    return Figure(f"route over all pairs, {rows:,} rows", ratio, "×", "≥ 20", ratio >= 20)


def main() -> None:
    quick = arguments("Speed, growth and memory of merging.").quick
    figures = [
        *pairs(quick),
        overlapping(1000 if quick else 5000),
        *changes(*((2000, 300) if quick else (10_000, 1500))),
        routing(50_000 if quick else 200_000),
    ]
    if quick:  # a change costs the same with fewer live ones, a fresh merge does not: its bar is for 10,000
        figures = [
            figure if "of a fresh" not in figure.name else Figure(figure.name, figure.value, "") for figure in figures
        ]
    if not report("merging-scale", {"density": "100 on 400 × 400"}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
