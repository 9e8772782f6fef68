"""Stabbing partitions of intervals that are added and removed, never far from the smallest
(docs/design/joins.md §2.4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.partition import canonical
from tolerant.kernels.array_types import Floats, Integers

PLACEMENTS = ("simple", "points", "intersections")
TRIGGERS = ("count", "relaxed", "witness")


class StabbingGroup:
    """Intervals that share the points of [low, high]."""

    __slots__ = ("high", "low", "members", "number")

    def __init__(self, number: int, low: float, high: float, members: set[int]) -> None:
        self.number = number
        self.low = low
        self.high = high
        self.members = members

    @property
    def point(self) -> float:
        """A finite point that all members share."""
        return next((end for end in (self.low, self.high) if abs(end) < np.inf), 0.0)


class StabbingPartition:
    """A stabbing partition with at most (1 + epsilon)·τ groups after every update; τ is the smallest possible number.

    `placement`: what a new interval joins. "simple": nothing, it opens a group; "points": a group whose point it
    contains; "intersections": a group whose common intersection it meets; of several the largest, then the lowest
    number. `trigger`: when the canonical partition is rebuilt. "count": after so many updates that the guarantee might
    break; "relaxed": when there are too many groups for what τ was, less the intervals removed since; "witness": when
    there are too many for the disjoint intervals known. An update takes O(log n) and one look at each group that it
    could join; groups keep their numbers between rebuilds.

    >>> partition = StabbingPartition()
    >>> for id, (low, high) in enumerate([(1, 4), (3, 6), (5, 9)]):
    ...     _ = partition.add(id, low, high)
    >>> len(partition), partition.group_of(1) == partition.group_of(0), partition.members(0)
    (2, True, (0, 1))
    """

    def __init__(self, epsilon: float = 1.0, *, placement: str = "intersections", trigger: str = "witness") -> None:
        if not epsilon > 0:
            raise ValueError(f"epsilon must be positive, got {epsilon}")
        self.epsilon = float(epsilon)
        self.placement = checks.choice("placement", placement, PLACEMENTS)
        self.trigger = checks.choice("trigger", trigger, TRIGGERS)
        self.rebuilds = 0
        self._ends: dict[int, tuple[float, float]] = {}
        self._group: dict[int, StabbingGroup] = {}
        self._groups: dict[int, StabbingGroup] = {}
        self._next = 0
        self._sizes: list[tuple[int, int]] = []  # heap of (−size, number), some out of date
        # Groups by their point or intersection, and the witnesses: disjoint, so sorted by low is sorted by high.
        self._lows: list[float] = []
        self._sorted: list[StabbingGroup] = []
        self._witness_lows: list[float] = []
        self._witnesses: list[int] = []
        self._updates = 0  # since the last rebuild
        self._removed = 0  # intervals of the last rebuild that were removed
        self._tau = 0  # groups at the last rebuild
        self._remaining: set[int] = set()  # intervals of the last rebuild that still exist

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._groups)

    @property
    def size(self) -> int:
        """The number of intervals."""
        return len(self._ends)

    def __contains__(self, id: int) -> bool:
        return id in self._ends

    def group_of(self, id: int) -> int:
        """Return the number of the interval's group."""
        return self._group_with(id).number

    def members(self, group: int) -> tuple[int, ...]:
        """Return the ids of a group, sorted."""
        return tuple(sorted(self._numbered(group).members))

    def point(self, group: int) -> float:
        """Return a finite point that all members of the group share."""
        return self._numbered(group).point

    def add(self, id: int, low: float, high: float) -> int:
        """Add an interval; returns the number of the group that it joined (before a rebuild, if this caused one)."""
        id = checks.identifier("id", id)
        if id in self._ends:
            raise ValueError(f"id must be new, got {id}, which is there already")
        low, high = checks.interval("low", "high", low, high)
        return self._add(id, low, high)

    def _add(self, id: int, low: float, high: float) -> int:
        self._ends[id] = low, high
        number = self._join(low, high, {id})
        self._witness(id, low, high)
        self._after_update()
        return number

    def remove(self, id: int) -> int:
        """Remove an interval; returns the number of the group that it left."""
        group = self._group_with(id)
        group.members.discard(id)
        if group.members:
            heappush(self._sizes, (-len(group.members), group.number))
        else:
            self._close(group)
        self._forget(id)
        self._after_update()
        return group.number

    def add_many(self, ids: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add intervals, all or none, with one canonical partition of everything."""
        chosen = checks.integers("ids", ids)
        low, high = checks.intervals("lows", "highs", lows, highs)
        checks.alike(("ids", "lows"), (chosen, low))
        checks.new_ids("ids", chosen, np.array([id for id in chosen.tolist() if id in self._ends], np.int64))
        was_empty = not self._ends
        self._ends.update(zip(chosen.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))
        self._rebuild()
        self.rebuilds -= was_empty

    def remove_group(self, group: int) -> dict[int, tuple[float, float]]:
        """Remove a whole group, as one update; returns its intervals by id."""
        chosen = self._numbered(group)
        intervals = {id: self._ends[id] for id in chosen.members}
        self._close(chosen)
        before = self._removed
        for id in intervals:
            self._forget(id)
        self._removed = min(self._removed, before + 1)  # τ falls by one at most
        self._after_update()
        return intervals

    def add_group(self, intervals: dict[int, tuple[float, float]]) -> None:
        """Add new intervals that share a point, as one update."""
        self._ends.update(intervals)
        low, high = max(low for low, _ in intervals.values()), min(high for _, high in intervals.values())
        self._join(low, high, set(intervals))
        for id, (own_low, own_high) in intervals.items():
            if self._witness(id, own_low, own_high):
                break  # the others meet it
        self._after_update()

    def largest(self) -> int:
        """Return the number of the largest group, of several the lowest; −1 where there is none."""
        sizes = self._sizes
        while sizes:
            size, number = sizes[0]
            group = self._groups.get(number)
            if group is not None and len(group.members) == -size:
                return number
            heappop(sizes)
        return -1

    def group_size(self, group: int) -> int:
        """Return the number of intervals of a group."""
        return len(self._numbered(group).members)

    # -- groups --

    def _group_with(self, id: int) -> StabbingGroup:
        group = self._group.get(id)
        if group is None:
            raise ValueError(f"id must be there, got {id!r}, which is not")
        return group

    def _numbered(self, number: int) -> StabbingGroup:
        group = self._groups.get(number)
        if group is None:
            raise ValueError(f"group must be one of the {len(self)} there are, got {number}")
        return group

    def _join(self, low: float, high: float, members: set[int]) -> int:
        group = self._meeting(low, high)
        if group is None:
            group = self._open(low, high, members)
        else:
            group.members |= members
            if self.placement == "intersections":
                self._narrow(group, max(group.low, low), min(group.high, high))
        for id in members:
            self._group[id] = group
        heappush(self._sizes, (-len(group.members), group.number))
        if len(self._sizes) > 4 * len(self._groups) + 64:
            self._sizes = [(-len(group.members), number) for number, group in self._groups.items()]
            heapify(self._sizes)
        return group.number

    def _meeting(self, low: float, high: float) -> StabbingGroup | None:
        """The largest group that [low, high] may join."""
        if self.placement == "simple":
            return None
        first = bisect_left(self._lows, low)
        if self.placement == "intersections" and first and self._sorted[first - 1].high >= low:
            first -= 1
        meeting = self._sorted[first : bisect_right(self._lows, high)]
        if len(meeting) < 2:
            return meeting[0] if meeting else None
        return max(meeting, key=lambda group: (len(group.members), -group.number))

    def _open(self, low: float, high: float, members: set[int]) -> StabbingGroup:
        group = StabbingGroup(self._next, low, high, members)
        if self.placement == "points":
            group.low = group.high = group.point
        self._next += 1
        self._groups[group.number] = group
        if self.placement != "simple":
            at = bisect_left(self._lows, group.low)
            self._lows.insert(at, group.low)
            self._sorted.insert(at, group)
        return group

    def _narrow(self, group: StabbingGroup, low: float, high: float) -> None:
        if low != group.low:
            self._lows[bisect_left(self._lows, group.low)] = low  # intersections are disjoint: its place stays the same
        group.low, group.high = low, high

    def _close(self, group: StabbingGroup) -> None:
        del self._groups[group.number]
        if self.placement != "simple":
            at = bisect_left(self._lows, group.low)
            del self._lows[at], self._sorted[at]

    # -- when to rebuild --

    def _witness(self, id: int, low: float, high: float) -> bool:
        """Make the interval a witness if it meets none; returns whether it is one."""
        if self.trigger != "witness":
            return False
        at = bisect_left(self._witness_lows, low)
        if at < len(self._witnesses) and self._witness_lows[at] <= high:
            return False
        if at and self._ends[self._witnesses[at - 1]][1] >= low:
            return False
        self._witness_lows.insert(at, low)
        self._witnesses.insert(at, id)
        return True

    def _forget(self, id: int) -> None:
        low, _ = self._ends.pop(id)
        del self._group[id]
        if self.trigger == "relaxed" and id in self._remaining:
            self._remaining.discard(id)
            self._removed += 1
        if self.trigger == "witness":
            at = bisect_left(self._witness_lows, low)
            if at < len(self._witnesses) and self._witnesses[at] == id:
                del self._witness_lows[at], self._witnesses[at]

    def _after_update(self) -> None:
        self._updates += 1
        if self.trigger == "witness":
            due = len(self) > (1 + self.epsilon) * len(self._witnesses)
        elif self.trigger == "relaxed":
            due = len(self) > (1 + self.epsilon) * (self._tau - self._removed)
        else:
            due = self._updates > self.epsilon * self._tau / (self.epsilon + 2)  # Lemma 12
        if due:
            self._rebuild()

    def _reset_trigger(self) -> None:
        self._updates = self._removed = 0
        self._tau = len(self._groups)
        self._remaining = set(self._ends) if self.trigger == "relaxed" else set()

    def _rebuild(self) -> None:
        """Make the canonical partition; groups are numbered from left to right."""
        ids, low, high = self._arrays()
        parts = canonical(low, high)
        ordered, cuts = ids[parts.order].tolist(), parts.starts.tolist()
        whole = list(zip(parts.low.tolist(), parts.high.tolist(), strict=True))
        self._groups, self._lows, self._sorted, self._next = {}, [], [], 0
        for number, (start, stop) in enumerate(pairwise(cuts)):
            group = self._open(*whole[number], set(ordered[start:stop]))
            self._group.update(dict.fromkeys(group.members, group))
        self._sizes = [(-len(group.members), number) for number, group in self._groups.items()]
        heapify(self._sizes)
        if self.trigger == "witness":
            self._witness_lows = low[parts.witness].tolist()
            self._witnesses = ids[parts.witness].tolist()
        self.rebuilds += 1
        self._reset_trigger()

    def _arrays(self) -> tuple[Integers, Floats, Floats]:
        ids = np.fromiter(self._ends, np.int64, len(self._ends))
        ends = np.array(list(self._ends.values()), np.float64).reshape(len(ids), 2)
        return ids, ends[:, 0].copy(), ends[:, 1].copy()

    def intervals(self) -> Iterable[tuple[int, tuple[float, float]]]:
        """Return every interval: (id, (low, high))."""
        return self._ends.items()
