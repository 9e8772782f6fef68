"""What a shard has counted, for `tolerant status`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tolerant.pipeline.intake import KINDS


@dataclass
class Counters:
    """Rows by kind, what went wrong with rows, what was said; and, by query, time lost to late rows (microseconds)."""

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
        """Rows were applied; how many there were of each kind."""
        for name, number in zip(KINDS, kinds, strict=False):
            setattr(self, name, getattr(self, name) + int(number))

    def count_late(self, source: str, rows: int, delay: int) -> None:
        """Rows of a source came late, one of them by `delay` microseconds."""
        count, longest = self.late_sources.get(source, (0, 0))
        self.late_sources[source] = [count + rows, max(longest, delay)]

    def lose(self, query: str, begin: int, end: int) -> None:
        """A query was without a row from `begin` to `end`; spans that overlap count once."""
        begin = max(begin, self.lost_until.get(query, begin))
        self.lost[query] = self.lost.get(query, 0) + max(end - begin, 0)
        self.lost_until[query] = end

    def forget(self, query: str) -> None:
        """A query is no more."""
        self.lost.pop(query, None)
        self.lost_until.pop(query, None)

    def numbers(self) -> dict[str, int]:
        """All plain counts, by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}
