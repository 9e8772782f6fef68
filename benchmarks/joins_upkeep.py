"""Partitions, updates, histograms and memory of the joins (docs/design/joins.md §7, bars 1, 5, 6, 8, 9)."""

from __future__ import annotations

import numpy as np

from joins_band import cpu
from joins_loads import at_most, band_joins, band_load, select_joins, select_load
from side_by_side import Figure, arguments, report
from tolerant.experiments.continuous_joins.joins_fig411 import measure
from tolerant.joins import RectangleJoins, histogram_error, interval_histogram, stabbing_partition


def partitioning(size: int) -> Figure:
    load = band_load(size, 1, 1)
    share = cpu(lambda: stabbing_partition(load.low, load.high)) / cpu(lambda: np.argsort(load.low))
    return at_most(f"stabbing_partition over argsort, {size:,}", share, 3)


def updating(size: int) -> list[Figure]:
    """One of each change and two probes, against building afresh and probing once."""
    figures = []
    for name, load, make in (
        ("band", band_load(size, size, 1), band_joins),
        ("select", select_load(size, size, 1), select_joins),
    ):
        joins = make(load)
        probe = (5000.0,) if name == "band" else (5000.0, 50.0)
        query, row = ((0.0, 1.0), (5000.0,)) if name == "band" else ((4000.0, 6000.0, 0.0, 9000.0), (50.0, 7.0))

        def change(joins=joins, probe=probe, query=query, row=row) -> None:
            joins.add(size, *query)
            joins.insert(size, *row)
            joins.probe(*probe, "ssi")
            joins.remove(size)
            joins.delete(size)
            joins.probe(*probe, "ssi")

        def afresh(make=make, load=load, probe=probe) -> None:
            make(load).probe(*probe, "ssi")

        share = cpu(change, 10) / cpu(afresh)
        figures.append(at_most(f"updates and probes over building afresh, {name}", share, 0.1, ""))
    return figures


def maintaining(size: int) -> list[Figure]:
    """Keeping groups with two sorted lists each, against one sorted list of all bands (Figure 4.11)."""
    figures = []
    for epsilon, most in ((1.0, 5), (3.0, 0)):
        found = {row["method"]: row for row in measure({"epsilon": epsilon, "queries": size, "updates": size})}
        share = float(found["ssi"]["update_us"]) / float(found["merge"]["update_us"])
        figures.append(at_most(f"upkeep over one sorted list, ε = {epsilon:g}", share, 1.2))
        figures.append(at_most(f"rebuilds in {size:,} updates, ε = {epsilon:g}", found["ssi"]["rebuilds"], most, ""))
    return figures


def histograms(size: int) -> list[Figure]:
    rng = np.random.default_rng(0)
    middle, length = rng.normal(5000, 1500, size), np.abs(rng.normal(1000, 45, size))
    low, high = np.round(middle - length / 2), np.round(middle + length / 2)
    found = {m: interval_histogram(low, high, 50, m) for m in ("ssi", "optimal", "equal-width", "greedy")}
    errors = {m: histogram_error(one, low, high) for m, one in found.items()}
    ratio = errors["ssi"] / errors["optimal"]
    ends = np.concatenate([low, high]) + rng.random(2 * size)
    spent = cpu(lambda: interval_histogram(low, high, 50)) / cpu(lambda: np.sort(ends))
    few = rng.choice(size, 501, replace=False)
    seconds = cpu(lambda: interval_histogram(low[few] + rng.random(501) / 2, high[few] + 0.5, 70, "optimal"))
    return [
        at_most("E² of ssi over the optimum", ratio, 1.35),
        Figure("E² of greedy over the optimum", errors["greedy"] / errors["optimal"], "×"),
        Figure(
            "E² of ssi over equal-width",
            errors["ssi"] / errors["equal-width"],
            "×",
            "< 1",
            errors["ssi"] < errors["equal-width"],
        ),
        at_most("time of ssi over sorting the ends", spent, 100),
        at_most("optimal, 1,000 segments, 70 buckets", seconds, 0.5, "s"),
    ]


def memory(size: int) -> list[Figure]:
    figures = []
    for name, joins, most in (
        ("band", band_joins(band_load(size, size, 1), 0.001), 120),
        ("select", select_joins(select_load(size, size, 1), 0.001), 200),
    ):
        used = joins.bytes()
        figures.append(at_most(f"bytes a {name} query", used["queries"] / size, most, ""))
        figures.append(at_most(f"bytes a {name} row", used["rows"] / size, 40, ""))
    return figures


def staircases(size: int) -> Figure:
    rng = np.random.default_rng(0)
    centre = rng.integers(0, 30, size)
    x, y = rng.uniform(-3000, 3000, 30)[centre], rng.uniform(0, 10_000, 30)[centre]
    reach = rng.exponential(2.0, (4, size))
    joins = RectangleJoins()
    joins.add_many(np.arange(size), x - reach[0], x + reach[1], y - reach[2], y + reach[3])
    joins.insert_many(np.arange(100_000), rng.uniform(0, 10_000, 100_000), rng.uniform(0, 10_000, 100_000))
    events = rng.uniform(3000, 7000, 20)
    ours = cpu(lambda: joins.affected_many(events, "staircase"))
    ratio = cpu(lambda: joins.affected_many(events, "residual"), 1) / ours
    return Figure(f"staircase over band search and test, {size:,}", ratio, "×")


def main() -> None:
    quick = arguments("Upkeep of the joins' structures.").quick
    size = 20_000 if quick else 100_000
    figures = [
        partitioning(4 * size),
        *updating(40_000),
        *maintaining(100_000),
        *histograms(size),
        *memory(size),
        staircases(20_000),
    ]
    if not report("joins-upkeep", {"queries": size}, figures):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
