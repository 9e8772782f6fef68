"""Rows that cannot be used: what becomes uncertain because of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tolerant.filters.state import Integers
from tolerant.kinds.bounded.item_lifecycle import ItemLifecycle
from tolerant.kinds.bounded.shard_state import ShardState
from tolerant.pipeline.intake import DeadRow


class LostRows:
    """Marks items of unusable rows as stale, and their filters as unknown, until usable rows of them come."""

    def __init__(self, state: ShardState, lifecycle: ItemLifecycle) -> None:
        self._state, self._lifecycle = state, lifecycle
        self._registry, self._sources, self._answers = state.registry, state.sources, state.answers
        self._membership, self._evidence = state.coordinator.membership, state.coordinator.evidence

    def register_items(self, dead: Sequence[DeadRow], at: int) -> None:
        """Adds the unknown items of unusable rows: they exist, and their queries are stale until one of their rows can
        be used.
        """
        dead = self._within_limits(dead, at)
        indices = self._lifecycle.intern([row.key for row in dead]).tolist()
        sources = self._sources.enlist([row.source for row in dead]).tolist()
        new: dict[int, int] = {}
        for row, item, source in zip(dead, indices, sources, strict=True):
            if not self._registry.present[item] and not self._is_repeated(row, item, source):
                new[item] = source
        if new:
            items, owners = np.array(list(new)), np.array(list(new.values()))
            self._lifecycle.add(items, owners, at)
            self._evidence.mark_stale(items, True, at)

    def _is_repeated(self, row: DeadRow, item: int, source: int) -> bool:
        """Whether the row is older than the removal of its item."""
        removed = self._registry.gone_at[item] > 0 and self._registry.owner[item] == source
        return bool(removed and row.sequence <= self._state.sequence(item))

    def _within_limits(self, dead: Sequence[DeadRow], at: int) -> Sequence[DeadRow]:
        """Selects the rows whose items and sources are within the stream's limits. If any row is left out, all answers
        are stale from now on.
        """
        limits = self._state.stream.options.limits
        kept = _first(dead, [row.key for row in dead], self._membership.find, limits.items - len(self._membership))
        kept = _first(kept, [row.source for row in kept], self._sources.find, limits.sources - len(self._sources))
        if len(kept) < len(dead) and not self._answers.incomplete:
            self._answers.incomplete = True
            self._state.coordinator.emitter.emit_all(at)
            self._answers.finish()
        return kept

    def mark_lost(self, dead: Sequence[DeadRow], at: int) -> None:
        """Marks the filters of items with unusable rows as unknown until a row with a later sequence confirms them."""
        lost: dict[int, int] = {}
        for row, item in zip(dead, self._membership.find([row.key for row in dead]).tolist(), strict=True):
            if item >= 0:
                # A row whose sequence cannot be read counts as later than all rows read from its source.
                number = row.sequence if row.sequence > 0 else int(self._sources.read[self._registry.owner[item]])
                lost[item] = max(lost.get(item, 0), number)
        if lost:
            self._state.history.forget(lost, at)  # the row that reported it may be among them
            self._evidence.mark_rows_lost(np.array(list(lost)), np.array(list(lost.values())), at)
            gone = self._membership.find([row.key for row in dead if row.kind == "gone" and row.key])
            gone = gone[gone >= 0]
            self._evidence.mark_stale(gone[self._registry.present[gone]], True, at)  # they may not exist any more
            self._answers.finish()

    def mark_all_lost(self, at: int) -> None:
        """Marks all items as stale and their filters as unknown: the lost rows may be of any item, or its removal."""
        items = self._registry.items()
        if len(items):
            self._state.history.forget(items.tolist(), at)
            self._evidence.mark_rows_lost(items, self._sources.read[self._registry.owner[items]], at)
            self._evidence.mark_stale(items, True, at)
            self._answers.finish()

    def skip(self, rows: Sequence[DeadRow], at: int) -> None:
        """Skips rows that may have been usable: their items become unknown, and older rows no longer apply."""
        self.register_items(
            [row for row in rows if row.kind in ("update", "hello", "ack") or self._is_awaited(row.key)], at
        )
        self.mark_lost(rows, at)
        for row in rows:
            item = self._membership.find([row.key])
            if item[0] >= 0 and self._sources.names[self._registry.owner[item[0]]] == row.source:
                newest = np.maximum(self._membership.sequences(item), row.sequence)
                self._membership.set_sequences(item, newest)

    def _is_awaited(self, key: str) -> bool:
        """Whether an item has waiting rows and none of its rows has been applied yet."""
        item = int(self._membership.find([key])[0])
        return item >= 0 and not self._registry.present[item] and not self._registry.gone_at[item]


def _first(
    dead: Sequence[DeadRow], names: Sequence[str], find: Callable[[Sequence[str]], Integers], room: int
) -> Sequence[DeadRow]:
    """Returns the rows whose names are known, or among the first `room` that are not."""
    new = [name for name, index in zip(names, find(names).tolist(), strict=True) if index < 0]
    beyond = set(list(dict.fromkeys(new))[max(room, 0) :])
    return [row for row, name in zip(dead, names, strict=True) if name not in beyond] if beyond else dead
