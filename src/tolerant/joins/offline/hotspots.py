"""Tracks the groups that contain many intervals (docs/design/joins.md §2.5, [DISS] Theorem 12)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.offline.dynamic_partition import StabbingPartition
from tolerant.kernels.array_types import Floats, Integers

_SMALLEST = 8


class Hotspots:
    """Intervals in hot groups, each with about a share `alpha` of them or more, and the scattered rest.

    After every update, with n intervals and τ the smallest possible number of groups:

    - every group of at least alpha·n intervals is hot, every hot group has at least (alpha/2)·n; so there are at most
      2/alpha hot groups;
    - hot and scattered groups together are at most (1 + epsilon)·τ + 2/alpha;
    - `moves`, the number of intervals that moved between hot and scattered, is at most 5 per update, amortised.

    >>> spots = Hotspots(0.4)
    >>> for id, (low, high) in enumerate([(1, 4), (2, 6), (3, 5), (7, 10), (20, 30)]):
    ...     spots.add(id, low, high)
    >>> spots.hot_groups(), spots.scattered(), spots.moves
    ([(0, 1, 2)], [3, 4], 1)
    """

    def __init__(self, alpha: float, epsilon: float = 1.0) -> None:
        if not 0 < alpha <= 1:
            raise ValueError(f"alpha must be in (0, 1], got {alpha}")
        self.alpha = float(alpha)
        self.moves = 0
        self._scattered = StabbingPartition(epsilon)
        self.epsilon = self._scattered.epsilon
        self._ends: dict[int, tuple[float, float]] = {}  # of intervals in hot groups
        self._slot: dict[int, int] = {}  # and the place of that group
        self._members: list[set[int]] = []
        # Common intersections and sizes of the hot groups; the arrays have spare room.
        self._low: Floats = np.zeros(_SMALLEST)
        self._high: Floats = np.zeros(_SMALLEST)
        self._sizes: Integers = np.zeros(_SMALLEST, np.int64)

    def __len__(self) -> int:
        """Return the number of groups, hot and scattered."""
        return len(self._members) + len(self._scattered)

    @property
    def size(self) -> int:
        """The number of intervals."""
        return len(self._slot) + self._scattered.size

    @property
    def rebuilds(self) -> int:
        """How often the scattered intervals were partitioned again."""
        return self._scattered.rebuilds

    def hot_groups(self) -> list[tuple[int, ...]]:
        """Return the ids of each hot group, sorted; the largest group first."""
        return sorted((tuple(sorted(members)) for members in self._members), key=lambda ids: (-len(ids), ids))

    def scattered(self) -> list[int]:
        """Return the ids in no hot group, sorted."""
        return sorted(id for id, _ in self._scattered.intervals())

    def group_of(self, id: int) -> int:
        """Return a number for the interval's group: below 0 if it is hot, else that of the scattered group."""
        slot = self._slot.get(id)
        return self._scattered.group_of(id) if slot is None else -1 - slot

    def add(self, id: int, low: float, high: float) -> None:
        """Add an interval."""
        id = checks.identifier("id", id)
        if id in self._slot or id in self._scattered:
            raise ValueError(f"id must be new, got {id}, which is there already")
        low, high = checks.interval("low", "high", low, high)
        slot = self._meeting(low, high)
        if slot < 0:
            self._scattered.add(id, low, high)
        else:
            self._ends[id] = low, high
            self._slot[id] = slot
            self._members[slot].add(id)
            self._sizes[slot] += 1
            self._low[slot] = max(self._low[slot], low)
            self._high[slot] = min(self._high[slot], high)
        self._settle()

    def remove(self, id: int) -> None:
        """Remove an interval."""
        slot = self._slot.pop(id, -1)
        if slot < 0:
            self._scattered.remove(id)
        else:
            del self._ends[id]
            self._members[slot].discard(id)
            self._sizes[slot] -= 1
            if not self._members[slot]:
                self._close(slot)
        self._settle()

    def add_many(self, ids: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add intervals, all or none: one canonical partition of the scattered ones, then promotion."""
        chosen = checks.integers("ids", ids)
        checks.new_ids("ids", chosen, np.array([id for id in chosen.tolist() if id in self._slot], np.int64))
        self._scattered.add_many(chosen, lows, highs)
        self._settle()

    def _meeting(self, low: float, high: float) -> int:
        """The largest hot group whose intersection meets [low, high], of several the first; −1: none."""
        count = len(self._members)
        if not count:
            return -1
        meets = (self._low[:count] <= high) & (self._high[:count] >= low)
        slot = int(np.where(meets, self._sizes[:count], 0).argmax())
        return slot if meets[slot] else -1

    def _settle(self) -> None:
        """Demote groups that are too small and promote those that are large enough, until neither exists."""
        n = self.size
        count = len(self._members)
        if count and self._sizes[:count].min() < self.alpha / 2 * n:
            for slot in np.flatnonzero(self._sizes[:count] < self.alpha / 2 * n)[::-1].tolist():
                self._demote(slot)
        while (largest := self._scattered.largest()) >= 0 and self._scattered.group_size(largest) >= self.alpha * n:
            self._promote(largest)

    def _demote(self, slot: int) -> None:
        members = {id: self._ends.pop(id) for id in sorted(self._members[slot])}
        for id in members:
            del self._slot[id]
        self._close(slot)
        self._scattered.add_group(members)
        self.moves += len(members)

    def _promote(self, group: int) -> None:
        members = self._scattered.remove_group(group)
        slot = len(self._members)
        if slot == len(self._sizes):
            self._low, self._high = np.resize(self._low, 2 * slot), np.resize(self._high, 2 * slot)
            self._sizes = np.resize(self._sizes, 2 * slot)
        self._members.append(set(members))
        self._low[slot] = max(low for low, _ in members.values())
        self._high[slot] = min(high for _, high in members.values())
        self._sizes[slot] = len(members)
        self._ends.update(members)
        self._slot.update(dict.fromkeys(members, slot))
        self.moves += len(members)

    def _close(self, slot: int) -> None:
        """Remove a hot group; the last one gets its place."""
        last = len(self._members) - 1
        if slot != last:
            self._members[slot] = self._members[last]
            for array in (self._low, self._high, self._sizes):
                array[slot] = array[last]
            self._slot.update(dict.fromkeys(self._members[slot], slot))
        self._members.pop()
