"""Counters of a shard, for `tolerant status`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tolerant.kernels.snapshots import State
from tolerant.pipeline.intake import KINDS


@dataclass
class Counters:
    """Rows by kind, unusable rows, rows written; and, by query, the time without late rows (microseconds)."""

    update: int = 0
    hello: int = 0
    heartbeat: int = 0
    ack: int = 0
    gone: int = 0
    form_request: int = 0
    late: int = 0
    duplicates: int = 0
    dead: int = 0
    grants: int = 0
    forms: int = 0
    bytes: int = 0
    boundaries: int = 0
    readings: int = 0  # of items that queries need, at one per tick
    lost: dict[str, int] = field(default_factory=dict)
    lost_until: dict[str, int] = field(default_factory=dict)
    late_sources: dict[str, list[int]] = field(default_factory=dict)  # source: late rows, longest delay in microseconds

    def count(self, kinds: Iterable[int]) -> None:
        """Adds applied rows: the number of each kind."""
        for name, number in zip(KINDS, kinds, strict=False):
            self.add(name, int(number))

    def add(self, name: str, number: int) -> None:
        """Add to a plain count."""
        setattr(self, name, getattr(self, name) + number)

    def count_late(self, source: str, rows: int, delay: int) -> None:
        """Adds late rows of a source; `delay`: the longest, microseconds."""
        count, longest = self.late_sources.get(source, (0, 0))
        self.late_sources[source] = [count + rows, max(longest, delay)]

    def lose(self, query: str, begin: int, end: int) -> None:
        """Adds the time from `begin` to `end` in which a query was computed without a late row; overlaps count once."""
        begin = max(begin, self.lost_until.get(query, begin))
        self.lost[query] = self.lost.get(query, 0) + max(end - begin, 0)
        self.lost_until[query] = end

    def forget(self, query: str) -> None:
        """Removes the times of a query that was dropped."""
        self.lost.pop(query, None)
        self.lost_until.pop(query, None)

    def numbers(self) -> dict[str, int]:
        """All plain counts, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}

    def state(self) -> State:
        """All counters, for a snapshot."""
        return State(vars(self))

    def load(self, state: State) -> None:
        """Restores what `state` returned."""
        vars(self).update(zip(vars(self), state.exactly(*vars(self)), strict=True))
