"""The slow twin of `SourceCore`: one item at a time, plain floats, nothing clever: oracle of `test_source_core.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from tolerant.kernels.decay import decayed, periods_passed
from tolerant.kernels.versions import version
from tolerant.streams import StreamOptions
from tolerant.transport.rows import Grant


@dataclass
class Item:
    value: float
    centre: float
    grant: Grant | None = None
    pending: Grant | None = None

    def width(self, at: int, period: int) -> float:
        if self.grant is None:
            return 0.0
        if self.grant.width == float("inf"):
            return self.grant.width
        passed = periods_passed(at, period) - periods_passed(self.grant.since, period)
        return decayed(self.grant.width, self.grant.shrink, passed)

    @property
    def version(self) -> int:
        return self.grant.version if self.grant else 0


@dataclass
class Twin:
    options: StreamOptions
    epoch: int
    clock: int | None = None
    through: int = -1
    said: int = 0
    items: dict[str, Item] = field(default_factory=dict)
    newest: dict[str, Grant] = field(default_factory=dict)
    rows: list[tuple[str, str, int, int, float, int]] = field(default_factory=list)
    counter: int = 0

    def offer(self, pairs: list[tuple[str, float]], now: int) -> None:
        at = self._stamp(now)
        values = dict(pairs)
        starting = sorted(key for key in values if key not in self.items)
        for key in starting:
            self._hello(key, values[key], at)
        for key, value in values.items():
            if key not in starting:
                self.items[key].value = value
                self._apply(key, at)

    def remove(self, key: str, now: int) -> None:
        at = self._stamp(now)
        self._say("gone", key, at, self.items[key].value, self.items[key].version)
        del self.items[key]

    def grant(self, grants: list[Grant], now: int) -> None:
        at = None
        for grant in grants:
            if grant.item in self.newest and grant.version < self.newest[grant.item].version:
                continue
            self.newest[grant.item] = grant
            if grant.item in self.items:
                at = self._stamp(now) if at is None else at
                self.items[grant.item].pending = grant
        if at is not None:
            self._enforce(at)

    def advance(self, now: int) -> None:
        if self.clock is None or now > self.clock:
            self._reach(now)
        if self.items and self.clock > self.through and self.clock - self.said >= self.options.lease // 3:
            self._say("heartbeat", "", self.clock, 0.0, 0)

    def _hello(self, key: str, value: float, at: int) -> None:
        item = self.items[key] = Item(value, value)
        grant = self.newest.get(key)
        if grant is not None and grant.since <= at:
            item.grant = grant
        else:
            item.pending = grant
        self._say("hello", key, at, value, item.version)

    def _stamp(self, now: int) -> int:
        at = now
        if self.clock is not None and (now < self.clock or now <= self.through):
            at = self.clock + 1
        self._reach(at)
        return at

    def _reach(self, at: int) -> None:
        period = self.options.boundary
        if self.clock is None:
            self.clock = self.said = at
        while periods_passed(self.clock, period) < periods_passed(at, period):
            self.clock = (periods_passed(self.clock, period) + 1) * period + 1
            self._enforce(self.clock)
            for key in list(self.items):
                self._apply(key, self.clock)
        self.clock = at
        self._enforce(at)

    def _enforce(self, at: int) -> None:
        for key, item in self.items.items():
            if item.pending is not None and item.pending.since <= at:
                item.grant, item.pending = item.pending, None
                if item.grant.confirm:
                    item.centre = item.value
                    self._say("ack", key, at, item.value, item.version)
                else:
                    self._apply(key, at)

    def _apply(self, key: str, at: int) -> None:
        item = self.items[key]
        if abs(item.value - item.centre) > item.width(at, self.options.boundary) / 2:
            item.centre = item.value
            self._say("update", key, at, item.value, item.version)

    def _say(self, kind: str, key: str, at: int, value: float, grant: int) -> None:
        self.rows.append((kind, key, at, self.counter, value, grant))
        self.said = at

    def drain(self) -> list[tuple[str, str, int, float, int]]:
        """Rows without their numbers, in the canonical order of `canonical`."""
        if not self.rows and self._shrunk_unsaid():
            self._say("heartbeat", "", self.clock, 0.0, 0)
        rows, self.rows = self.rows, []
        if rows:
            self.through = self.clock if self.clock is not None else -1
        return canonical([(kind, key, at, value, grant) for kind, key, at, _, value, grant in rows])

    def _shrunk_unsaid(self) -> bool:
        """Whether a width has shrunk at a boundary after the last row, which the pipeline cannot know of the living."""
        if (
            self.clock is None
            or self.through > periods_passed(self.clock, self.options.boundary) * self.options.boundary
        ):
            return False
        widths = [(item.grant, item.width(self.clock, self.options.boundary)) for item in self.items.values()]
        return any(grant and grant.shrink > 0 and 0 < width < float("inf") for grant, width in widths)

    def first_sequence(self) -> int:
        return version(self.epoch, 1)


def canonical(rows: list[tuple[str, str, int, float, int]]) -> list[tuple[str, str, int, float, int]]:
    """Rows of one moment in any order but that of one key: sorted by moment and key, the order within a key kept."""
    return sorted(rows, key=lambda row: (row[2], row[1]))
