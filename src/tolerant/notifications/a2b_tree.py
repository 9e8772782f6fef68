"""Implements the augmented two-tier B-tree of [DISS] (5.3.1; its pseudocode is corrected as §2.7 of the design says).

Upper tier: a B-tree on x whose entries carry the smallest y below them. Lower tier: the rows at one x, sorted by y,
embedded in the leaf's entry.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import inf
from operator import itemgetter

from tolerant.notifications.plain_search import Point


class _Node:
    """A leaf (`rows`: heights by place) or an inner node (`children`); `keys`: the smallest x of each entry."""

    def __init__(self, keys: list[float], rows: list[list[float]], children: list[_Node]) -> None:
        self.keys, self.rows, self.children = keys, rows, children
        self.minima: list[float] = [heights[0] for heights in rows] or [
            min(child.minima, default=inf) for child in children
        ]

    def __len__(self) -> int:
        return len(self.keys)

    def refresh(self, at: int) -> bool:
        """Copy a child's key and minimum from the child; return whether the minimum changed."""
        child = self.children[at]
        old, self.minima[at] = self.minima[at], min(child.minima)
        self.keys[at] = child.keys[0]
        return old != self.minima[at]

    def cut(self) -> _Node:
        """Keep the lower half of the entries; return a node with the upper half."""
        half = len(self) // 2
        other = _Node(self.keys[half:], self.rows[half:], self.children[half:])
        del self.keys[half:], self.rows[half:], self.children[half:], self.minima[half:]
        return other

    def absorb(self, other: _Node) -> None:
        """Append all entries of the next node."""
        self.keys += other.keys
        self.rows += other.rows
        self.children += other.children
        self.minima += other.minima


class A2BTree:
    """Pairs (x, y) in a B-tree of `fan_out` entries per node; every operation visits O(log n) nodes.

    >>> tree = A2BTree([(100, 8), (101, 4), (103, 7), (109, 6), (110, 12), (112, 1)], fan_out=4)
    >>> tree.find_right(102, 3)
    (112, 1)
    """

    def __init__(self, pairs: Iterable[Point] = (), fan_out: int = 32) -> None:
        if fan_out < 4:
            raise ValueError(f"fan_out must be at least 4, got {fan_out}")
        self.fan_out = fan_out
        self._fewest = max(2, fan_out // 4)  # a node with fewer entries is merged with its neighbour
        groups = [(x, [y for _, y in group]) for x, group in groupby(sorted(pairs), key=itemgetter(0))]
        level = [
            _Node([x for x, _ in part], [heights for _, heights in part], [])
            for part in (groups[i : i + fan_out] for i in range(0, len(groups), fan_out))
        ]
        while len(level) > 1:
            parts = [level[i : i + fan_out] for i in range(0, len(level), fan_out)]
            level = [_Node([child.keys[0] for child in part], [], part) for part in parts]
        self._root = level[0] if level else _Node([], [], [])

    def insert(self, x: float, y: float) -> None:
        """Add a pair."""
        other = self._insert(self._root, x, y)
        if other is not None:
            self._root = _Node([self._root.keys[0], other.keys[0]], [], [self._root, other])

    def _insert(self, node: _Node, x: float, y: float) -> _Node | None:
        """Add below `node`; return the node that was split off, if any."""
        if node.children:
            at = max(bisect_right(node.keys, x) - 1, 0)
            other = self._insert(node.children[at], x, y)
            node.refresh(at)
            if other is not None:
                node.keys.insert(at + 1, other.keys[0])
                node.minima.insert(at + 1, min(other.minima))
                node.children.insert(at + 1, other)
        else:
            at = bisect_left(node.keys, x)
            if at < len(node) and node.keys[at] == x:
                insort(node.rows[at], y)
                node.minima[at] = node.rows[at][0]
            else:
                node.keys.insert(at, x)
                node.rows.insert(at, [y])
                node.minima.insert(at, y)
        return node.cut() if len(node) > self.fan_out else None

    def remove(self, x: float, y: float) -> None:
        """Remove one pair, which must be present."""
        self._remove(self._root, x, y)
        if len(self._root.children) == 1:
            self._root = self._root.children[0]

    def _remove(self, node: _Node, x: float, y: float) -> bool:
        """Remove below `node`; return whether an ancestor's key, minimum or entries may have to change."""
        if not node.children:
            at = bisect_left(node.keys, x)
            heights = node.rows[at]
            lowest = heights[0]
            del heights[bisect_left(heights, y)]
            if heights:
                node.minima[at] = heights[0]
                return lowest != heights[0]
            del node.keys[at], node.rows[at], node.minima[at]
            return True
        at = max(bisect_right(node.keys, x) - 1, 0)
        if not self._remove(node.children[at], x, y):
            return False
        if len(node.children[at]) < self._fewest:
            self._join(node, at)
            return True
        key = node.keys[at]
        return node.refresh(at) or key != node.keys[at]

    def _join(self, node: _Node, at: int) -> None:
        """Merge a child that has few entries with a neighbour; split the result if it is too large."""
        if len(node) == 1:
            if len(node.children[0]):
                node.refresh(0)
            else:  # the node above merges an empty child with its neighbour
                node.keys, node.children, node.minima = [], [], []
            return
        at = min(at, len(node) - 2)
        child = node.children[at]
        child.absorb(node.children.pop(at + 1))
        del node.keys[at + 1], node.minima[at + 1]
        if len(child) > self.fan_out:
            other = child.cut()
            node.children.insert(at + 1, other)
            node.keys.insert(at + 1, other.keys[0])
            node.minima.insert(at + 1, min(other.minima))
        node.refresh(at)

    def lowest_at(self, x: float) -> float:
        """Return the smallest y at x, +∞ if there is none."""
        node = self._root
        while node.children:
            node = node.children[max(bisect_right(node.keys, x) - 1, 0)]
        at = bisect_left(node.keys, x)
        return node.minima[at] if at < len(node) and node.keys[at] == x else inf

    def find_right(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place right of x with a height ≤ y (< y if strict), and the smallest height there."""
        return self._find_right(self._root, x, y, strict)

    def _find_right(self, node: _Node, x: float, y: float, strict: bool) -> Point | None:
        begin = bisect_right(node.keys, x)
        if node.children and begin > 0 and _low_enough(node.minima[begin - 1], y, strict):
            nearest = self._find_right(node.children[begin - 1], x, y, strict)
            if nearest is not None:
                return nearest
        for at in range(begin, len(node)):
            if _low_enough(node.minima[at], y, strict):
                if node.children:
                    return self._find_right(node.children[at], -inf, y, strict)
                return node.keys[at], node.minima[at]
        return None

    def find_left(self, x: float, y: float, strict: bool = False) -> Point | None:
        """Return the nearest place left of x with a height ≤ y (< y if strict), and the smallest height there."""
        return self._find_left(self._root, x, y, strict)

    def _find_left(self, node: _Node, x: float, y: float, strict: bool) -> Point | None:
        for at in range(bisect_left(node.keys, x) - 1, -1, -1):
            if _low_enough(node.minima[at], y, strict):
                if not node.children:
                    return node.keys[at], node.minima[at]
                nearest = self._find_left(node.children[at], x, y, strict)
                if nearest is not None:
                    return nearest
        return None

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest y with x1 ≤ x ≤ x2, +∞ if there is none."""
        return self._minimum(self._root, x1, x2, inf)

    def _minimum(self, node: _Node, x1: float, x2: float, end: float) -> float:
        lowest = inf
        for at, key in enumerate(node.keys):
            behind = node.keys[at + 1] if at + 1 < len(node) else end
            if key > x2 or (node.children and behind <= x1):
                continue
            if x1 <= key and (not node.children or behind <= x2):
                lowest = min(lowest, node.minima[at])
            elif node.children:
                lowest = min(lowest, self._minimum(node.children[at], x1, x2, behind))
        return lowest

    def pairs(self) -> Iterator[Point]:
        """Return all pairs, sorted."""
        return self._pairs(self._root)

    def _pairs(self, node: _Node) -> Iterator[Point]:
        for child in node.children:
            yield from self._pairs(child)
        for x, heights in zip(node.keys, node.rows, strict=False):
            for y in heights:
                yield x, y


def _low_enough(minimum: float, y: float, strict: bool) -> bool:
    return minimum < y or (minimum == y and not strict)
