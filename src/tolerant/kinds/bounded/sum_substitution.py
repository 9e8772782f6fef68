"""Sum substitution (`docs/design/filters.md` §2.8): exchanges items of a source and their sums.

A source that has several items in a query may filter their sum. The pipeline offers the sums that would serve
(`sum_offers`); the source sends a hello for them when they are cheaper, and a request to return to items when they no
longer are. `sum_phases` says what a group of sums goes through. Any interruption, such as an item that is removed or
changes its owner, ends a group at once, and the answer settles again as after any such change. Everything is a function
of the log: transitions happen when the watermark advances, from the state at that time.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tolerant.filters.changes import Change
from tolerant.filters.state import Flags, Integers
from tolerant.filters.substitution import PartialSum, RowRoom, matches_query, row_room
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.kinds.bounded.special_cases import Transaction
from tolerant.kinds.bounded.sum_group import SumGroup, SumGroups
from tolerant.kinds.bounded.sum_offers import SumOffers
from tolerant.kinds.bounded.sum_phases import Event, Phase, next_phase
from tolerant.pipeline.intake import FORM_REQUEST
from tolerant.queries import Aggregate
from tolerant.streams import is_sum


class SumSubstitution(Restorable):
    """The groups of sums of a shard, and the transitions of each."""

    FIELDS = Fields(parts=["groups", "offers"])

    def __init__(self, state: ShardState, shard: int) -> None:
        self._state, self._coordinator, self._registry = state, state.coordinator, state.registry
        self._membership = state.coordinator.membership
        self.enabled = state.coordinator.policy.name in ("adaptive", "predictive")
        self.groups = SumGroups()
        self.offers = SumOffers(state, self.groups, shard)

    # -- events ----------------------------------------------------------------------------------------------------

    def appeared(self, items: Integers) -> None:
        """Called when items or sums have been added."""
        for key in filter(is_sum, self._state.keys(items)):
            group = self.groups.with_key(key)
            if group is not None:
                self.groups.wake(group)
        self.groups.changed = True

    def is_request(self, rows: Rows) -> Flags:
        """Marks requests of sources to send sums or items."""
        requests: Flags = rows["kind"] == FORM_REQUEST
        return requests

    def apply_requests(self, transaction: Transaction) -> None:
        """Takes out the requests of sources, and applies those that are no repetition."""
        requested = self.is_request(transaction.rows)
        requests, transaction.rows = transaction.rows[requested], transaction.rows[~requested]
        self._state.sources.hear(requests)
        for row in requests:
            item = int(row["item"])
            if self._registry.present[item] and row["sequence"] > self._state.sequence(item):
                self._state.counters.form_request += 1
                self._membership.set_sequences(np.array([item]), np.array([row["sequence"]]))
                self._request(item, bool(row["value"]))
            else:
                self._state.counters.duplicates += 1

    def _request(self, item: int, wanted: bool) -> None:
        """Applies the request of a source to send the sums of a group (`wanted`), or its items."""
        group = self.groups.with_key(self._state.key(item))
        if group is not None and group.wanted != wanted and not group.dropped:
            group.wanted = wanted
            self.groups.wake(group)

    def departing(self, items: Integers) -> None:
        """Ends the sums of items that are about to be removed; the caller's next change adjusts the widths."""
        self.groups.changed = True
        for group in self.groups.with_items(items):
            self._transition(group, Event.INTERRUPTED)

    def handed_over(self, items: Integers, at: int) -> None:
        """Ends the sums of items that have moved to another source."""
        self.groups.changed = True
        interrupted = self.groups.with_items(items)
        for group in interrupted:
            self._transition(group, Event.INTERRUPTED)
        if interrupted:
            self._coordinator.apply(Change(), at)

    def dropping(self, queries: Iterable[str]) -> None:
        """Ends the sums of queries that are about to be dropped; the caller's next change adjusts the widths."""
        self.groups.changed = True
        gone = set(queries)
        for group in self.groups:
            touched = [place for place in group.alive() if group.parts[place].query in gone]
            if not touched or group.phase is Phase.OFFERED:
                continue
            if group.phase is Phase.FORMING or len(touched) == len(group.alive()):
                self._transition(group, Event.INTERRUPTED)
            else:
                self._drop_parts(group, touched)

    def _drop_parts(self, group: SumGroup, touched: list[int]) -> None:
        """Drops some sums of a formed group: the others return to items step by step, and may form again."""
        if group.phase.has_hidden_queries:
            Change(drop=[group.keys[place] for place in touched]).apply_to(self._membership)
        group.dropped += touched
        group.wanted = False
        self.groups.wake(group)

    def opened(self) -> None:
        """Called when queries have been opened."""
        self.groups.changed = True

    # -- transitions -----------------------------------------------------------------------------------------------

    def step(self, at: int, period_ended: bool) -> Integers:
        """Makes the transitions due at `at`; returns the sums to remove."""
        if not self.enabled:
            return np.zeros(0, np.int64)
        for group in self.groups.busy():
            if group in self.groups:
                self._advance(group, at, period_ended)
        if not period_ended:
            return np.zeros(0, np.int64)
        for group in self.groups:
            if group.phase is not Phase.OFFERED and self._lacks_sums(group):
                self._transition(group, Event.INTERRUPTED, at)
        return self.offers.end_period()

    def _advance(self, group: SumGroup, at: int, period_ended: bool) -> None:
        event = self._event(group)
        if event is not None:
            # An offer changes nothing but the offers.
            ends_offer = group.phase is Phase.OFFERED and event is not Event.SENT
            self._transition(group, event, None if ends_offer else at)
        elif group.phase.has_hidden_queries and period_ended:
            self._tune(group, at)

    def _event(self, group: SumGroup) -> Event | None:
        """Returns what has happened to a group that ends its phase; a group to which nothing can happen rests."""
        if group.phase is Phase.OFFERED:
            return self._event_of_offer(group)
        if group.phase is Phase.FORMED:
            if group.wanted:
                self.groups.rest(group)
                return None
            rooms = self._rooms(group)
            return Event.UNWANTED if all(np.isfinite(room.sum) and room.left >= 0.0 for room in rooms) else None
        if group.phase is Phase.FORMING and not group.wanted:
            return Event.UNWANTED
        if group.phase is Phase.FORMING and not self._stands(group):
            return Event.INTERRUPTED
        if group.phase is Phase.PARTING and group.wanted:
            return Event.WANTED
        return Event.CONFIRMED if self._fits(group) else None

    def _event_of_offer(self, group: SumGroup) -> Event | None:
        sums = self._membership.find(group.keys)
        sent = (sums >= 0) & self._registry.present[sums]
        if not sent.any():
            self.groups.rest(group)
            return None
        if not group.wanted:
            return Event.UNWANTED
        if not sent.all():
            return None
        group.parts = [part._replace(sum=int(item)) for part, item in zip(group.parts, sums, strict=True)]
        if not self._stands(group) or self._membership.stale(sums).any():
            return None
        return Event.SENT if all(np.isfinite(room.items) and room.left >= 0.0 for room in self._rooms(group)) else None

    def _transition(self, group: SumGroup, event: Event, at: int | None = None) -> None:
        """Changes the phase of a group and, with it, hidden queries and what is in place of what, in one transaction at
        `at`; without `at` the caller's next change adjusts the widths.
        """
        before, after = group.phase, next_phase(group.phase, event)
        parts = group.alive_parts()
        change = Change(
            drop=group.alive_keys() if before.has_hidden_queries else (),
            restore=parts if before.replaces_items and not after.replaces_items else (),
            substitute=parts if after.replaces_items and not before.replaces_items else (),
            add=self._hidden_queries(group, after) if after.has_hidden_queries else (),
        )
        if at is None:
            change.apply_to(self._membership)
        else:
            self._coordinator.apply(change, at)
        group.phase = after
        if after is Phase.FORMING:
            self.groups.activate(group)
        elif after is Phase.FORMED:
            self.groups.rest(group)
        elif after is Phase.ENDED:
            self.groups.remove(group)

    def _hidden_queries(self, group: SumGroup, phase: Phase) -> list[Aggregate]:
        """Returns for each part the query that limits its sum to the width of its items, or the reverse."""
        queries = []
        for key, part, room in zip(group.alive_keys(), group.alive_parts(), self._rooms(group), strict=True):
            if phase is Phase.FORMING:
                weights, used = {self._state.key(part.sum): 1.0}, room.items
            else:
                weights = dict(zip(self._state.keys(part.items), part.weights.tolist(), strict=True))
                used = room.sum
            queries.append(Aggregate(key, "sum", weights, room.target(used) / 2))
        return queries

    def _rooms(self, group: SumGroup) -> list[RowRoom]:
        return [row_room(self._membership, part) for part in group.alive_parts()]

    def _fits(self, group: SumGroup) -> bool:
        """Whether, with the confirmed widths, every row of a query still fits its tolerance after the exchange."""
        forming = group.phase is Phase.FORMING
        if self._membership.stale(group.sums if forming else group.items).any():
            return False
        return all((room.sum if forming else room.items) <= room.left for room in self._rooms(group))

    def _tune(self, group: SumGroup, at: int) -> None:
        """Narrows the hidden queries whose confirmed width no longer fits because other widths have grown."""
        narrower: dict[str, float] = {}
        for key, room in zip(group.alive_keys(), self._rooms(group), strict=True):
            used, other = (room.items, room.sum) if group.phase is Phase.FORMING else (room.sum, room.items)
            if np.isfinite(used) and np.isfinite(other) and 0.0 <= room.left < other:
                narrower[key] = room.target(used) / 2
        if narrower:
            self._coordinator.apply(Change(alter=narrower), at)

    def _stands(self, group: SumGroup) -> bool:
        """Whether items, sums, weights and owners are unchanged since the group was offered."""
        own = np.append(group.items, group.sums)
        here = self._registry.present[own] & (self._registry.owner[own] == group.source)
        return bool(here.all()) and all(matches_query(self._membership, part) for part in group.parts)

    def _lacks_sums(self, group: SumGroup) -> bool:
        """Whether the source has restarted without the sums of a group."""
        return bool(self._membership.stale(group.sums).any() and not self._membership.stale(group.items).any())

    # -- outputs -----------------------------------------------------------------------------------------------------

    def formed(self) -> list[tuple[int, PartialSum]]:
        """Returns the sums that currently replace items, each with the index of its source."""
        groups = [group for group in self.groups if group.phase.replaces_items]
        return [(group.source, part) for group in groups for part in group.alive_parts()]
