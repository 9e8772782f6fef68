"""`merge`: groups the queries that share a channel, by any of the methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Integers
from tolerant.merging.clusters import HEURISTIC, linked
from tolerant.merging.cost_model import model_of
from tolerant.merging.costs import Costs
from tolerant.merging.directed_search import directed
from tolerant.merging.due_ticks import as_periods
from tolerant.merging.general_pair_merging import general_pairs, mergeable_groups
from tolerant.merging.optimum import optimum
from tolerant.merging.pair_merging import pairs
from tolerant.merging.plan_costs import plan_cost
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, area, planar
from tolerant.merging.subsets import best_cover
from tolerant.merging.units import Units, collapsed, expanded, separate
from tolerant.merging.validation import PROCEDURES, as_choice, as_rectangles


@dataclass(frozen=True)
class Merged:
    """A plan: `groups` of query numbers, ascending, by first member; its `cost`; the number of gains evaluated."""

    groups: tuple[tuple[int, ...], ...]
    cost: float
    evaluations: int = 0


@dataclass(frozen=True)
class ChannelLimits:
    """Limits of real systems: the size of a channel's answer, the number of channels."""

    size: float = np.inf
    channels: int | None = None


@dataclass(frozen=True)
class Grouping:
    """The result of a method: a label per unit, or groups of units that may overlap."""

    labels: Integers | None
    evaluations: int = 0
    groups: tuple[Integers, ...] = ()


def merge(  # noqa: PLR0913
    rectangles: ArrayLike,
    costs: Costs,
    method: str = "pairs",
    *,
    size: Size = area,
    starts: int = 50,
    procedure: str = "box",
    periods: ArrayLike | None = None,
    seed: int = 0,
    max_size: float | None = None,
    max_channels: int | None = None,
) -> Merged:
    """Group queries into channels so that channels, transfer and waste together cost least.

    Args:
        rectangles: float[n, 4], x1 y1 x2 y2, ends included; float[n, 2d] in general, lows before highs.
        costs: the prices.
        method: `none`; `pairs`: the pair that gains most, again and again; `directed`: the best of `starts` descents
            that also split; `clusters`: pairs inside clusters; `partition`: the optimum; `exhaustive`: the same,
            groups may overlap.
        size: the size of an answer: float[k, 2d] → float[k].
        procedure: how a group is sent: as its `box`, the `union` of its rectangles, or disjoint `pieces`.
        periods: int[n]: query q is due every periods[q] ticks; the cost is then that of a mean tick.
        max_size: no merge makes a channel larger than this (`pairs` only).
        max_channels: continue merging, with the least loss, until at most this many channels are left (`pairs` only).

    Raises:
        ValueError: an argument is wrong, or there are too many queries for an exact method.

    >>> merge([[0, 0, 4, 4], [2, 0, 6, 4], [5, 0, 9, 4]], Costs(channel=10, transfer=2, waste=0.5)).groups
    ((0, 1), (2,))
    """
    boxes = as_rectangles(rectangles)
    as_choice(procedure, "procedure", PROCEDURES)
    as_choice(method, "method", tuple(METHODS))
    if starts < 1:
        raise ValueError(f"starts must be at least 1, got {starts}")
    limits = _limits(method, max_size, max_channels)
    every = None if periods is None else as_periods(periods, len(boxes))
    units = separate(boxes, every) if method == "none" else collapsed(boxes, every)
    pricing = Pricing(units, costs, size, procedure)
    if len(boxes) == 0:
        return Merged((), 0.0)
    return _merged(pricing, METHODS[method](pricing, limits, starts, seed))


def _limits(method: str, max_size: float | None, max_channels: int | None) -> ChannelLimits:
    if max_size is None and max_channels is None:
        return ChannelLimits()
    if method != "pairs":
        raise ValueError(f"max_size and max_channels go with method 'pairs', got {method!r}")
    if max_size is not None and not max_size >= 0:
        raise ValueError(f"max_size must not be negative, got {max_size}")
    if max_channels is not None and max_channels < 1:
        raise ValueError(f"max_channels must be at least 1, got {max_channels}")
    return ChannelLimits(np.inf if max_size is None else float(max_size), max_channels)


def _merged(pricing: Pricing, grouping: Grouping) -> Merged:
    units = pricing.units
    if grouping.labels is None:
        groups = tuple(sorted(tuple(np.flatnonzero(np.isin(units.of, group)).tolist()) for group in grouping.groups))
        return Merged(groups, _cost(pricing, grouping.groups), grouping.evaluations)
    order = np.argsort(grouping.labels, kind="stable")
    starts = np.flatnonzero(np.diff(grouping.labels[order], prepend=grouping.labels[order[0]] - 1))
    cost = plan_cost(pricing, np.append(starts, len(order)), order)
    return Merged(expanded(units, grouping.labels), cost, grouping.evaluations)


def _cost(pricing: Pricing, groups: tuple[Integers, ...]) -> float:
    ends = np.cumsum([len(group) for group in groups])
    return plan_cost(pricing, np.concatenate([np.zeros(1, np.int64), ends]), np.concatenate(groups))


def _none(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    return Grouping(np.arange(len(pricing.units)))


def _pairs(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    table = pricing.table
    if table is None:
        return Grouping(*general_pairs(mergeable_groups(pricing, limits.size), len(pricing.units), limits.channels))
    units = pricing.units
    labels, evaluations = pairs(planar(units.boxes), units.counts, model_of(pricing.costs, table, limits.size))
    if limits.channels is not None:
        labels, more = _fewer(pricing, labels, limits)
        evaluations += more
    return Grouping(labels, evaluations)


def _fewer(pricing: Pricing, labels: Integers, limits: ChannelLimits) -> tuple[Integers, int]:
    """Merge groups further, also at a loss, with the groups as units: only boxes and counts matter."""
    units = pricing.units
    _, of = np.unique(labels, return_inverse=True)
    half, groups = units.boxes.shape[1] // 2, int(of.max()) + 1
    boxes = np.empty((groups, 2 * half))
    boxes[:, :half], boxes[:, half:] = np.inf, -np.inf
    np.minimum.at(boxes[:, :half], of, units.boxes[:, :half])
    np.maximum.at(boxes[:, half:], of, units.boxes[:, half:])
    counts = np.bincount(of, weights=units.counts).astype(np.float64)
    whole = Units(boxes, counts, np.ones(groups, np.int64), np.arange(groups))
    candidates = mergeable_groups(Pricing(whole, pricing.costs, pricing.size), limits.size)
    joined, evaluations = general_pairs(candidates, groups, limits.channels)
    return joined[of], evaluations


def _directed(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    return Grouping(*directed(pricing, starts, seed))


def _clusters(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    return clustered_pairs(pricing, HEURISTIC)


def clustered_pairs(pricing: Pricing, rule: int) -> Grouping:
    """Merge pairs inside each cluster of the rule, as if it were alone."""
    of = linked(pricing, rule)
    labels, evaluations = np.arange(len(of)), 0
    order = np.argsort(of, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
        if len(members) > 1:
            inner = _pairs(part_of(pricing, members), ChannelLimits(), 1, 0)
            assert inner.labels is not None
            # A label inside may be any number: replace it by its first member.
            _, first, numbers = np.unique(inner.labels, return_index=True, return_inverse=True)
            labels[members] = members[first[numbers]]
            evaluations += inner.evaluations
    return Grouping(labels, evaluations)


def part_of(pricing: Pricing, members: Integers) -> Pricing:
    """Return the pricing of some of the units, as if they were all."""
    units = pricing.units
    part = Units(units.boxes[members], units.counts[members], units.periods[members], np.arange(len(members)))
    return Pricing(part, pricing.costs, pricing.size, pricing.procedure)


def _partition(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    labels = np.empty(len(pricing.units), np.int64)
    for number, group in enumerate(optimum(pricing)):
        labels[group] = number
    return Grouping(labels)


def _exhaustive(pricing: Pricing, limits: ChannelLimits, starts: int, seed: int) -> Grouping:
    return Grouping(None, 0, tuple(best_cover(pricing, np.arange(len(pricing.units)))))


METHODS: dict[str, Callable[[Pricing, ChannelLimits, int, int], Grouping]] = {
    "none": _none,
    "pairs": _pairs,
    "directed": _directed,
    "clusters": _clusters,
    "partition": _partition,
    "exhaustive": _exhaustive,
}
