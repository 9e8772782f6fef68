"""What a plan costs, how far it is from the best, and where the money goes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.merging.arguments import PROCEDURES, as_choice, as_groups, as_rectangles
from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.costs import Costs
from tolerant.merging.due import as_periods
from tolerant.merging.pricing import Pricing, bounding
from tolerant.merging.sizes import Size, area, measured
from tolerant.merging.units import separate


def total_cost(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    costs: Costs,
    size: Size = area,
    *,
    procedure: str = "box",
    periods: ArrayLike | None = None,
) -> float:
    """The cost of a plan (a tick, where there are `periods`): Σ c(M) − K_U·Σ size(q), `specs/4-merging.md` §2.2.

    Groups may overlap: a query is received in each of its groups, what it needs it needs once.

    >>> total_cost([[0, 0, 1, 2], [0, 1, 2, 2], [1, 0, 2, 1]], [[0, 1, 2]], Costs(10, 9, 4))
    74.0
    """
    pricing, starts, members = _priced(rectangles, groups, costs, size, procedure, periods)
    return plan_cost(pricing, starts, members)


def plan_cost(pricing: Pricing, starts: Integers, members: Integers) -> float:
    """The cost of groups that are compressed rows."""
    return float(pricing.of_rows(starts, members).sum() - pricing.constant) if len(members) else 0.0


def distance(cost: float, optimal: float, unmerged: float) -> float:
    """How much of the savings is missed, percent (seed 002 §7.3): 0 is the optimum, 100 no merging at all.

    >>> distance(130, 119, 155)
    30.555555555555557
    """
    if not unmerged > optimal:
        return 0.0
    return 100.0 * (cost - optimal) / (unmerged - optimal)


@dataclass(frozen=True)
class Channelled:
    """One group of a plan: members, bounding box (lows, highs), size, rows in vain a period, and what it saves
    against its members apart.
    """

    members: tuple[int, ...]
    box: tuple[float, ...]
    size: float
    waste: float
    cost: float
    saves: float


@dataclass(frozen=True)
class Bill:
    """A plan's cost by what it is for: channels (K_M), answering, transfer (K_T) and waste (K_U); `apart`: the cost
    without merging; `wanted`: K_U·Σ size(q), what hearing the wanted rows costs in every plan, not in `total`.
    """

    channels: float
    answers: float
    transfer: float
    waste: float
    wanted: float
    apart: float
    groups: tuple[Channelled, ...]

    @property
    def total(self) -> float:
        """As `total_cost`."""
        return self.channels + self.answers + self.transfer + self.waste

    @property
    def saved(self) -> float:
        """What merging saves."""
        return self.apart - self.total


def bill(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    costs: Costs,
    size: Size = area,
    *,
    procedure: str = "box",
) -> Bill:
    """Where the money of a plan goes, group by group.

    >>> found = bill([[0, 0, 4, 4], [2, 0, 6, 4]], [[0, 1]], Costs(10, 2, 0.5))
    >>> found.total, found.apart, found.groups[0].saves, found.groups[0].waste
    (66.0, 84.0, 18.0, 16.0)
    """
    pricing, starts, members = _priced(rectangles, groups, costs, size, procedure, None)
    boxes = pricing.units.boxes
    if len(boxes) == 0:
        return Bill(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ())
    own = measured(size, boxes)
    alone = pricing.of_rows(np.arange(len(boxes) + 1), np.arange(len(boxes)))
    shape, prices = pricing.shape(starts, members), pricing.of_rows(starts, members)
    wanted = np.add.reduceat(own[members], starts[:-1])
    heard = np.diff(starts) * shape.sizes
    waste: Floats = np.zeros(len(wanted)) if procedure == "pieces" else heard - wanted
    spared = 0.0 if procedure == "pieces" else costs.waste
    apart = np.add.reduceat(alone[members], starts[:-1])
    found = tuple(
        Channelled(
            members=tuple(members[starts[k] : starts[k + 1]].tolist()),
            box=tuple(box.tolist()),
            size=float(shape.sizes[k]),
            waste=float(waste[k]),
            cost=float(prices[k] - spared * wanted[k]),
            saves=float(apart[k] - prices[k]),
        )
        for k, box in enumerate(bounding(boxes, starts, members))
    )
    return Bill(
        channels=float(costs.channel * shape.channels.sum()),
        answers=float(shape.answers.sum()),
        transfer=float(costs.transfer * shape.sizes.sum()),
        # A query in two groups hears both, and needs what it needs once.
        waste=0.0 if procedure == "pieces" else float(costs.waste * (heard.sum() - own.sum())),
        wanted=float(costs.waste * own.sum()),
        apart=float(alone.sum() - pricing.constant),
        groups=found,
    )


def _priced(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    costs: Costs,
    size: Size,
    procedure: str,
    periods: ArrayLike | None,
) -> tuple[Pricing, Integers, Integers]:
    """The pricing of every query as a unit, and the groups as compressed rows."""
    boxes = as_rectangles(rectangles)
    as_choice(procedure, "procedure", PROCEDURES)
    every = None if periods is None else as_periods(periods, len(boxes))
    starts, members = as_groups(groups, len(boxes))
    return Pricing(separate(boxes, every), costs, size, procedure), starts, members
