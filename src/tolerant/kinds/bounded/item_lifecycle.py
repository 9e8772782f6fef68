"""When items begin and cease to exist: a key becomes an item when one of its rows is applied."""

from __future__ import annotations

import numpy as np

from tolerant.filters.changes import Change
from tolerant.filters.state import Flags, Integers
from tolerant.kinds.bounded.open_queries import OpenQueries
from tolerant.kinds.bounded.shard_state import Rows, ShardState
from tolerant.kinds.bounded.special_cases import Transaction
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.pipeline.intake import FORM_REQUEST, GONE


class ItemLifecycle:
    """Adds items to the queries that are over them, and removes them."""

    def __init__(self, state: ShardState, queries: OpenQueries, sums: SumSubstitution) -> None:
        self._state, self._queries, self._sums = state, queries, sums
        self._registry, self._membership = state.registry, state.coordinator.membership
        self._removed: list[str] = []

    # -- indices ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._membership)

    def find(self, keys: list[str]) -> Integers:
        """Returns the indices of keys, −1 for a key that has none."""
        return self._membership.find(keys)

    def intern(self, keys: list[str]) -> Integers:
        """Returns the indices of keys, new ones for keys that have none."""
        indices = self._membership.intern(keys)
        self._registry.make_room(len(self._membership.item_names))
        return indices

    def release(self, waiting: Integers, now: int) -> None:
        """Releases the indices of items that were removed long ago and that no waiting row refers to."""
        self._membership.release(self._registry.forgotten(waiting, now, self._state.lease))

    # -- arrivals --------------------------------------------------------------------------------------------------

    def is_unknown(self, rows: Rows) -> Flags:
        """Marks rows that add their item."""
        unknown: Flags = (rows["item"] >= 0) & ~self._registry.present[rows["item"]]
        return unknown & (rows["kind"] != GONE) & (rows["kind"] != FORM_REQUEST)

    def arrive(self, transaction: Transaction) -> None:
        """Adds the new items of the whole run at once. Their queries settle only after a grant is confirmed, so no
        answer is settled before the first rows of the items.
        """
        run = np.concatenate([transaction.rows, transaction.later])
        new = run[self.is_unknown(run)]
        items, first = np.unique(new["item"], return_index=True)
        self.add(items, new["source"][first], transaction.at)

    def add(self, items: Integers, owners: Integers, at: int) -> None:
        """Adds items with their owners."""
        self._registry.appear(items, owners)
        self._membership.restart_sequences(items, self._state.sources.epoch[owners])
        self._queries.join(items, at)

    # -- removals --------------------------------------------------------------------------------------------------

    def without_removed(self, rows: Rows) -> Rows:
        """Drops rows of removed items that are older than the removal."""
        item = rows["item"]
        stale = (item >= 0) & ~self._registry.present[item] & (self._registry.gone_at[item] > 0)
        stale &= self._registry.owner[item] == rows["source"]
        stale &= rows["sequence"] <= self._membership.sequences(item)
        self._state.counters.duplicates += int(stale.sum())
        return rows[~stale] if stale.any() else rows

    def is_removal(self, rows: Rows) -> Flags:
        """Marks rows that remove their item."""
        removal: Flags = rows["kind"] == GONE
        return removal

    def select_removals(self, transaction: Transaction) -> None:
        """Takes out the rows that remove an item, apart from repeated ones."""
        removal = self.is_removal(transaction.rows)
        rows, transaction.rows = transaction.rows[removal], transaction.rows[~removal]
        new = self._registry.present[rows["item"]] & (rows["sequence"] > self._membership.sequences(rows["item"]))
        self._state.counters.duplicates += int((~new).sum())
        self._registry.discard(rows["item"][~new], transaction.at)
        transaction.removals = rows[new]

    def remove(self, removals: Rows, at: int) -> None:
        """Removes items."""
        if len(removals):
            items = removals["item"].copy()
            self._state.counters.gone += len(items)
            self._sums.departing(items)
            self._state.conflicts.end(items.tolist(), at)
            self._remove(items, removals["sequence"].copy(), at)

    def remove_sums(self, sums: Integers, at: int) -> None:
        """Removes sums that no query needs or no source sends; a later row of such a sum adds it again."""
        if len(sums):
            self._remove(sums, self._membership.sequences(sums).copy(), at)

    def _remove(self, items: Integers, sequences: Integers, at: int) -> None:
        self._removed.extend(self._state.keys(items))
        self._state.coordinator.apply(Change(remove=items), at)
        self._membership.set_sequences(items, sequences)
        self._registry.depart(items, at)

    def take_removed(self) -> list[str]:
        """Returns the keys of the items removed since the last call."""
        removed, self._removed = self._removed, []
        return removed
