"""Items that two sources claim. An item belongs to the source that said hello with it last; if the one before is still
heard, both may be setting it, and which of their values is the truth nobody can say. So the item is stale until a lease
has passed in which only its owner has said anything of it, and the other one is told (`transport.conflicts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tolerant.transport.conflicts import Conflict, conflict_body

DISPUTED = 1 << 40
"""As the epoch of an item's source: greater than every other, so that no row makes the item fresh."""


class Dispute(NamedTuple):
    """Who had the item, since when another has it, and until when it is disputed."""

    conflict: Conflict
    until: int


class Disputes:
    """The disputed items of a shard, by index, and the rows that say so."""

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self._open: dict[int, Dispute] = {}
        self._rows: list[tuple[str, int, bytes | None]] = []

    def __contains__(self, item: int) -> bool:
        return item in self._open

    def begin(self, item: int, conflict: Conflict, at: int) -> None:
        """A source has taken an item, or wants it, that another one has."""
        self._open[item] = Dispute(conflict, at + self._lease)
        self._rows.append((conflict.item, at, conflict_body(conflict)))

    def is_told(self, item: int, source: str) -> bool:
        """Whether the item is disputed and this source, which does not own it, is the one that is told so."""
        return item in self._open and self._open[item].conflict.other == source

    def prolong(self, item: int, at: int) -> None:
        """The other one has said something of the item."""
        self._open[item] = self._open[item]._replace(until=at + self._lease)

    def next_end(self) -> int | None:
        """When the first dispute is over, if nothing more is said."""
        return min((one.until + 1 for one in self._open.values()), default=None)

    def over(self, at: int) -> list[int]:
        """The items whose dispute is over by `at`."""
        return [item for item, one in self._open.items() if one.until < at]

    def end(self, items: Iterable[int], at: int) -> None:
        """These items are disputed no more."""
        for item in items:
            if item in self._open:
                self._rows.append((self._open.pop(item).conflict.item, at, None))

    def items(self) -> list[int]:
        """The items that are disputed now."""
        return list(self._open)

    def take(self) -> list[tuple[str, int, bytes | None]]:
        """The rows for the compacted topic since this was last asked."""
        rows, self._rows = self._rows, []
        return rows

    def state(self) -> Any:
        """Plain values, after `take`."""
        return [[item, list(one.conflict), one.until] for item, one in self._open.items()]

    def load(self, values: Any) -> None:
        """Become what `state` said."""
        self._open = {item: Dispute(Conflict(*conflict), until) for item, conflict, until in values}
