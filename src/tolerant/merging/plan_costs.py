"""The cost of a plan: Σ c(M) − K_U·Σ size(q) (`docs/design/merging.md` §2.2)."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Integers
from tolerant.merging.costs import Costs
from tolerant.merging.due_ticks import as_periods
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import Size, area
from tolerant.merging.units import separate
from tolerant.merging.validation import PROCEDURES, as_choice, as_groups, as_rectangles


def total_cost(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    costs: Costs,
    size: Size = area,
    *,
    procedure: str = "box",
    periods: ArrayLike | None = None,
) -> float:
    """Return the cost of a plan, per tick where there are `periods`: Σ c(M) − K_U·Σ size(q).

    Groups may overlap: a query receives each of its groups, but the rows that it wants are subtracted only once.

    >>> total_cost([[0, 0, 1, 2], [0, 1, 2, 2], [1, 0, 2, 1]], [[0, 1, 2]], Costs(10, 9, 4))
    74.0
    """
    boxes = as_rectangles(rectangles)
    as_choice(procedure, "procedure", PROCEDURES)
    every = None if periods is None else as_periods(periods, len(boxes))
    starts, members = as_groups(groups, len(boxes))
    return plan_cost(Pricing(separate(boxes, every), costs, size, procedure), starts, members)


def plan_cost(pricing: Pricing, starts: Integers, members: Integers) -> float:
    """Return the cost of groups of units: group k is members[starts[k] : starts[k + 1]]."""
    return float(pricing.of_rows(starts, members).sum() - pricing.constant) if len(members) else 0.0
