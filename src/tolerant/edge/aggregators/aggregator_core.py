"""An aggregator as a pure state machine: rows of items and plans in, rows of parts, copies and reports out.

It works in event time, one latency behind for each hop that an item takes to reach it: so a change of a source at t
changes the parts at t, and the pipeline, which waits for one hop more, never answers for t without it. What the rest
of the system relies on:

- A copy is never further from its source than the network says, as long as a trusted giver has the item.
- A part exists only while all its items are known: when one is not, the part is gone, and returns with a hello.
- A part's filter is that of the plan whose version its rows carry, and never another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tolerant.edge.aggregators.inflow import Inflow, ReceivedRow
from tolerant.edge.source_core import SourceCore
from tolerant.planning import DynamicsReport, Network, RunningDynamics, clamped, copy_routes, depth, feed_widths
from tolerant.streams import Stream, StreamOptions
from tolerant.transport.plans import PRESENCE, REPORTS, Announcement, Wanted, part_key
from tolerant.transport.rows import NO_TIME, Grant

HALFLIFE = 1000.0
"""Ticks after which a move counts half."""

_GAP = 1000  # ticks without a row that are learned from at most


class _PartSource(SourceCore):
    """The parts as items of a source. Their items change without the aggregator, so the pipeline trusts it only up to
    its last row: it sends a heartbeat twice per latency.
    """

    def __init__(self, source: str, epoch: int, options: StreamOptions) -> None:
        super().__init__(source, epoch, options)
        self._heartbeat_after = max(1, min(self._heartbeat_after, options.latency // 2))

    def restate(self, grant: Grant, value: float, now: int) -> None:
        """Give a part that has a value a new value and a new grant in one `ack` row."""
        at = self._stamp(now)
        self._filters.last[self._handles[grant.item]] = value
        self.grant([replace(grant, confirm=True)], at)


class AggregatorCore:
    """One aggregator of a network, in one epoch. Times are microseconds; `advance` sets the time.

    stream: the stream whose items it copies. name: the aggregator's name in `network`.
    """

    def __init__(self, name: str, epoch: int, stream: Stream, network: Network) -> None:
        if name not in network.bounds:
            raise ValueError(f"no aggregator is called {name!r}; there are {', '.join(network.aggregators)}")
        self.name, self.stream, self.network = name, stream, network
        options = replace(stream.options, policy="adaptive")  # no forecasts: a part's filter is fixed
        self._tick, self._interval = options.tick, options.boundary
        self._delay = depth(network, name) * options.latency
        self.givers = tuple(
            dict.fromkeys(route.giver for listed in copy_routes(network, name).values() for route in listed)
        )
        """The aggregators that it receives items from; None: the sources."""
        self._inflow = Inflow(copy_routes(network, name), options.lease)
        self._items = tuple(network.bounds[name])
        self._copies: dict[str, float] = {}
        self._parts = _PartSource(name, epoch, options)
        self._relay = SourceCore(name, epoch, options)
        self._relayed = feed_widths(network, name)
        self._relay.grant([Grant(item, 2 * half, 0.0, 0, 1, False) for item, half in self._relayed.items()], 0)
        self._announced: dict[tuple[str, str], Announcement] = {}
        self._fresh: dict[tuple[str, str], Announcement] = {}
        self._wanted: dict[str, Wanted] = {}  # by key
        self._of_query: dict[tuple[str, str], tuple[str, ...]] = {}
        self._of_item: dict[str, set[str]] = {item: set() for item in self._items}
        self._published: set[str] = set()  # the parts that have a value at the pipeline
        self._waiting: list[ReceivedRow] = []
        self.watermark = self._reached = NO_TIME
        self._learned = RunningDynamics(self._items, HALFLIFE)
        self._observed = np.full(len(self._items), np.nan)
        self._place = {item: place for place, item in enumerate(self._items)}
        self._learned_tick: int | None = None  # the tick up to which the dynamics were learned
        self._rows: list[np.ndarray] = []
        self._reports: list[dict[str, object]] = []
        self.late = 0
        """Rows of items that arrived late: until then the parts were wrong."""

    # -- input ---------------------------------------------------------------------------------------------------

    def receive(self, rows: Iterable[ReceivedRow]) -> None:
        """Accept rows of items in the order of the log."""
        for row in rows:
            if row.at > self.watermark:
                self._waiting.append(row)
            else:
                self.late += row.kind != "heartbeat" and row.key in self._of_item
                self._apply([row], self.watermark)

    def announce(self, announcements: Iterable[Announcement]) -> None:
        """Accept announced plans in any order, repeated or not; they take effect when time advances."""
        for announcement in announcements:
            key = announcement.query, announcement.group
            newest = self._announced.get(key)
            if newest is None or announcement.version > newest.version:
                self._announced[key] = self._fresh[key] = announcement

    def advance(self, now: int) -> None:
        """Advance time to `now`: all rows up to one latency per hop before it have arrived."""
        watermark = now - self._delay
        if watermark <= self.watermark:
            return
        self._waiting.sort()
        cut = 0
        while cut < len(self._waiting) and self._waiting[cut].at <= watermark:
            end = cut
            while end < len(self._waiting) and self._waiting[end].at == self._waiting[cut].at:
                end += 1
            self._pass(self._waiting[cut].at)
            self._apply(self._waiting[cut:end], self._waiting[cut].at)
            cut = end
        del self._waiting[:cut]
        self._pass(watermark)
        if self.watermark == NO_TIME:
            self._relay_copies(self._copies, watermark)
            self._parts.offer(self._parts.register([PRESENCE]), np.zeros(1), watermark)
        self.watermark = watermark  # rows from here on are stamped with it, not earlier
        self._apply_plans()
        self._parts.advance(watermark)
        self._relay.advance(watermark)

    # -- time ------------------------------------------------------------------------------------------------------

    def _pass(self, at: int) -> None:
        """Advance to `at`: learn from its ticks, report, and drop givers whose lease runs out on the way."""
        for silence in sorted(when for when in self._inflow.silences() if self._reached < when <= at):
            self._settle(self._items, silence)
        self._reached = at
        tick = at // self._tick
        if self._learned_tick is None:
            self._learned_tick = tick
        missed = tick - self._learned_tick
        if missed > 0:
            self._rows += [self._observed.copy()] * min(missed, _GAP)
            if tick * self._tick // self._interval > self._learned_tick * self._tick // self._interval:
                self._report(tick * self._tick // self._interval * self._interval + 1)
            self._learned_tick = tick

    def _report(self, at: int) -> None:
        if self._rows:
            self._learned.update(np.array(self._rows))
            self._rows = []
        report = DynamicsReport.of(self._learned)
        row = {
            "aggregator": self.name,
            "at": at,
            "ticks": report.ticks,
            "late": self.late,
            "items": list(report.items),
            "moved": report.moved.tolist(),
            "cosine": report.cosine.astype(np.float32).ravel().tolist(),
        }
        self._reports = [row]  # of several that are not yet sent the newest contains all

    # -- values ----------------------------------------------------------------------------------------------------

    def _apply(self, rows: Sequence[ReceivedRow], at: int) -> None:
        """Apply rows of one event time."""
        touched = {item for row in rows if (item := self._inflow.receive(row)) is not None}
        if self._inflow.drain_restart():
            touched = set(self._items)
        self._settle(sorted(touched), at)

    def _settle(self, items: Iterable[str], at: int) -> None:
        """Update the copies of these items as of `at`, and with them their parts and the aggregators below."""
        changed = [item for item in items if self._copy(item, at)]
        # After a start only current values are published, not those of the time before it.
        if changed and self.watermark != NO_TIME:
            self._relay_copies(changed, at)
            self._publish({key for item in changed for key in self._of_item[item]}, at)

    def _copy(self, item: str, at: int) -> bool:
        """Update the copy of an item; return whether it has changed."""
        known = self._inflow.value(item, at)
        copy = self._copies.get(item)
        if known is None:
            self._observed[self._place[item]] = np.nan
            return self._copies.pop(item, None) is not None
        value, step = known
        self._observed[self._place[item]] = value
        if copy is not None and abs(value - copy) <= step:
            return False
        self._copies[item] = value
        return True

    def _relay_copies(self, items: Iterable[str], at: int) -> None:
        relayed = [item for item in items if item in self._relayed]
        known = [item for item in relayed if item in self._copies]
        if known:
            self._relay.offer(self._relay.register(known), np.array([self._copies[item] for item in known]), at)
        for item in relayed:
            if item not in self._copies and self._relay.filter_of(item) is not None:
                self._relay.remove(int(self._relay.register([item])[0]), at)

    # -- parts -----------------------------------------------------------------------------------------------------

    def _apply_plans(self) -> None:
        """Begin, restate and end parts as the newest announcements want."""
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
        # Every part that is wanted and can be computed but is not published yet.
        self._publish(set(self._wanted) - self._published, self._now())

    def _now(self) -> int:
        return max(self._parts.clock, self.watermark)

    def _begin(self, key: str, part: Wanted) -> None:
        self._wanted[key] = part
        for item in part.weights:
            self._of_item[item].add(key)
        self._parts.grant([Grant(key, 2 * part.push, 0.0, 0, part.version, False)], self._now())

    def _restate(self, key: str, part: Wanted) -> None:
        """Change the level of a part that otherwise stays the same."""
        self._wanted[key] = part
        grant, value = Grant(key, 2 * part.push, 0.0, 0, part.version, False), self._value(part)
        if key in self._published and value is not None:
            self._parts.restate(grant, value, self._now())
        else:
            self._parts.grant([grant], self._now())

    def _end(self, key: str) -> None:
        part = self._wanted.pop(key)
        for item in part.weights:
            self._of_item[item].discard(key)
        self._withdraw(key, self._now())

    def _publish(self, keys: Iterable[str], at: int) -> None:
        """Offer the values of these parts; withdraw those with an unknown item."""
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
            self._published.update(ready)

    def _withdraw(self, key: str, at: int) -> None:
        if key in self._published:
            self._published.discard(key)
            self._parts.remove(int(self._parts.register([key])[0]), at)

    def _value(self, part: Wanted) -> float | None:
        if any(item not in self._copies for item in part.weights):
            return None
        terms = [weight * self._copies[item] for item, weight in part.weights.items()]
        if part.fn in ("min", "max"):
            return clamped(part.fn, min(terms) if part.fn == "min" else max(terms), part.level)
        return math.fsum(terms)

    # -- output ---------------------------------------------------------------------------------------------------

    def drain(self) -> list[tuple[str, pa.RecordBatch]]:
        """Remove and return all waiting rows as (content, batch), content being "copies", "parts" or "reports".

        Copies go first: a part's `through` promises that everything up to it has been sent.
        """
        batches = []
        for content, core in (("copies", self._relay), ("parts", self._parts)):
            batch = core.drain()
            if batch is not None:
                batches.append((content, batch))
        if self._reports:
            batches.append(("reports", pa.RecordBatch.from_pylist(self._reports, REPORTS)))
            self._reports = []
        return batches

    @property
    def copies(self) -> dict[str, float]:
        """The current copies: item → value."""
        return dict(self._copies)

    def parts(self) -> list[Wanted]:
        """Return the parts that plans want from it."""
        return list(self._wanted.values())


def _alike(new: Wanted, old: Wanted) -> bool:
    """Return whether two parts differ at most in version and level."""
    return new._replace(version=old.version, level=old.level) == old
