"""How a band join with several shards is spread: over its subscriptions, or over ranges of what is compared.

By subscriptions every shard has all rows and some of the subscriptions. By ranges a row of the left table is in one
shard, and a row of the right one in those that a band can reach from it; all shards have all subscriptions. What is
known when a query is created decides (`Stretch`): rows cannot be called back that a shard was not given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tolerant.sql.statements import BandJoinSelect, Stretch


@dataclass(frozen=True)
class Ranges:
    """Ranges of what is compared, one a shard. `left`: the table whose rows are in one shard each."""

    left: str
    shards: int
    stretch: Stretch


def copies(select: BandJoinSelect) -> float | None:
    """In how many shards a row of the right table is on average, spread by ranges, if rows lie evenly over the stretch;
    None: the stretch is not known.

    >>> copies(BandJoinSelect("r", "s", ("b", "b"), -1, 1, 4, Stretch(0.0, 100.0, 5.0)))
    1.3
    """
    if select.stretch is None:
        return None
    known = select.stretch
    return min(1 + 2 * known.reach * (select.shards - 1) / (known.highest - known.lowest), float(select.shards))


def is_by_range(select: BandJoinSelect) -> bool:
    """Whether a band join is spread by ranges: where that copies less.

    With as many subscriptions as rows in each table, and n shards: by subscriptions 2n + 1 tables' worth is held, by
    ranges 1 + n + copies of the right table.
    """
    found = copies(select)
    return select.shards > 1 and found is not None and found < select.shards


def ranges_over(select: BandJoinSelect) -> Ranges | None:
    """The ranges that a band join is spread by; None: it is spread by subscriptions, or not at all."""
    if select.stretch is None or not is_by_range(select):
        return None
    return Ranges(select.left, select.shards, select.stretch)


def reach_of(select: object) -> float:
    """How far the bands of a query may be from 0."""
    known = isinstance(select, BandJoinSelect) and select.stretch
    return known.reach if known else math.inf
