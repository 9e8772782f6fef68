"""Implements range-min and range-max tables: each change of a row yields the changed answers as messages."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import starmap
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.notifications.identifiers import Identifiers, id_array, listed
from tolerant.notifications.indexes import INDEXES
from tolerant.notifications.message import Message, Messages
from tolerant.notifications.net_changes import merged, net_messages
from tolerant.notifications.range_arguments import Floats, finite, floats, interval, intervals, one_of, refuse

_CLASSES = ("ignorable", "easy", "difficult")
_NOT_THERE = np.inf
_SMALLEST = 16


@dataclass(frozen=True)
class ChangeCounters:
    """The number of changes of each class, and of messages in all. Batches applied with `net` are not counted."""

    ignorable: int
    easy: int
    difficult: int
    messages: int


class _Table:
    """Shared by both tables. Inside, heights are minimised: those of a maximum are negated."""

    _sign: ClassVar[float]

    def __init__(self, index: str = "blocks") -> None:
        self._index = INDEXES[one_of("index", index, tuple(INDEXES))]()
        self._index_name = index
        self._known = Identifiers()
        self._x = np.zeros(_SMALLEST)
        self._y = np.full(_SMALLEST, _NOT_THERE)
        self._counts = np.zeros(3, np.int64)
        self._messages = 0

    @classmethod
    def of(cls, ids: Any, xs: Any, ys: Any, index: str = "blocks") -> Self:
        """Return a table with these rows; no messages are made.

        Raises:
            ValueError: an id occurs twice, or a number is not finite.
        """
        table = cls(index)
        names = listed(ids)
        x, y = floats("xs", xs, len(names)), floats("ys", ys, len(names))
        refuse("xs", x, ~np.isfinite(x), "finite")
        refuse("ys", y, ~np.isfinite(y), "finite")
        table._known.load(names)
        table._x, table._y = x, cls._sign * y + 0.0
        order = np.lexsort((table._y, table._x)) if _any_twice(x) else np.argsort(x)
        table._index.load(table._x[order], table._y[order])
        return table

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, id: Hashable) -> bool:
        return self._known.slot(id) is not None

    @property
    def counters(self) -> ChangeCounters:
        """Return the classes of the changes so far."""
        ignorable, easy, difficult = self._counts.tolist()
        return ChangeCounters(ignorable, easy, difficult, self._messages)

    def rows(self) -> tuple[NDArray[Any], Floats, Floats]:
        """Return all rows: ids (int64, or objects where one is no such integer), xs, ys. `of` makes the same table of
        them.
        """
        ids, slots = self._known.all()
        return id_array(ids), self._x[slots], self._sign * self._y[slots] + 0.0

    def insert(self, id: Hashable, x: float, y: float) -> list[Message]:
        """Add a row; return the messages.

        Raises:
            ValueError: the id exists already, or a number is not finite.
        """
        place, height = finite("x", x), self._sign * finite("y", y) + 0.0
        if self._known.slot(id) is not None:
            raise ValueError(f"id must be new, got {id!r}, which is there; update it instead?")
        slot = self._known.add(id)
        self._make_room()
        return self._change(slot, place, height)

    def update(self, id: Hashable, x: float, y: float) -> list[Message]:
        """Set a row's place, height, or both; return the messages.

        Raises:
            ValueError: there is no such row, or a number is not finite.
        """
        place, height = finite("x", x), self._sign * finite("y", y) + 0.0
        return self._change(self._slot(id), place, height)

    def delete(self, id: Hashable) -> list[Message]:
        """Remove a row; return the messages.

        Raises:
            ValueError: there is no such row.
        """
        slot = self._slot(id)
        messages = self._change(slot, float(self._x[slot]), _NOT_THERE)
        self._known.remove(id)
        return messages

    def classify(self, id: Hashable, x: float, y: float) -> str:
        """Return the class of this update without applying it: "ignorable", "easy" or "difficult"."""
        place, height = finite("x", x), self._sign * finite("y", y) + 0.0
        slot = self._slot(id)
        old = float(self._x[slot]), float(self._y[slot])
        _, kind = self._index.change(*old, place, height)
        self._index.change(place, height, *old)
        return _CLASSES[kind]

    def apply(self, ids: Any, xs: Any, ys: Any, net: bool = False) -> Messages:
        """Apply many changes in this order: a new id inserts, a known one updates, NaN in `ys` deletes.

        With `net` the messages are those of the whole batch: at most one to a subscription, none to one whose answer is
        the same after it. `xs` is ignored where `ys` is NaN; deleting an unknown id does nothing.

        Raises:
            ValueError: a number is infinite, or NaN in `xs`; nothing is applied then.
        """
        names = listed(ids)
        x, y = floats("xs", xs, len(names)), floats("ys", ys, len(names))
        refuse("xs", x, ~np.isfinite(x) & ~np.isnan(y), "finite")
        refuse("ys", y, np.isinf(y), "a number, or NaN to delete")
        slots = self._known.slots_or_new(names)
        self._make_room()
        y = self._sign * y + 0.0
        change_of, lines = self._net(slots, x, y) if net else self._one_by_one(slots, x, y)
        self._forget(names, slots, y)
        self._messages += len(lines)
        lines[:, 0] = self._sign * lines[:, 0] + 0.0
        return Messages.of(change_of, lines)

    def affected_range(self, x: float, y: float) -> tuple[float, float] | None:
        """Return Mar(x, y) with respect to all rows: the largest open interval around x without a row as low as y.

        None if one is at x itself (Definition 7).
        """
        return self._index.affected_range(finite("x", x), self._sign * finite("y", y) + 0.0)

    def state(self) -> State:
        """Return the rows and the counts, for a snapshot. Ids must be integers or texts."""
        ids, xs, ys = self.rows()
        if ids.dtype == object and not all(isinstance(id, str) for id in ids):
            raise ValueError("ids must all be 64-bit integers or all be texts for a snapshot; use rows() otherwise")
        return State(ids=ids, xs=xs, ys=ys, counts=self._counts.copy(), messages=self._messages)

    @classmethod
    def load(cls, state: State, index: str = "blocks") -> Self:
        """Return the table whose `state` was taken; it continues exactly like it."""
        ids, xs, ys, counts, messages = state.exactly("ids", "xs", "ys", "counts", "messages")
        table = cls.of(ids, xs, ys, index)
        table._counts, table._messages = counts.copy(), messages
        return table

    def _best(self, x1: float, x2: float) -> float:
        return self._sign * self._index.minimum(*interval("x1", x1, "x2", x2)) + 0.0

    def _best_of_each(self, x1s: Any, x2s: Any) -> Floats:
        return self._sign * self._index.minima(*intervals(x1s, x2s)) + 0.0

    def _slot(self, id: Hashable) -> int:
        slot = self._known.slot(id)
        if slot is None:
            raise ValueError(f"id must be that of a row, got {id!r}; insert it first?")
        return slot

    def _change(self, slot: int, x: float, y: float) -> list[Message]:
        lines, kind = self._index.change(float(self._x[slot]), float(self._y[slot]), x, y)
        self._x[slot], self._y[slot] = x, y
        self._counts[kind] += 1
        self._messages += len(lines)
        if self._sign < 0:
            for line in lines:
                line[0] = 0.0 - line[0]
        return list(starmap(Message, lines))

    def _one_by_one(self, slots: NDArray[np.int64], x: Floats, y: Floats) -> tuple[NDArray[np.int64], Floats]:
        return self._index.change_many(slots, x, y, self._x, self._y, self._counts)

    def _net(self, slots: NDArray[np.int64], x: Floats, y: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Compare the tables before and after; the index is rebuilt, which costs no more than this pass
        over the table.
        """
        touched, backwards = np.unique(slots[::-1], return_index=True)
        last = len(slots) - 1 - backwards
        gone = touched[self._y[touched] != _NOT_THERE]
        stay = ~np.isnan(y[last])
        old_x, old_y = self._index.pairs()
        new_x, new_y = merged(
            old_x, old_y, *_sorted(self._x[gone], self._y[gone]), *_sorted(x[last[stay]], y[last[stay]])
        )  # fmt: skip
        lines = net_messages(old_x, old_y, new_x, new_y)
        self._index.load(new_x, new_y)
        self._x[touched], self._y[touched] = x[last], np.where(stay, y[last], _NOT_THERE)
        return np.full(len(lines), -1, np.int64), lines

    def _forget(self, names: list[Hashable], slots: NDArray[np.int64], y: Floats) -> None:
        """Remove the ids that a batch deleted."""
        for at in np.flatnonzero(np.isnan(y)).tolist():
            if self._y[slots[at]] == _NOT_THERE and self._known.slot(names[at]) is not None:
                self._known.remove(names[at])

    def _make_room(self) -> None:
        needed, there = self._known.room(), len(self._x)
        if needed > there:
            more = max(needed - there, there // 2)
            self._x = np.append(self._x, np.zeros(more))
            self._y = np.append(self._y, np.full(more, _NOT_THERE))


class RangeMin(_Table):
    """The smallest y among the rows with x in a range, for any number of ranges, which need not be known here.

    `index`: "blocks" (the default), "a2b" (the tree of [DISS]) or "scan": the same messages, another speed.

    >>> stocks = RangeMin.of(["a", "b", "c"], xs=[30, 50, 70], ys=[8, 5, 6])
    >>> for message in stocks.update("b", 50, 9):
    ...     print(message.value, message.affects(25, 60), message.affects(45, 80))
    9.0 False False
    8.0 True False
    6.0 False True
    >>> stocks.minimum(25, 60), stocks.minimum(45, 80)
    (8.0, 6.0)
    """

    _sign = 1.0

    def minimum(self, x1: float, x2: float) -> float:
        """Return the answer of the subscription [x1, x2]: +∞ where there is no row. An end may be infinite.

        Raises:
            ValueError: x1 > x2, or one of them is NaN.
        """
        return self._best(x1, x2)

    def minima(self, x1s: Any, x2s: Any) -> Floats:
        """Return `minimum` of many ranges at once, float64[n]."""
        return self._best_of_each(x1s, x2s)


class RangeMax(_Table):
    """The largest y among the rows with x in a range: as `RangeMin`, mirrored; −∞ where there is no row.

    >>> peaks = RangeMax.of(["a", "b"], xs=[1, 2], ys=[4, 7])
    >>> peaks.delete("b")[0].value, peaks.maximum(0, 9)
    (-inf, 4.0)
    """

    _sign = -1.0

    def maximum(self, x1: float, x2: float) -> float:
        """Return the answer of the subscription [x1, x2]: −∞ where there is no row. An end may be infinite."""
        return self._best(x1, x2)

    def maxima(self, x1s: Any, x2s: Any) -> Floats:
        """Return `maximum` of many ranges at once, float64[n]."""
        return self._best_of_each(x1s, x2s)


def _sorted(xs: Floats, ys: Floats) -> tuple[Floats, Floats]:
    order = np.lexsort((ys, xs))
    return xs[order], ys[order]


def _any_twice(xs: Floats) -> bool:
    inorder = np.sort(xs)
    return bool((inorder[1:] == inorder[:-1]).any())
