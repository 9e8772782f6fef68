"""Maintains which values occur in a range: a change yields who gained and who lost a value (§2.9, [DISS] 5.4)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable, Iterable
from math import inf
from typing import Any, Self

from tolerant.notifications.message import Message
from tolerant.notifications.range_arguments import finite, interval


class RangeDistinct:
    """The set of values of the rows with x in a range.

    A change sends each affected subscriber one message per value that entered (`gone` is False) or left.

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
        """Return a table with these rows (id, x, value); no messages are made."""
        table = cls()
        for id, x, value in rows:
            table._add(table._new(id), finite("x", x), _value(value))
        return table

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._rows

    def rows(self) -> list[tuple[Hashable, float, Hashable]]:
        """Return all rows: id, x, value."""
        return [(id, x, value) for id, (x, value) in self._rows.items()]

    def insert(self, id: Hashable, x: float, value: Hashable) -> list[Message]:
        """Add a row; return at most one message.

        Raises:
            ValueError: the id exists already, x is not finite, or the value is NaN.
        """
        place, value = finite("x", x), _value(value)
        messages = self._message(value, place, gone=False)
        self._add(self._new(id), place, value)
        return messages

    def delete(self, id: Hashable) -> list[Message]:
        """Remove a row; return at most one message."""
        place, value = self._pop(self._known(id))
        return self._message(value, place, gone=True)

    def update(self, id: Hashable, x: float, value: Hashable) -> list[Message]:
        """Set a row's place, value, or both; return at most two messages, the removal first."""
        place, value = finite("x", x), _value(value)
        if self._rows[self._known(id)] == (place, value):
            return []
        old_place, old_value = self._pop(id)
        # A range with both places of a row that keeps its value has the value before and after.
        gone = self._message(old_value, old_place, gone=True, wall=place if value == old_value else None)
        came = self._message(value, place, gone=False, wall=old_place if value == old_value else None)
        self._add(id, place, value)
        return gone + came

    def distinct(self, x1: float, x2: float) -> set[Any]:
        """Return the answer of the subscription [x1, x2]; an end may be infinite."""
        low, high = interval("x1", x1, "x2", x2)
        return {
            value
            for value, places in self._places.items()
            if (at := bisect_left(places, low)) < len(places) and places[at] <= high
        }

    def _message(self, value: Hashable, x: float, gone: bool, wall: float | None = None) -> list[Message]:
        """Return the message that `value` entered or left at x; the index does not contain the changed row."""
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

    def _pop(self, id: Hashable) -> tuple[float, Hashable]:
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
