"""Defines what a table needs of its index, and three indexes: blocks, and the tree and the scan of [DISS]."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

import numpy as np

from tolerant.notifications import plain_search
from tolerant.notifications.a2b_tree import A2BTree
from tolerant.notifications.block_search import left_end, lowest_at, lowest_in, lowest_in_each, right_end
from tolerant.notifications.pair_blocks import USED, blank, loaded, pairs, resized
from tolerant.notifications.range_arguments import Floats, Integers
from tolerant.notifications.row_changes import DIFFICULT, EASY, IGNORABLE, change, change_many
from tolerant.notifications.scan import Scan

FEWEST = 4
"""Blocks of an empty index."""


class TableIndex(Protocol):
    """An index of all rows of a table; heights are minimised, and +∞ means that a row is absent."""

    def change(self, x_o: float, y_o: float, x_n: float, y_n: float) -> tuple[list[list[float]], int]:
        """Apply a change; return its messages and its class."""

    def change_many(
        self, slots: Integers, xs: Floats, ys: Floats, row_x: Floats, row_y: Floats, counts: Integers
    ) -> tuple[Integers, Floats]:
        """Apply changes in order, write rows and the number of each class; return the change of each message, and the
        messages."""

    def affected_range(self, x: float, y: float) -> tuple[float, float] | None:
        """Return Mar(x, y)."""

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest height in a closed range."""

    def minima(self, x1s: Floats, x2s: Floats) -> Floats:
        """Return `minimum` of many ranges."""

    def pairs(self) -> tuple[Floats, Floats]:
        """Return all pairs sorted by x, then y."""

    def load(self, xs: Floats, ys: Floats) -> None:
        """Replace the contents by these pairs, which are sorted."""


class BlocksIndex:
    """The default: `pair_blocks.py`, compiled."""

    def __init__(self) -> None:
        self.blocks = blank(FEWEST)

    def change(self, x_o: float, y_o: float, x_n: float, y_n: float) -> tuple[list[list[float]], int]:
        """Apply a change; return its messages and its class."""
        self._make_room()
        lines, n, kind = change(self.blocks, x_o, y_o, x_n, y_n, np.empty((4, 5)), 0)
        return lines[:n].tolist(), kind

    def change_many(
        self, slots: Integers, xs: Floats, ys: Floats, row_x: Floats, row_y: Floats, counts: Integers
    ) -> tuple[Integers, Floats]:
        """Apply changes in order."""
        out, change_of = np.empty((2 * len(slots) + 8, 5)), np.empty(2 * len(slots) + 8, np.int64)
        done = n = 0
        while done < len(slots):
            self._make_room()
            done, out, change_of, n = change_many(
                self.blocks, done, slots, xs, ys, row_x, row_y, counts, out, change_of, n
            )  # fmt: skip
        return change_of[:n].copy(), out[:n]

    def affected_range(self, x: float, y: float) -> tuple[float, float] | None:
        """Return Mar(x, y)."""
        if lowest_at(self.blocks, x) <= y:
            return None
        return left_end(self.blocks, x, y), right_end(self.blocks, x, y)

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest height in a closed range."""
        return lowest_in(self.blocks, x1, x2)

    def minima(self, x1s: Floats, x2s: Floats) -> Floats:
        """Return `minimum` of many ranges."""
        return lowest_in_each(self.blocks, x1s, x2s)

    def pairs(self) -> tuple[Floats, Floats]:
        """Return all pairs sorted by x, then y."""
        return pairs(self.blocks)

    def load(self, xs: Floats, ys: Floats) -> None:
        """Replace the contents by these pairs, which are sorted."""
        self.blocks = loaded(xs, ys)

    def _make_room(self) -> None:
        """Keep a block free; release memory when most of it is unused."""
        used, there = int(self.blocks.sizes[USED]), len(self.blocks.order)
        if used == there:
            self.blocks = resized(self.blocks, there + there // 4 + FEWEST)
        elif there > 64 and used < there // 4:
            self.blocks = resized(self.blocks, used + used // 4 + FEWEST)


class PlainIndex:
    """The algorithm in plain Python over an index of pairs: the tree or the scan of [DISS]."""

    def __init__(self, make: Callable[[list[plain_search.Point]], plain_search.Index]) -> None:
        self._make = make
        self._index = make([])

    def change(self, x_o: float, y_o: float, x_n: float, y_n: float) -> tuple[list[list[float]], int]:
        """Apply a change; return its messages and its class."""
        lines = plain_search.change(self._index, x_o, y_o, x_n, y_n)
        easy = EASY if len(lines) == 1 and lines[0][0] == y_n else DIFFICULT
        return [list(line) for line in lines], easy if lines else IGNORABLE

    def change_many(
        self, slots: Integers, xs: Floats, ys: Floats, row_x: Floats, row_y: Floats, counts: Integers
    ) -> tuple[Integers, Floats]:
        """Apply changes in order."""
        change_of: list[int] = []
        out: list[list[float]] = []
        for i, (slot, x, y) in enumerate(zip(slots.tolist(), xs.tolist(), ys.tolist(), strict=True)):
            height = y if y == y else inf
            lines, kind = self.change(float(row_x[slot]), float(row_y[slot]), x, height)
            row_x[slot], row_y[slot] = x, height
            counts[kind] += 1
            change_of += [i] * len(lines)
            out += lines
        return np.array(change_of, np.int64), np.array(out, np.float64).reshape(-1, 5)

    def affected_range(self, x: float, y: float) -> tuple[float, float] | None:
        """Return Mar(x, y)."""
        return plain_search.affected_range(self._index, x, y)

    def minimum(self, x1: float, x2: float) -> float:
        """Return the smallest height in a closed range."""
        return self._index.minimum(x1, x2)

    def minima(self, x1s: Floats, x2s: Floats) -> Floats:
        """Return `minimum` of many ranges."""
        return np.array([self.minimum(x1, x2) for x1, x2 in zip(x1s.tolist(), x2s.tolist(), strict=True)], np.float64)

    def pairs(self) -> tuple[Floats, Floats]:
        """Return all pairs sorted by x, then y."""
        both = np.array(list(self._index.pairs()), np.float64).reshape(-1, 2)
        return both[:, 0].copy(), both[:, 1].copy()

    def load(self, xs: Floats, ys: Floats) -> None:
        """Replace the contents by these pairs, which are sorted."""
        self._index = self._make(list(zip(xs.tolist(), ys.tolist(), strict=True)))


INDEXES: dict[str, Callable[[], TableIndex]] = {
    "blocks": BlocksIndex,
    "a2b": lambda: PlainIndex(A2BTree),
    "scan": lambda: PlainIndex(Scan),
}
