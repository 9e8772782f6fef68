"""Which values occur in a range: a change says who gained a value and who lost one (§2.9, seed 5.4)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable
from math import inf
from typing import Any, Self

from tolerant.notifications.arguments import finite, interval
from tolerant.notifications.message import Message


class RangeDistinct:
    """The set of values of the rows with x in a range.

    A change tells each affected subscriber once for each value that came (`gone` is False) or went.

    >>> colours = RangeDistinct.of([("a", 1, "red"), ("b", 4, "blue")])
    >>> colours.insert("c", 6, "red")
    [Message(value='red', inner_low=6.0, inner_high=6.0, outer_low=1.0, outer_high=inf, gone=False)]
    >>> sorted(colours.distinct(2, 9))
    ['blue', 'red']
    """

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[float, Hashable]] = {}
        self._places: dict[Hashable, list[float]] = {}

    @classmethod
    def of(cls, rows: Iterable[tuple[Hashable, float, Hashable]]) -> Self:
        """A table that holds these rows (id, x, value) already; nobody is told."""
        table = cls()
        for id, x, value in rows:
            table._add(table._new(id), finite("x", x), _value(value))
        return table

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._rows

    def rows(self) -> list[tuple[Hashable, float, Hashable]]:
        """All rows: id, x, value."""
        return [(id, x, value) for id, (x, value) in self._rows.items()]

    def insert(self, id: Hashable, x: float, value: Hashable) -> list[Message]:
        """Add a row; at most one message.

        Raises:
            ValueError: the id is there already, x is not finite, or the value is NaN.
        """
        place, value = finite("x", x), _value(value)
        messages = self._said(value, place, gone=False)
        self._add(self._new(id), place, value)
        return messages

    def delete(self, id: Hashable) -> list[Message]:
        """Take a row out; at most one message."""
        place, value = self._take(self._known(id))
        return self._said(value, place, gone=True)

    def update(self, id: Hashable, x: float, value: Hashable) -> list[Message]:
        """Give a row another place, value, or both; at most two messages, what is gone first."""
        place, value = finite("x", x), _value(value)
        if self._rows[self._known(id)] == (place, value):
            return []
        old_place, old_value = self._take(id)
        # Who sees both places of a row that keeps its value has it before and after.
        gone = self._said(old_value, old_place, gone=True, wall=place if value == old_value else None)
        came = self._said(value, place, gone=False, wall=old_place if value == old_value else None)
        self._add(id, place, value)
        return gone + came

    def distinct(self, x1: float, x2: float) -> set[Any]:
        """The answer of the subscription [x1, x2]; an end may be infinite."""
        low, high = interval("x1", x1, "x2", x2)
        return {
            value
            for value, places in self._places.items()
            if (at := bisect_left(places, low)) < len(places) and places[at] <= high
        }

    def _said(self, value: Hashable, x: float, gone: bool, wall: float | None = None) -> list[Message]:
        """The message that `value` came or went at x, where no row in the index is that of the change."""
        places = self._places.get(value, [])
        before, behind = bisect_left(places, x), bisect_right(places, x)
        if before < behind:
            return []
        low = places[before - 1] if before else -inf
        high = places[behind] if behind < len(places) else inf
        if wall is not None:
            low, high = (max(low, wall), high) if wall < x else (low, min(high, wall) if wall > x else high)
        return [Message(value, x, x, low, high, gone)]

    def _add(self, id: Hashable, x: float, value: Hashable) -> None:
        self._rows[id] = x, value
        insort(self._places.setdefault(value, []), x)

    def _take(self, id: Hashable) -> tuple[float, Hashable]:
        x, value = self._rows.pop(id)
        places = self._places[value]
        del places[bisect_left(places, x)]
        if not places:
            del self._places[value]
        return x, value

    def _new(self, id: Hashable) -> Hashable:
        if id in self._rows:
            raise ValueError(f"id must be new, got {id!r}, which is there; update it instead?")
        return id

    def _known(self, id: Hashable) -> Hashable:
        if id not in self._rows:
            raise ValueError(f"id must be that of a row, got {id!r}; insert it first?")
        return id


def _value(value: Hashable) -> Hashable:
    if value != value:
        raise ValueError("value must equal itself, got NaN")
    return value
