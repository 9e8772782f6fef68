"""One command for every change of the set of queries and items (`docs/design/filters.md` §2.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tolerant.filters import substitution
from tolerant.filters.item_membership import Membership
from tolerant.filters.state import Integers
from tolerant.filters.substitution import PartialSum
from tolerant.queries import Aggregate


@dataclass(frozen=True, eq=False)
class Change:
    """Queries and items that are added, removed or altered at one time, in the order of the fields.

    drop: names of queries that end. alter: new tolerances by query. restore, substitute: partial sums that are replaced
    by their items, and items replaced by their partial sum (`substitution.row_room` tells when that keeps answers
    settled). add: queries that start. join: by query, the item indices that join it, with their weights. joining: the
    indices of new items; one that no query needs gets an infinite width, or its source would send every change. remove:
    indices of items that cease to exist. lazy: with a policy that shrinks, tighten nothing now: no width grows until
    shrinking has caught up, and answers have their true width until then.
    """

    drop: Iterable[str] = ()
    alter: Mapping[str, float] = field(default_factory=dict)
    restore: Iterable[PartialSum] = ()
    substitute: Iterable[PartialSum] = ()
    add: Iterable[Aggregate] = ()
    join: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    joining: Integers | None = None
    remove: Integers | None = None
    lazy: bool = False

    def apply_to(self, membership: Membership) -> None:
        """Change the membership; widths are not changed."""
        for name in self.drop:
            membership.drop_query(name)
        for name, within in self.alter.items():
            membership.alter_query(name, within)
        for part in self.restore:
            substitution.restore(membership, part)
        for part in self.substitute:
            substitution.substitute(membership, part)
        for query in self.add:
            membership.add_query(query)
        for name, weights in self.join.items():
            membership.add_items(name, weights)
        if self.remove is not None:
            membership.remove(self.remove)
