"""What really happened in a simulation, in event time: every item's value and filter, and when its source was dead."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tolerant.edge.filter_array import FilterState

T = TypeVar("T")


class Timeline(Generic[T]):
    """A value that changes at moments; None: there is none.

    >>> line = Timeline[float]()
    >>> line.set(10, 1.5); line.set(20, 2.5)
    >>> line.at(9), line.at(10), line.at(25)
    (None, 1.5, 2.5)
    """

    def __init__(self) -> None:
        self.moments: list[int] = []
        self._values: list[T | None] = []

    def set(self, at: int, value: T | None) -> None:
        """From `at` on it is this, whatever was said of later moments before."""
        cut = bisect_left(self.moments, at)
        del self.moments[cut:], self._values[cut:]
        self.moments.append(at)
        self._values.append(value)

    def at(self, moment: int) -> T | None:
        """What it is at a moment."""
        index = bisect_right(self.moments, moment) - 1
        return self._values[index] if index >= 0 else None


@dataclass
class Span:
    """Moments after `start` and before `end`."""

    start: int
    end: int

    def has(self, moment: int) -> bool:
        """Whether the moment lies strictly inside."""
        return self.start < moment < self.end


FOREVER = 2**62


@dataclass
class ItemTruth:
    """One item: its value, its filter at the source, and the spans in which its source was dead."""

    values: Timeline[float] = field(default_factory=Timeline)
    filters: Timeline[FilterState] = field(default_factory=Timeline)
    dead: list[Span] = field(default_factory=list)

    def end_at(self, through: int) -> None:
        """The source died; what it had offered after `through` never arrived."""
        if not (self.dead and self.dead[-1].end == FOREVER):
            self.dead.append(Span(through, FOREVER))

    def resume_at(self, at: int) -> None:
        """The source said hello for the item at `at`."""
        if self.dead and self.dead[-1].end == FOREVER:
            self.dead[-1].end = at

    def known_until(self, moment: int) -> int:
        """The moment that counts for `moment`: while its source is dead, an item is what it was at the last `through`
        that the log has accepted. What was set after that, and never reached the log, is nobody's promise.
        """
        return next((span.start for span in self.dead if span.has(moment)), moment)


class Truth:
    """The truth about all items, by key text."""

    def __init__(self) -> None:
        self.items: dict[str, ItemTruth] = {}

    def of(self, key: str) -> ItemTruth:
        """The truth about an item, from its first mention on."""
        return self.items.setdefault(key, ItemTruth())
