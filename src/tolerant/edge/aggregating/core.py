"""An aggregator as a pure state machine: rows of items and plans in, rows of parts, copies and reports out.

It lives in event time, a latency behind for each hop that an item takes to reach it: so a change of a source at t
changes the parts at t, and the pipeline, which waits for one hop more, never answers for t without it. What the rest
of the system relies on:

- A copy is never further from its source than the network says, as long as somebody who has the item is heard.
- A part is said only while all its items are known: when one is not, the part is gone, and comes back with a hello.
- A part's filter is that of the plan whose version its rows carry, and never another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tolerant.edge.aggregating.inflow import Heard, Inflow
from tolerant.edge.core import SourceCore
from tolerant.planning import Network, Report, RunningDynamics, clamped, depth, given, ways
from tolerant.streams import Stream, StreamOptions
from tolerant.transport.plans import PRESENCE, REPORTS, Announcement, Wanted, part_key
from tolerant.transport.rows import NO_TIME, Grant

HALFLIFE = 1000.0
"""Ticks after which a move counts half."""

_GAP = 1000  # ticks without a row that are learned from at most


class _Parts(SourceCore):
    """The parts as items of a source. What they are composed of goes on without the aggregator, so the pipeline trusts
    it only as far as it has been heard: it says a beat twice in each latency.
    """

    def __init__(self, source: str, epoch: int, options: StreamOptions) -> None:
        super().__init__(source, epoch, options)
        self._beat_after = max(1, min(self._beat_after, options.latency // 2))

    def restate(self, grant: Grant, value: float, now: int) -> None:
        """From now on a part that has a value has this one, under this grant: one `ack` says both."""
        at = self._stamp(now)
        self._bank.last[self._handles[grant.item]] = value
        self.grant([replace(grant, confirm=True)], at)


class AggregatorCore:
    """One aggregator of a network, in one epoch. Times are microseconds; `advance` says what time it is.

    stream: the stream whose items it holds. name: the aggregator's name in `network`.
    """

    def __init__(self, name: str, epoch: int, stream: Stream, network: Network) -> None:
        if name not in network.bounds:
            raise ValueError(f"no aggregator is called {name!r}; there are {', '.join(network.aggregators)}")
        self.name, self.stream, self.network = name, stream, network
        options = replace(stream.options, policy="adaptive")  # no forecasts: a part's filter is fixed
        self._tick, self._interval = options.tick, options.boundary
        self._delay = depth(network, name) * options.latency
        self.givers = tuple(dict.fromkeys(way.giver for listed in ways(network, name).values() for way in listed))
        """Whom it listens to; None: the sources."""
        self._inflow = Inflow(ways(network, name), options.lease)
        self._items = tuple(network.bounds[name])
        self._copies: dict[str, float] = {}
        self._parts = _Parts(name, epoch, options)
        self._relay = SourceCore(name, epoch, options)
        self._relayed = given(network, name)
        self._relay.grant([Grant(item, 2 * half, 0.0, 0, 1, False) for item, half in self._relayed.items()], 0)
        self._announced: dict[tuple[str, str], Announcement] = {}
        self._fresh: dict[tuple[str, str], Announcement] = {}
        self._wanted: dict[str, Wanted] = {}  # by key
        self._of_query: dict[tuple[str, str], tuple[str, ...]] = {}
        self._of_item: dict[str, set[str]] = {item: set() for item in self._items}
        self._said: set[str] = set()  # the parts that have a value at the pipeline
        self._waiting: list[Heard] = []
        self.horizon = self._reached = NO_TIME
        self._learned = RunningDynamics(self._items, HALFLIFE)
        self._seen = np.full(len(self._items), np.nan)
        self._place = {item: place for place, item in enumerate(self._items)}
        self._moment: int | None = None  # the tick that was last learned
        self._rows: list[np.ndarray] = []
        self._reports: list[dict[str, object]] = []
        self.late = 0
        """Rows of items that came too late: for so long the parts were not what they should have been."""

    # -- what comes in ---------------------------------------------------------------------------------------------

    def take(self, rows: Iterable[Heard]) -> None:
        """Rows of items, as they stand in the log."""
        for row in rows:
            if row.at > self.horizon:
                self._waiting.append(row)
            else:
                self.late += row.kind != "beat" and row.key in self._of_item
                self._apply([row], self.horizon)

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Plans, as they are announced, in any order, repeated or not; they take effect when time moves on."""
        for one in announcements:
            held = self._announced.get((one.query, one.group))
            if held is None or one.version > held.version:
                self._announced[one.query, one.group] = self._fresh[one.query, one.group] = one

    def advance(self, now: int) -> None:
        """Time has come to `now`: everything up to a latency a hop before has been heard."""
        horizon = now - self._delay
        if horizon <= self.horizon:
            return
        self._waiting.sort()
        cut = 0
        while cut < len(self._waiting) and self._waiting[cut].at <= horizon:
            end = cut
            while end < len(self._waiting) and self._waiting[end].at == self._waiting[cut].at:
                end += 1
            self._pass(self._waiting[cut].at)
            self._apply(self._waiting[cut:end], self._waiting[cut].at)
            cut = end
        del self._waiting[:cut]
        self._pass(horizon)
        if self.horizon == NO_TIME:
            self._relay_copies(self._copies, horizon)
            self._parts.offer(self._parts.register([PRESENCE]), np.zeros(1), horizon)
        self.horizon = horizon  # what is said now is as of this moment, no earlier one
        self._obey()
        self._parts.advance(horizon)
        self._relay.advance(horizon)

    # -- time ------------------------------------------------------------------------------------------------------

    def _pass(self, at: int) -> None:
        """Let time pass up to `at`: ticks to learn from, reports, and those who fall silent on the way."""
        for silence in sorted(when for when in self._inflow.silences() if self._reached < when <= at):
            self._settle(self._items, silence)
        self._reached = at
        tick = at // self._tick
        if self._moment is None:
            self._moment = tick
        missed = tick - self._moment
        if missed > 0:
            self._rows += [self._seen.copy()] * min(missed, _GAP)
            if tick * self._tick // self._interval > self._moment * self._tick // self._interval:
                self._report(tick * self._tick // self._interval * self._interval + 1)
            self._moment = tick

    def _report(self, at: int) -> None:
        if self._rows:
            self._learned.update(np.array(self._rows))
            self._rows = []
        found = Report.of(self._learned)
        row = {
            "aggregator": self.name,
            "at": at,
            "ticks": found.ticks,
            "late": self.late,
            "items": list(found.items),
            "moved": found.moved.tolist(),
            "cosine": found.cosine.astype(np.float32).ravel().tolist(),
        }
        self._reports = [row]  # of several that nobody has sent yet the newest says all

    # -- values ----------------------------------------------------------------------------------------------------

    def _apply(self, rows: Sequence[Heard], at: int) -> None:
        """Rows of one moment."""
        touched = {item for row in rows if (item := self._inflow.hear(row)) is not None}
        if self._inflow.take_restart():
            touched = set(self._items)
        self._settle(sorted(touched), at)

    def _settle(self, items: Iterable[str], at: int) -> None:
        """Bring the copies of these items up to date as of `at`, and with them parts and those below."""
        changed = [item for item in items if self._copy(item, at)]
        # Who has just started says what is, not what was while it was not there.
        if changed and self.horizon != NO_TIME:
            self._relay_copies(changed, at)
            self._say({key for item in changed for key in self._of_item[item]}, at)

    def _copy(self, item: str, at: int) -> bool:
        """Whether the copy of an item is another now."""
        known = self._inflow.value(item, at)
        held = self._copies.get(item)
        if known is None:
            self._seen[self._place[item]] = np.nan
            return self._copies.pop(item, None) is not None
        value, step = known
        self._seen[self._place[item]] = value
        if held is not None and abs(value - held) <= step:
            return False
        self._copies[item] = value
        return True

    def _relay_copies(self, items: Iterable[str], at: int) -> None:
        told = [item for item in items if item in self._relayed]
        known = [item for item in told if item in self._copies]
        if known:
            self._relay.offer(self._relay.register(known), np.array([self._copies[item] for item in known]), at)
        for item in told:
            if item not in self._copies and self._relay.filter_of(item) is not None:
                self._relay.remove(int(self._relay.register([item])[0]), at)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """Have the parts that the newest announcements want, as of now."""
        fresh, self._fresh = self._fresh, {}
        for (query, group), announcement in fresh.items():
            wanted = {
                part_key(query, group, part.slot): part
                for part in announcement.wanted
                if part.aggregator == self.name and all(item in self._of_item for item in part.weights)
            }
            for key in self._of_query.pop((query, group), ()):
                new, old = wanted.get(key), self._wanted[key]
                if new is not None and new.level != old.level and _alike(new, old):
                    self._restate(key, new)
                elif new != old:
                    self._end(key)
            for key in wanted:
                if key not in self._wanted:
                    self._begin(key, wanted[key])
            if wanted:
                self._of_query[query, group] = tuple(wanted)
        # Everything that is wanted and can be said but has not been.
        self._say(set(self._wanted) - self._said, self._now())

    def _now(self) -> int:
        return max(self._parts.clock, self.horizon)

    def _begin(self, key: str, part: Wanted) -> None:
        self._wanted[key] = part
        for item in part.weights:
            self._of_item[item].add(key)
        self._parts.grant([Grant(key, 2 * part.push, 0.0, 0, part.version, False)], self._now())

    def _restate(self, key: str, part: Wanted) -> None:
        """The same part under another level."""
        self._wanted[key] = part
        grant, value = Grant(key, 2 * part.push, 0.0, 0, part.version, False), self._value(part)
        if key in self._said and value is not None:
            self._parts.restate(grant, value, self._now())
        else:
            self._parts.grant([grant], self._now())

    def _end(self, key: str) -> None:
        part = self._wanted.pop(key)
        for item in part.weights:
            self._of_item[item].discard(key)
        self._withdraw(key, self._now())

    def _say(self, keys: Iterable[str], at: int) -> None:
        """Offer these parts; those with an item that is not known are gone."""
        ready, values = [], []
        for key in sorted(keys):
            value = self._value(self._wanted[key])
            if value is None:
                self._withdraw(key, at)
            else:
                ready.append(key)
                values.append(value)
        if ready and self._parts.clock != NO_TIME:
            self._parts.offer(self._parts.register(ready), np.array(values), at)
            self._said.update(ready)

    def _withdraw(self, key: str, at: int) -> None:
        if key in self._said:
            self._said.discard(key)
            self._parts.remove(int(self._parts.register([key])[0]), at)

    def _value(self, part: Wanted) -> float | None:
        if any(item not in self._copies for item in part.weights):
            return None
        terms = [weight * self._copies[item] for item, weight in part.weights.items()]
        if part.fn in ("min", "max"):
            return clamped(part.fn, min(terms) if part.fn == "min" else max(terms), part.level)
        return math.fsum(terms)

    # -- what comes out --------------------------------------------------------------------------------------------

    def drain(self) -> list[tuple[str, pa.RecordBatch]]:
        """What there is to say since the last call: (what, batch), what being "copies", "parts" or "reports".

        Copies go first: parts say that everything up to their `through` has been said.
        """
        found = []
        for what, core in (("copies", self._relay), ("parts", self._parts)):
            batch = core.drain()
            if batch is not None:
                found.append((what, batch))
        if self._reports:
            found.append(("reports", pa.RecordBatch.from_pylist(self._reports, REPORTS)))
            self._reports = []
        return found

    @property
    def copies(self) -> dict[str, float]:
        """The items as they are held now."""
        return dict(self._copies)

    def parts(self) -> list[Wanted]:
        """What is wanted of it."""
        return list(self._wanted.values())


def _alike(new: Wanted, old: Wanted) -> bool:
    """Whether they are the same part, but for its version and its level."""
    return new._replace(version=old.version, level=old.level) == old
