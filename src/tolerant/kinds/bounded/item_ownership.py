"""To which source an item belongs: takeovers by another source, and rows refused because of them."""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import Flags, Integers
from tolerant.kinds.bounded.item_conflicts import DISPUTED
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.kinds.bounded.special_cases import Transaction
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.pipeline.intake import HELLO, DeadRow
from tolerant.transport.conflicts import Conflict


class ItemOwnership:
    """Moves items between sources. An item is disputed while its former owner is live or sends later rows of it."""

    def __init__(self, state: ShardState, sums: SumSubstitution) -> None:
        self._state, self._sums = state, sums
        self._registry, self._sources, self._conflicts = state.registry, state.sources, state.conflicts
        self._evidence = state.coordinator.evidence

    def is_foreign(self, rows: Rows) -> Flags:
        """Marks rows of items that belong to another source."""
        item = rows["item"]
        foreign: Flags = (item >= 0) & self._registry.present[item] & (self._registry.owner[item] != rows["source"])
        return foreign

    def take_over(self, transaction: Transaction) -> None:
        """Moves an item to a source that sends a hello for it later than all its rows so far; refuses other rows."""
        rows, at = transaction.rows, transaction.at
        newer = rows["at"] > self._registry.last_at[rows["item"]]
        taking = self.is_foreign(rows) & (rows["kind"] == HELLO) & newer
        self._move(rows["item"][taking], rows["source"][taking], at)
        # Also rows of the former owner with the same `at`: it is unknown which of the two values is newer.
        refused = self.is_foreign(rows)
        self._state.dead_letters.extend(self._refusal(row) for row in rows[refused])
        for row in rows[refused & (rows["heard"] + self._state.lease >= at)]:
            item, other = int(row["item"]), int(row["source"])
            if row["kind"] != HELLO and self._conflicts.is_told(item, self._sources.names[other]):
                self._conflicts.prolong(item, at)
            else:  # a source whose hello is refused still claims the item
                self._dispute(item, int(self._registry.owner[item]), other, at)
        transaction.rows = rows[~refused]

    def _move(self, items: Integers, owners: Integers, at: int) -> None:
        if len(items):
            self._sums.handed_over(items, at)
            self._state.history.forget(items.tolist(), at)
        before = self._registry.owner[items]
        self._registry.owner[items] = owners
        self._state.coordinator.membership.restart_sequences(items, self._sources.epoch[owners])
        for item, former, owner in zip(items.tolist(), before.tolist(), owners.tolist(), strict=True):
            if not self._sources.silent[former] or item in self._conflicts:
                self._dispute(item, owner, former, at)

    def _dispute(self, item: int, owner: int, other: int, at: int) -> None:
        """Marks an item that two sources claim as stale until one has sent no row of it for a lease."""
        names = self._sources.names
        self._conflicts.begin(item, Conflict(self._state.key(item), names[owner], names[other], at), at)
        self._evidence.mark_stale(np.array([item]), True, at, epoch=DISPUTED)

    def _refusal(self, row: np.void) -> DeadRow:
        owner = self._sources.names[self._registry.owner[row["item"]]]
        return DeadRow(
            f"the item belongs to source {owner!r}: another source must say hello with it first",
            key=self._state.key(int(row["item"])),
            at=int(row["at"]),
            source=self._sources.names[row["source"]],
            sequence=int(row["sequence"]),
            value=float(row["value"]),
        )

    def next_end(self, rows: Rows, until: int) -> int | None:
        """Returns when a dispute is first over up to `until`; the rows do not matter."""
        at = self._conflicts.next_end()
        return None if at is None or at > until else max(at, self._state.coordinator.emitter.at)

    def end_disputes(self, transaction: Transaction) -> None:
        """Ends the disputes that are over; their items are as fresh as the other items of their owners."""
        at = transaction.at
        items = self._conflicts.over(at)
        self._conflicts.end(items, at)
        for item in items:
            owner, index = int(self._registry.owner[item]), np.array([item])
            stale = bool(self._sources.silent[owner]) or not self._state.is_current(index)[0]
            self._evidence.mark_stale(index, stale, at, epoch=int(self._sources.epoch[owner]))
