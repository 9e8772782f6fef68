"""How a band join with several shards is spread: over its subscriptions, or over ranges of what is compared.

By subscriptions every shard has all rows and some of the subscriptions. By ranges a row of the left table is in one
shard, and a row of the right one in those that a band can reach from it; all shards have all subscriptions. What is
known when a query is created decides (`Stretch`): rows cannot be called back that a shard was not given.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stretch:
    """What is known beforehand of a band join: its columns are about from `lowest` to `highest`, and no band is beyond
    ± `reach`. A row outside does no harm; a band is refused.
    """

    lowest: float
    highest: float
    reach: float


@dataclass(frozen=True)
class Ranges:
    """Ranges of what is compared, one a shard. `left`: the table whose rows are in one shard each."""

    left: str
    shards: int
    stretch: Stretch
