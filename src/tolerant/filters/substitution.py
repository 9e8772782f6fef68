"""Replaces items of a query by their sum, and restores them (`docs/design/filters.md` §2.8).

A source may filter y = Σ K·V of its items of a query instead of each V. In the query, y then has weight 1 and the items
weight 0: they still count in an average and are in no constraint. Whether a substitution is possible depends on
believed widths alone, so it is as safe as any reallocation: if the constraint still holds afterwards, answers stay
settled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.item_membership import Membership
from tolerant.filters.state import Floats, Integers

_SPARE = 0.9
"""Share of the room that is requested, as other items may grow before the substitution is confirmed."""


class PartialSum(NamedTuple):
    """Items of a query, by index, with their weights; and the index of their sum, −1 before it has one."""

    query: str
    items: Integers
    weights: Floats
    sum: int = -1


class RowRoom(NamedTuple):
    """Room for a partial sum in its query's constraint.

    left: β minus the use of all other items. items, sum: the use of the part's items, and of its sum; infinite: not
    known. fraction: the part's share of the constraint by weight.
    """

    left: float
    items: float
    sum: float
    fraction: float

    def target(self, used: float) -> float:
        """The width for the other form of the part, where the present form uses `used`: a little less than the room,
        and of the unused room no more than the part's fraction.
        """
        spare = max(self.left - used, 0.0) * self.fraction
        return max(_SPARE * min(self.left, used + spare), 0.0)


def substitute(membership: Membership, part: PartialSum) -> None:
    """Replace the items by their sum."""
    weights = membership.query(part.query).weights
    weights.update(dict.fromkeys(part.items.tolist(), 0.0))
    weights[part.sum] = 1.0
    membership.changed()


def restore(membership: Membership, part: PartialSum) -> None:
    """Replace the sum by its items."""
    weights = membership.query(part.query).weights
    weights.update(zip(part.items.tolist(), part.weights.tolist(), strict=True))
    weights.pop(part.sum, None)
    membership.changed()


def matches_query(membership: Membership, part: PartialSum) -> bool:
    """Whether the query exists and has the items with these weights."""
    query = membership.query_index.get(part.query)
    registered = None if query is None else membership.registered[query]
    if registered is None:
        return False
    pairs = zip(part.items.tolist(), part.weights.tolist(), strict=True)
    return all(registered.weights.get(item) == weight for item, weight in pairs)


def row_room(membership: Membership, part: PartialSum) -> RowRoom:
    """The room for a part in its query's constraint, by believed widths."""
    registered, width = membership.query(part.query), membership.items.width
    size = len(registered.weights)
    index = np.fromiter(registered.weights.keys(), np.int64, size)
    a = np.abs(np.fromiter(registered.weights.values(), np.float64, size))
    beta = 2.0 * registered.within * (membership.counted_items(registered) if registered.fn == "avg" else 1)
    own = np.isin(index, part.items) | (index == part.sum)
    others = ~own & (a > 0.0)
    suppressed = membership.items.suppress_side[index[others]] != 0
    used = np.inf if suppressed.any() else float(a[others] @ width[index[others]])
    own_a = np.abs(part.weights)
    used_by_items = (
        np.inf if (membership.items.suppress_side[part.items] != 0).any() else float(own_a @ width[part.items])
    )
    alone = float(width[part.sum]) if part.sum >= 0 else np.inf
    total = float(own_a.sum() + a[others].sum())
    return RowRoom(beta - used, used_by_items, alone, float(own_a.sum()) / total if total else 1.0)
