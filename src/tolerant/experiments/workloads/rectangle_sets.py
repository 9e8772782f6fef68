"""Generates sets of subscriptions as in [CBGM] §7, with its base prices, and measures merging on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tolerant.experiments.harness.experiment import Row
from tolerant.merging import Costs, area, distance, generate, merge, total_cost
from tolerant.merging.clusters import linked
from tolerant.merging.compiled_descent import search, units_of
from tolerant.merging.cost_model import model_of
from tolerant.merging.directed_search import directed
from tolerant.merging.general_pair_merging import general_pairs, mergeable_groups
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import AREA
from tolerant.merging.units import collapsed

Parameters = Mapping[str, float | int | str]

CHANNEL, TRANSFER, WASTE = 365.0, 3.25, 0.16
"""Figure 8, in units of 10⁻⁵ dollars."""

DOLLAR = 1e-5


def prices(channel: float = 1.0, transfer: float = 1.0, waste: float = 1.0) -> Costs:
    """Return the base prices, each scaled by a factor."""
    return Costs(CHANNEL * channel, TRANSFER * transfer, WASTE * waste)


def sets(parameters: Parameters) -> Iterator[NDArray[np.float64]]:
    """Generate `samples` sets of `n` rectangles, clustered by `cf` if that is given; the same for the
    same parameters.
    """
    n, clustered = int(parameters["n"]), float(parameters.get("cf", 0.8))
    for sample in range(int(parameters["samples"])):
        yield generate(n, clustered=clustered, seed=1_000_003 * n + sample)


def against_the_optimum(parameters: Parameters) -> list[Row]:
    """Measure, for Figures 11 to 13, how often pairs and directed are optimal, and how far off they are, percent."""
    costs, starts = prices(), int(parameters["starts"])
    off: dict[str, list[float]] = {"pairs": [], "directed": []}
    for rectangles in sets(parameters):
        best, none = merge(rectangles, costs, "partition").cost, merge(rectangles, costs, "none").cost
        for method, distances in off.items():
            cost = merge(rectangles, costs, method, starts=starts).cost
            # Rounding of two sums of the same numbers is not a distance.
            distances.append(distance(cost, best, none) if cost - best > 1e-9 * none else 0.0)
    rows: list[Row] = []
    for method, distances in off.items():
        missed = [value for value in distances if value > 0]
        rows.append(
            {
                **parameters,
                "method": method,
                "optimal": 100.0 * (1 - len(missed) / len(distances)),
                "distance": float(np.mean(distances)),
                "suboptimal": float(np.mean(missed)) if missed else 0.0,
                "missed": len(missed),
            }
        )
    return rows


def small_grid(quick: bool) -> list[Row]:
    """Return the sizes of Figures 11 to 13."""
    if quick:
        return [{"n": n, "samples": 500 if n < 8 else 150, "starts": 50} for n in (4, 6, 9, 12)]
    return [{"n": n, "samples": 2000, "starts": 50} for n in range(3, 13)]


def whole_directed(rectangles: NDArray[np.float64], costs: Costs, starts: int) -> tuple[float, int]:
    """Return cost and evaluations of directed search as [CBGM] has it: random states of the whole set,
    never windows.
    """
    pricing = Pricing(collapsed(rectangles), costs, area)
    labels, evaluations = directed(pricing, starts, 0, whole_limit=len(rectangles))
    return total_cost(rectangles, groups_of(labels[pricing.units.of]), costs), evaluations


def groups_of(labels: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the members of each label."""
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def table_evaluations(rectangles: NDArray[np.float64], costs: Costs) -> tuple[float, int]:
    """Return cost and evaluations of pairs as [CBGM] has it: a table of all gains, to which each step adds a new
    group's.
    """
    pricing = Pricing(collapsed(rectangles), costs, area)
    labels, _ = general_pairs(mergeable_groups(pricing), len(pricing.units))
    cost = total_cost(rectangles, groups_of(labels[pricing.units.of]), costs)
    return cost, in_a_table(len(labels), len(np.unique(labels)))


def in_a_table(units: int, groups: int) -> int:
    """Count the gains that a table evaluates from so many units to so many groups: all pairs, then n − k in step k ≥ 2.

    >>> in_a_table(5, 3)
    15
    """
    return units * (units - 1) // 2 + sum(units - step for step in range(2, units - groups + 2))


def clustered_evaluations(rectangles: NDArray[np.float64], costs: Costs, rule: int) -> tuple[float, int]:
    """Return cost and evaluations of pairs, as [CBGM] has it, inside the clusters of a rule."""
    pricing = Pricing(collapsed(rectangles), costs, area)
    of = linked(pricing, rule)[pricing.units.of]
    parts = [table_evaluations(rectangles[members], costs) for members in groups_of(of)]
    return sum(cost for cost, _ in parts), sum(evaluations for _, evaluations in parts)


def descent_evaluations(rectangles: NDArray[np.float64], costs: Costs, starts: int) -> int:
    """Return the evaluations of directed search as [CBGM] has it: pairs, then the descents from all states."""
    units = collapsed(rectangles)
    groups, labels = np.unique(
        general_pairs(mergeable_groups(Pricing(units, costs, area)), len(units))[0], return_inverse=True
    )
    rows = units_of(units.boxes, units.counts, area(units.boxes))
    _, _, more = search(labels, rows, model_of(costs, AREA), starts > 1, max(starts - 2, 0), np.uint64(1))
    return in_a_table(len(units), len(groups)) + int(more)


def mean_of(values: Sequence[float]) -> float:
    """Return the mean as a plain float."""
    return float(np.mean(values))


def series(rows: Sequence[Row], x: str, y: str, **where: float | int | str) -> list[float]:
    """Return the values of y in the order of x, of the rows that have these values in other columns."""
    kept = [row for row in rows if all(row[column] == value for column, value in where.items())]
    return [float(row[y]) for row in sorted(kept, key=lambda row: float(row[x]))]


def rising(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is below the one before it by more than `slack`."""
    return all(second >= first - slack for first, second in pairwise(values))
