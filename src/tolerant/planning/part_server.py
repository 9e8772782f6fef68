"""An aggregator's side of a part: keeps the copies, sends when it must (`docs/design/planning.md` §2.2, §2.10)."""

from __future__ import annotations

from collections.abc import Mapping

from tolerant.kernels.snapshots import State
from tolerant.planning.levels import clamped
from tolerant.planning.planning_arrays import CODES, GRID, MAX, SUM
from tolerant.planning.query_plan import Part


class PartServer:
    """Keeps one part within its bound for a client that uses the value sent last.

    bounds: how far the copy of each item may be behind what is offered: c, or c − c of the parent where the parent's
    copies are offered (`Network.step`). values: the items' values at the start. fn: the query's function. The value at
    the start, `sent`, has to be sent before anything else.

    >>> server = PartServer(Part("A", {"p": 2.0}, within=2.0, floor=1.0), {"p": 0.5}, {"p": 10.0})
    >>> server.sent, server.offer("p", 10.4), server.offer("p", 11.0)
    (20.0, None, 22.0)
    """

    def __init__(self, part: Part, bounds: Mapping[str, float], values: Mapping[str, float], fn: str = "sum") -> None:
        for name, by_item in (("bounds", bounds), ("values", values)):
            missing = [item for item in part.weights if item not in by_item]
            if missing:
                raise ValueError(f"{name} must have every item of the part, {missing[0]!r} is missing")
        self.part, self.fn = part, fn
        self._code = CODES[fn]
        self._steps = {item: float(bounds[item]) * (1 + GRID) for item in part.weights}
        self._copies = {item: float(values[item]) for item in part.weights}
        self._push = part.push + GRID * part.within
        self.level: float | None = None
        self.sent = self.value

    @property
    def value(self) -> float:
        """The value of the part from its copies, under its level."""
        terms = [weight * self._copies[item] for item, weight in self.part.weights.items()]
        if self._code == SUM:
            return sum(terms)
        return clamped(self.fn, max(terms) if self._code == MAX else min(terms), self.level)

    def offer(self, item: str, value: float) -> float | None:
        """Apply an item's new value; return what to send to the client, or None."""
        return self.offer_many({item: value})

    def offer_many(self, values: Mapping[str, float]) -> float | None:
        """Apply new values of several items at one tick; return at most one value to send, as in `simulate`."""
        for item, value in values.items():
            if item not in self._copies:
                raise ValueError(f"item {item!r} is not in the part; there are {', '.join(self._copies)}")
            if abs(value - self._copies[item]) > self._steps[item]:
                self._copies[item] = float(value)
        now = self.value
        if abs(now - self.sent) > self._push:
            self.sent = now
            return now
        return None

    def set_level(self, level: float | None) -> float:
        """Set or withdraw the level of a part of a min or max (`tolerant.planning.levels`); return what to send."""
        if self._code == SUM:
            raise ValueError(f"a level is for a part of a min or max, this is of a {self.fn}")
        self.level = level
        self.sent = self.value
        return self.sent

    def state(self) -> State:
        """Return plain values, for a snapshot."""
        return State(
            part=self.part.record(),
            fn=self.fn,
            steps={item: step / (1 + GRID) for item, step in self._steps.items()},
            copies=dict(self._copies),
            sent=self.sent,
            level=self.level,
        )

    @classmethod
    def from_state(cls, state: State) -> PartServer:
        """Return the server whose `state` this is."""
        part, steps, copies, fn, sent, level = state.exactly("part", "steps", "copies", "fn", "sent", "level")
        server = cls(Part.of_record(part), steps, copies, fn)
        server.sent, server.level = sent, level
        return server
