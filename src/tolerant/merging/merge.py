"""`merge`: who shares a channel, by any of the methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.merging.arguments import PROCEDURES, as_choice, as_rectangles
from tolerant.merging.arrays import Integers
from tolerant.merging.clusters import HEURISTIC, linked
from tolerant.merging.costs import Costs
from tolerant.merging.directed import directed
from tolerant.merging.due import as_periods
from tolerant.merging.model import model_of
from tolerant.merging.optimum import optimum
from tolerant.merging.pairs import pairs
from tolerant.merging.plain import book_of, plain_pairs
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, area, planar
from tolerant.merging.subsets import best_cover
from tolerant.merging.totals import plan_cost
from tolerant.merging.units import Units, collapsed, expanded, separate


@dataclass(frozen=True)
class Merged:
    """A plan: `groups` of query numbers, ascending, by first member; its `cost`; how many gains were evaluated."""

    groups: tuple[tuple[int, ...], ...]
    cost: float
    evaluations: int = 0


@dataclass(frozen=True)
class Limits:
    """What real systems cannot exceed: the size of a channel's answer, the number of channels."""

    size: float = np.inf
    channels: int | None = None


@dataclass(frozen=True)
class Found:
    """What a method found: a label a unit, or groups of units that may overlap."""

    labels: Integers | None
    evaluations: int = 0
    groups: tuple[Integers, ...] = ()


def merge(
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
    """Which queries should share a channel, so that channels, transfer and waste together cost least.

    Args:
        rectangles: float[n, 4], x1 y1 x2 y2, ends included; float[n, 2d] in general, lows before highs.
        costs: the prices.
        method: `none`; `pairs`: the pair that gains most, again and again; `directed`: the best of `starts` descents
            that also split; `clusters`: pairs inside clusters; `partition`: the optimum; `exhaustive`: the same,
            groups may overlap.
        size: how large an answer is: float[k, 2d] → float[k].
        procedure: what a group is sent as: its `box`, the `union` of its rectangles, or disjoint `pieces`.
        periods: int[n]: query q is due every periods[q] ticks; the cost is then that of a mean tick.
        max_size: no merger makes a channel larger than this (`pairs` only).
        max_channels: go on merging, with the least loss, until so few channels are left (`pairs` only).

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
    found = METHODS[method](pricing, limits, starts, seed)
    return _merged(pricing, found)


def _limits(method: str, max_size: float | None, max_channels: int | None) -> Limits:
    if max_size is None and max_channels is None:
        return Limits()
    if method != "pairs":
        raise ValueError(f"max_size and max_channels go with method 'pairs', got {method!r}")
    if max_size is not None and not max_size >= 0:
        raise ValueError(f"max_size must not be negative, got {max_size}")
    if max_channels is not None and max_channels < 1:
        raise ValueError(f"max_channels must be at least 1, got {max_channels}")
    return Limits(np.inf if max_size is None else float(max_size), max_channels)


def _merged(pricing: Pricing, found: Found) -> Merged:
    units = pricing.units
    if found.labels is None:
        groups = tuple(sorted(tuple(np.flatnonzero(np.isin(units.of, group)).tolist()) for group in found.groups))
        return Merged(groups, _cost(pricing, found.groups), found.evaluations)
    order = np.argsort(found.labels, kind="stable")
    starts = np.flatnonzero(np.diff(found.labels[order], prepend=found.labels[order[0]] - 1))
    cost = plan_cost(pricing, np.append(starts, len(order)), order)
    return Merged(expanded(units, found.labels), cost, found.evaluations)


def _cost(pricing: Pricing, groups: tuple[Integers, ...]) -> float:
    ends = np.cumsum([len(group) for group in groups])
    return plan_cost(pricing, np.concatenate([np.zeros(1, np.int64), ends]), np.concatenate(groups))


def _none(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    return Found(np.arange(len(pricing.units)))


def _pairs(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    table = pricing.table
    if table is None:
        return Found(*plain_pairs(book_of(pricing, limits.size), len(pricing.units), limits.channels))
    units = pricing.units
    labels, evaluations = pairs(planar(units.boxes), units.counts, model_of(pricing.costs, table, limits.size))
    if limits.channels is not None:
        labels, more = _fewer(pricing, labels, limits)
        evaluations += more
    return Found(labels, evaluations)


def _fewer(pricing: Pricing, labels: Integers, limits: Limits) -> tuple[Integers, int]:
    """Merge groups further, past gains of 0, with the groups as units: only boxes and counts matter."""
    units = pricing.units
    _, of = np.unique(labels, return_inverse=True)
    half, groups = units.boxes.shape[1] // 2, int(of.max()) + 1
    boxes = np.empty((groups, 2 * half))
    boxes[:, :half], boxes[:, half:] = np.inf, -np.inf
    np.minimum.at(boxes[:, :half], of, units.boxes[:, :half])
    np.maximum.at(boxes[:, half:], of, units.boxes[:, half:])
    counts = np.bincount(of, weights=units.counts).astype(np.float64)
    whole = Units(boxes, counts, np.ones(groups, np.int64), np.arange(groups))
    book = book_of(Pricing(whole, pricing.costs, pricing.size), limits.size)
    joined, evaluations = plain_pairs(book, groups, limits.channels)
    return joined[of], evaluations


def _directed(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    return Found(*directed(pricing, starts, seed))


def _clusters(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    return clustered_pairs(pricing, HEURISTIC)


def clustered_pairs(pricing: Pricing, rule: int) -> Found:
    """Pairs inside each cluster of the rule, each as if alone."""
    of = linked(pricing, rule)
    labels, evaluations = np.arange(len(of)), 0
    order = np.argsort(of, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(of[order])) + 1):
        if len(members) > 1:
            inner = _pairs(part_of(pricing, members), Limits(), 1, 0)
            assert inner.labels is not None
            # A label inside may be any number: stand for it by its first member.
            _, first, numbers = np.unique(inner.labels, return_index=True, return_inverse=True)
            labels[members] = members[first[numbers]]
            evaluations += inner.evaluations
    return Found(labels, evaluations)


def part_of(pricing: Pricing, members: Integers) -> Pricing:
    """The pricing of some of the units, as if they were all."""
    units = pricing.units
    part = Units(units.boxes[members], units.counts[members], units.periods[members], np.arange(len(members)))
    return Pricing(part, pricing.costs, pricing.size, pricing.procedure)


def _partition(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    labels = np.empty(len(pricing.units), np.int64)
    for number, group in enumerate(optimum(pricing)):
        labels[group] = number
    return Found(labels)


def _exhaustive(pricing: Pricing, limits: Limits, starts: int, seed: int) -> Found:
    return Found(None, 0, tuple(best_cover(pricing, np.arange(len(pricing.units)))))


METHODS: dict[str, Callable[[Pricing, Limits, int, int], Found]] = {
    "none": _none,
    "pairs": _pairs,
    "directed": _directed,
    "clusters": _clusters,
    "partition": _partition,
    "exhaustive": _exhaustive,
}
