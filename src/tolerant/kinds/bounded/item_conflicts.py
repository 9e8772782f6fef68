"""Items that two sources claim.

An item belongs to the source that sent the last hello for it. If its former owner is still heard, both may be setting
it, and it is unknown which value is true: the item is stale until its owner alone has sent rows of it for a lease, and
the other source is told (`transport.conflicts`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tolerant.kernels.snapshots import State
from tolerant.transport.conflicts import Conflict, conflict_body

DISPUTED = 1 << 40
"""Greater than every epoch of a source: an item that is stale since this epoch stays stale whatever row comes."""


class _OpenConflict(NamedTuple):
    """A conflict and the last time at which the item is disputed."""

    conflict: Conflict
    until: int


class ItemConflicts:
    """The disputed items of a shard, by index, and the rows for `conflicts.<stream>`."""

    def __init__(self, lease: int) -> None:
        self._lease = lease
        self._open: dict[int, _OpenConflict] = {}
        self._rows: list[tuple[str, int, bytes | None]] = []

    def __contains__(self, item: int) -> bool:
        return item in self._open

    def begin(self, item: int, conflict: Conflict, at: int) -> None:
        """Starts the dispute of an item, or starts it again with another conflict."""
        self._open[item] = _OpenConflict(conflict, at + self._lease)
        self._rows.append((conflict.item, at, conflict_body(conflict)))

    def is_told(self, item: int, source: str) -> bool:
        """Whether the item is disputed and this source is the one that lost it."""
        return item in self._open and self._open[item].conflict.other == source

    def prolong(self, item: int, at: int) -> None:
        """Extends a dispute by a lease from `at`: the other source has sent a row of the item."""
        self._open[item] = self._open[item]._replace(until=at + self._lease)

    def next_end(self) -> int | None:
        """Returns when the first dispute is over unless it is prolonged."""
        return min((conflict.until + 1 for conflict in self._open.values()), default=None)

    def over(self, at: int) -> list[int]:
        """Returns the items whose dispute is over by `at`."""
        return [item for item, conflict in self._open.items() if conflict.until < at]

    def end(self, items: Iterable[int], at: int) -> None:
        """Ends the disputes of these items."""
        for item in items:
            if item in self._open:
                self._rows.append((self._open.pop(item).conflict.item, at, None))

    def items(self) -> list[int]:
        """Returns the disputed items."""
        return list(self._open)

    def take(self) -> list[tuple[str, int, bytes | None]]:
        """Returns the rows for the compacted topic since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def state(self) -> State:
        """The open conflicts, for a snapshot. Rows must have been taken before."""
        return State(open=[[item, list(conflict), until] for item, (conflict, until) in self._open.items()])

    def load(self, state: State) -> None:
        """Restores what `state` returned."""
        (conflicts,) = state.exactly("open")
        self._open = {item: _OpenConflict(Conflict(*conflict), until) for item, conflict, until in conflicts}
