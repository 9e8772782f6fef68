"""What the cost of a plan consists of, group by group, and how far it is from the optimum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats
from tolerant.merging.costs import Costs
from tolerant.merging.pricing import Pricing, bounding
from tolerant.merging.sizes import Size, area, measured
from tolerant.merging.units import separate
from tolerant.merging.validation import PROCEDURES, as_choice, as_groups, as_rectangles


def distance(cost: float, optimal: float, unmerged: float) -> float:
    """Return the share of the possible savings that a plan misses, in percent ([CBGM] §7.3): 0 for the optimum, 100
    for no merging at all.

    >>> distance(130, 119, 155)
    30.555555555555557
    """
    if not unmerged > optimal:
        return 0.0
    return 100.0 * (cost - optimal) / (unmerged - optimal)


@dataclass(frozen=True)
class GroupCost:
    """One group of a plan: members, bounding box (lows, highs), size, unwanted rows per period, cost, and what it saves
    compared with a channel for each member.
    """

    members: tuple[int, ...]
    box: tuple[float, ...]
    size: float
    waste: float
    cost: float
    saves: float


@dataclass(frozen=True)
class CostBreakdown:
    """The cost of a plan by component: channels (K_M), answering, transfer (K_T) and waste (K_U).

    `apart` is the cost without merging; `wanted` is K_U·Σ size(q), the cost of receiving the wanted rows, which is the
    same in every plan and not part of `total`.
    """

    channels: float
    answers: float
    transfer: float
    waste: float
    wanted: float
    apart: float
    groups: tuple[GroupCost, ...]

    @property
    def total(self) -> float:
        """The cost that `total_cost` returns."""
        return self.channels + self.answers + self.transfer + self.waste

    @property
    def saved(self) -> float:
        """What merging saves."""
        return self.apart - self.total


def cost_breakdown(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    costs: Costs,
    size: Size = area,
    *,
    procedure: str = "box",
) -> CostBreakdown:
    """Break the cost of a plan down by component and by group.

    >>> parts = cost_breakdown([[0, 0, 4, 4], [2, 0, 6, 4]], [[0, 1]], Costs(10, 2, 0.5))
    >>> parts.total, parts.apart, parts.groups[0].saves, parts.groups[0].waste
    (66.0, 84.0, 18.0, 16.0)
    """
    boxes = as_rectangles(rectangles)
    as_choice(procedure, "procedure", PROCEDURES)
    starts, members = as_groups(groups, len(boxes))
    if len(boxes) == 0:
        return CostBreakdown(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
    pricing = Pricing(separate(boxes, None), costs, size, procedure)
    sends_waste = procedure != "pieces"
    own = measured(size, boxes)
    alone = pricing.of_rows(np.arange(len(boxes) + 1), np.arange(len(boxes)))
    shape, prices = pricing.shape(starts, members), pricing.of_rows(starts, members)
    wanted = np.add.reduceat(own[members], starts[:-1])
    received = np.diff(starts) * shape.sizes
    waste: Floats = received - wanted if sends_waste else np.zeros(len(wanted))
    cost = prices - costs.waste * wanted if sends_waste else prices
    saves = np.add.reduceat(alone[members], starts[:-1]) - prices
    return CostBreakdown(
        channels=float(costs.channel * shape.channels.sum()),
        answers=float(shape.answers.sum()),
        transfer=float(costs.transfer * shape.sizes.sum()),
        # A query in two groups receives both, but what it wants is subtracted once.
        waste=float(costs.waste * (received.sum() - own.sum())) if sends_waste else 0.0,
        wanted=float(costs.waste * own.sum()),
        apart=float(alone.sum() - pricing.constant),
        groups=tuple(
            GroupCost(
                members=tuple(members[starts[k] : starts[k + 1]].tolist()),
                box=tuple(box.tolist()),
                size=float(shape.sizes[k]),
                waste=float(waste[k]),
                cost=float(cost[k]),
                saves=float(saves[k]),
            )
            for k, box in enumerate(bounding(boxes, starts, members))
        ),
    )
