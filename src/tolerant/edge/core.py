"""The source's side of the protocol as a pure state machine: no threads, no clock, no I/O (`specs/0-pipeline.md` §2,
§4).

Time is passed in, rows come out of `drain`. What the rest of the system relies on:

- `at` never goes back, and a row drained later has a greater `at` than every `through` drained before.
- A boundary pT is done before anything is stamped later than pT; what it sends is stamped pT + 1.
- A last offered value is never outside its filter: widths that shrink are applied again, by the source itself, and so
  are centres that move: at every multiple of the tick, before anything else is stamped with it.
- The newest version of a grant counts, from its arrival but not before its `since`; older ones are ignored.
- A leave is over as soon as its item sends a row. One that is sent because it was asked for tells where the item has
  been.
- Where its filters change by themselves, centres that move at a tick or widths that shrink at a boundary, a row says
  that it has lived to see it: a beat, if there is nothing else to say. Else a source that has died would look alike.
- A sum of items that is filtered (`sums`) has the values of its items at every stamp, and is gone when one of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.edge.bank import FilterBank, FilterState
from tolerant.edge.outbox import Outbox
from tolerant.edge.sums import Sums, SumSet
from tolerant.filters.forms import ITEMS, QUERIES
from tolerant.kernels.decay import boundaries_passed
from tolerant.streams import StreamOptions, is_sum
from tolerant.transport.forms import Forms
from tolerant.transport.rows import NO_TIME, Grant, Piece

LEAP = 1000
"""More ticks or boundaries than this are not made up for one by one, after a sleep."""

_NOBODY = np.array([-1])
_GRACE = 20
"""Readings a twentieth of a tick after it are still taken to be of the tick."""


class SourceCore:
    """The items of one source in one epoch.

    Items are named by their key text, and addressed by the handle that `register` gives. All times are microseconds
    of the source's own clock; `now` may step back, `at` does not. `moves_from`: as of `FilterBank`.

    >>> core = SourceCore("web-1", 1, StreamOptions())
    >>> in_, out = core.register(["in", "out"])
    >>> core.offer(np.array([in_, out]), np.array([1.0, 2.0]), now=5)
    5
    >>> core.drain().column("kind").to_pylist()
    ['hello', 'hello']
    """

    def __init__(self, source: str, epoch: int, options: StreamOptions, *, moves_from: float = 0.0) -> None:
        self.source = source
        self.epoch = epoch
        self.clock = NO_TIME
        """The stamp of what happened last."""
        self.watch: Callable[[int, NDArray[np.int64]], None] | None = None
        """Called with (at, handles) whenever filters were recentred or given another grant, for audits."""
        self._period = options.boundary
        # Longer than an answer waits, since clocks differ; by a percentile it may wait for a lease.
        self._memory = options.lease if options.latency_percentile else 2 * options.latency
        self._lease = options.lease
        self._beat_after = max(1, options.lease // 3)
        self._bank = FilterBank(options.policy == "predictive", moves_from)
        self._tick = options.tick
        self._grace = min(options.tick // _GRACE, options.latency // 4)
        self._keys: list[str] = []
        self._handles: dict[str, int] = {}
        self._outbox = Outbox(source, epoch)
        self._sums = Sums(options.policy == "predictive", options.period)
        self._newest: dict[str, Grant] = {}  # of every item of the stream, known here or not
        self._pending: dict[int, Grant] = {}  # newest, but its `since` has not come
        self._through = NO_TIME
        self._passed = 0
        self._said = NO_TIME
        self._count = 0

    # -- what the application does ------------------------------------------------------------------------------

    def register(self, keys: Iterable[str]) -> NDArray[np.int64]:
        """The handles of these items, known ones or new; nothing is sent before an item's first value."""
        keys = list(keys)
        new = [key for key in dict.fromkeys(keys) if key not in self._handles]
        for key, handle in zip(new, self._bank.add(len(new)).tolist(), strict=True):
            self._handles[key] = handle
            self._keys.append(key)
        return np.array([self._handles[key] for key in keys], np.int64)

    def offer(self, handles: NDArray[np.int64], values: NDArray[np.float64], now: int) -> int:
        """Take the items' new values; what has to be sent waits in `drain`. The stamp they got.

        All values of one call are of one moment; of a repeated handle the last one counts.

        Raises:
            ValueError: a handle is unknown, or a value not a finite number; nothing of the call was taken.
        """
        self._check(handles, values)
        sums, totals, lost = self._sums_of(handles, values)
        if len(sums):
            handles, values = np.append(handles, sums), np.append(values, totals)
        at = self._stamp(now, handles, values)
        self._take(handles, values, at)
        self._end(lost, at)
        self._judge(at)
        return at

    def _take(self, handles: NDArray[np.int64], values: NDArray[np.float64], at: int) -> None:
        passed = self._bank.offer(handles, values)
        if len(passed):
            known = self._bank.known[passed]
            self._begin(passed[~known], at)
            self._send("update", passed[known], at)

    def remove(self, handle: int, now: int) -> int:
        """The item exists no more; the stamp of that. Its handle stays good: a new value makes it exist again."""
        if not 0 <= handle < self._bank.size or not self._bank.known[handle]:
            raise ValueError("an item can be removed only while it has a value")
        at = self._stamp(now)
        self._end(self._sums.having(handle), at)
        self._go(np.array([handle]), at)
        return at

    def _go(self, handles: NDArray[np.int64], at: int) -> None:
        """Items exist no more."""
        bank = self._bank
        bank.level[handles], bank.slope[handles] = bank.last[handles], 0.0  # the last that they were
        self._send("gone", handles, at)
        self._forget(handles)

    def _forget(self, handles: NDArray[np.int64]) -> None:
        """Items have no value here any more."""
        for handle in handles.tolist():
            self._bank.forget(handle)
            self._pending.pop(handle, None)
        self._count -= len(handles)

    def give_up(self, keys: Iterable[str], now: int) -> list[str]:
        """Another source has said hello with these items: until their next value, a hello that takes them back, they
        are not this one's. Those that were.
        """
        lost = [key for key in keys if (handle := self._handles.get(key)) is not None and self._bank.known[handle]]
        if lost:
            at, handles = self._stamp(now), np.array([self._handles[key] for key in lost])
            self._end([one for handle in handles.tolist() for one in self._sums.having(handle)], at)
            self._forget(handles)
        return lost

    def nearest(self, now: int) -> int:
        """`now`, or the tick it is just after, where that has not passed here: predicted centres move at ticks, so
        readings that are taken once a tick are best held against them then.
        """
        tick = now // self._tick * self._tick
        early = self._bank.forecasts and self._count and now - tick <= self._grace
        return tick if early and tick > max(self.clock, self._through) else now

    # -- what time and the pipeline do --------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Let time pass: boundaries, grants whose time has come, and a beat when nothing was sent for a third of the
        lease.
        """
        if now > self.clock:
            self._reach(now)
            self._judge(now)
        # Also where values of this very moment have moved the clock already: they may all be within their filters.
        if self._count and self.clock > self._through and self.clock - self._said >= self._beat_after:
            self._beat()

    def _beat(self) -> None:
        self._outbox.add("beat", _NOBODY, self.clock, np.zeros(1), np.zeros(1, np.int64))
        self._said = self.clock

    def _owes_a_row(self) -> bool:
        """Whether filters have changed by themselves since the last row, and no row is on its way."""
        if len(self._outbox):
            return False
        tick, boundary = self._bank.tick * self._tick, self._passed * self._period + 1
        return (self._through < tick and self._bank.moves()) or (self._through < boundary and self._bank.shrinks())

    def grant(self, grants: Sequence[Grant], now: int) -> None:
        """Take grants as they arrive, in any order, repeated or not; those of items of other sources do no harm."""
        fresh: dict[int, Grant] = {}
        for grant in grants:
            newest = self._newest.get(grant.item)
            if newest is not None and grant.version < newest.version:
                continue
            if is_sum(grant.item) and grant.item not in self._handles:
                continue  # another source's; there is no end of them
            self._newest[grant.item] = grant
            handle = self._handles.get(grant.item)
            if handle is not None and self._bank.known[handle]:
                fresh[handle] = grant
        if fresh:
            at = self._stamp(now)
            self._enforce({h: g for h, g in fresh.items() if g.since <= at}, at)
            self._pending.update({h: g for h, g in fresh.items() if g.since > at})

    def form(self, rows: Iterable[Forms], now: int) -> None:
        """Learn which sums may be filtered instead of items; rows arrive as grants do, and before them at a start."""
        told = self._sums.tell(rows, self.register)
        over = [one for one in told.over if one.active]
        if over:
            self._end(over, self._stamp(now))
        for one in told.begun:
            self._sums.begin(one, self.register)
        if any(self._bank.known[one.handles].all() for one in told.begun):
            at = self._stamp(now)
            self._start(told.begun, at)

    def due(self) -> int | None:
        """The time at which `advance` has to be called at the latest; None: there is nothing to wait for."""
        if not self._count:
            return None
        boundary = (self._passed + 1) * self._period + 1
        if self._bank.forecasts:
            boundary = min(boundary, (self._bank.tick + 1) * self._tick)
        return min([boundary, self._said + self._beat_after, *(grant.since for grant in self._pending.values())])

    def wait_for_readings(self, now: int) -> int:
        """`now`, or just before the tick that it is just after: how far to `advance` while readings may still come."""
        tick = self.nearest(now)
        return now if tick == now else tick - 1

    # -- what comes out -----------------------------------------------------------------------------------------

    def drain(self) -> pa.RecordBatch | None:
        """The rows said since the last call, in order, for one append; None: none. Appends must be made in this
        order. A beat is among them if there is nothing else and the filters have changed by themselves.
        """
        if self._owes_a_row():
            self._beat()
        if not len(self._outbox):
            return None
        self._through = self.clock
        return self._outbox.take(self._keys, self.clock)

    def __len__(self) -> int:
        """How many rows wait to be drained."""
        return len(self._outbox)

    def key(self, handle: int) -> str:
        """The key text of a handle."""
        return self._keys[handle]

    def items(self) -> list[str]:
        """The keys of all items that have a value now."""
        known = (self._keys[handle] for handle in np.flatnonzero(self._bank.known[: self._bank.size]).tolist())
        return [key for key in known if not is_sum(key)]

    def sums(self) -> dict[str, dict[str, float]]:
        """The sums that are filtered now: key → the weight of each item."""
        found = {}
        for one in self._sums.sets.values():
            for key, handle, part, weights in zip(
                one.told.keys, one.sums.tolist(), one.told.parts, one.told.weights, strict=False
            ):
                if self._bank.known[handle]:
                    found[key] = {one.told.items[k]: weight for k, weight in zip(part, weights, strict=True)}
        return found

    def filter_of(self, key: str) -> FilterState | None:
        """The filter of an item as it stands at `clock`; None while it has no value."""
        handle = self._handles.get(key)
        return None if handle is None else self._bank.state(handle)

    # -- sums ---------------------------------------------------------------------------------------------------

    def _sums_of(
        self, handles: NDArray[np.int64], values: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], list[SumSet]]:
        """The sums that these values change, what they come to, and those that are too large for any number."""
        if not self._sums.filtered:
            return handles[:0], values[:0], []
        bank = self._bank
        known, before = bank.known[handles], bank.last[handles]
        bank.known[handles], bank.last[handles] = True, values
        sums = self._sums.touched(handles, bank.known)
        totals = self._sums.values(sums, bank.last) if len(sums) else values[:0]
        bank.known[handles], bank.last[handles] = known, before
        fine = np.isfinite(totals)
        lost = [] if fine.all() else [one for sum_ in sums[~fine].tolist() for one in self._sums.having(sum_)]
        return sums[fine], totals[fine], lost

    def _start(self, sets: Iterable[SumSet], at: int) -> None:
        """Filter the sums of these sets from now on."""
        items = np.concatenate([np.zeros(0, np.int64), *(one.handles for one in sets)])
        known = items[self._bank.known[items]]
        sums, totals, lost = self._sums_of(known, self._bank.last[known])
        self._take(sums, totals, at)
        self._end(lost, at)

    def _end(self, sets: Sequence[SumSet], at: int) -> None:
        """The sums of these sets are no more, for good."""
        if not sets:
            return
        for one in sets:
            one.broken = True
        handles = np.unique(self._sums.end(sets))
        self._go(handles[self._bank.known[handles]], at)

    def _judge(self, at: int) -> None:
        """Go over to sums where they have become cheaper, and ask to go back where items have."""
        if not self._sums.sets or not self._count:
            return
        for one, form in self._sums.judge(self._passed):
            if form == QUERIES and not one.active and self._bank.known[one.handles].all():
                self._sums.begin(one, self.register)
                self._start([one], at)
            elif one.active and self._bank.known[one.sums].all() and (form == ITEMS or one.wished == ITEMS):
                one.wished = form
                wish = np.full(1, float(form == QUERIES))
                self._outbox.add("wish", one.sums[:1], at, wish, self._bank.version[one.sums[:1]])
                self._said = at

    # -- inside -------------------------------------------------------------------------------------------------

    def _check(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        if len(handles) != len(values):
            raise ValueError(f"items and values must be of one length, got {len(handles)} and {len(values)}")
        if len(handles) and not 0 <= handles.min() <= handles.max() < self._bank.size:
            raise ValueError(f"handles must be those that register gave, from 0 up to {self._bank.size - 1}")
        finite = np.isfinite(values)
        if not finite.all():
            where = int(np.argmin(finite))
            raise ValueError(
                f"values must be finite, got {values[where]} for item {self._keys[handles[where]]!r}, "
                f"at position {where}"
            )

    def _stamp(
        self, now: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> int:
        # Equal stamps are one transaction; but what was drained has said "everything through this stamp".
        steps_back = now < self.clock or now <= self._through
        at = self.clock + 1 if steps_back else now
        self._reach(at, handles, values)
        return at

    def _reach(
        self, at: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> None:
        """Let time come to `at`, when `handles` get their `values`."""
        if self.clock == NO_TIME:
            self._passed, self._said = boundaries_passed(at, self._period), at
            self._bank.tick = at // self._tick
        if self._sums.sets:
            self._sums.pass_tick(at // self._tick, self._bank.last, self._bank.known)
        if self._bank.forecasts and self._count:
            while (following := (self._bank.tick + 1) * self._tick) <= at:
                moment = self._leap(following, at // self._tick * self._tick, self._tick)
                self._pass_boundaries(moment)
                self._come_to(moment)
                new = (handles, values) if moment == at else (None, None)
                self._send("update", self._bank.pass_tick(moment // self._tick, *new), moment)
                # Behind the tick: what is recentred now counts its ticks from this one, as the row's time tells.
                self._enforce_pending(moment)
        self._bank.tick = at // self._tick
        self._pass_boundaries(at)
        self._come_to(at)
        self._enforce_pending(at)

    def _leap(self, following: int, last: int, step: int) -> int:
        """Where time comes to next, of the ticks or boundaries up to the last. After a sleep of very many, and of more
        than a lease, that is the last: nobody has trusted this source meanwhile.
        """
        return last if last - following > max(LEAP * step, self._lease) else following

    def _come_to(self, moment: int) -> None:
        self.clock = moment
        self._bank.now = moment

    def _pass_boundaries(self, at: int) -> None:
        target = boundaries_passed(at, self._period)
        while self._passed < target:
            idle = not self._pending and not self._bank.can_leave()
            following, last = (passed * self._period for passed in (self._passed + 1, target))
            self._passed = target if idle else self._leap(following, last, self._period) // self._period
            self._boundary(self._passed * self._period + 1)

    def _boundary(self, moment: int) -> None:
        self._come_to(moment)
        self._bank.decay(self._passed)
        self._enforce_pending(moment)
        self._reapply(moment)

    def _reapply(self, moment: int) -> None:
        """Apply all filters again after a shrink. Without this step the promise breaks."""
        self._send("update", self._bank.outside(), moment)

    def _enforce_pending(self, at: int) -> None:
        if self._pending:
            due = {handle: grant for handle, grant in self._pending.items() if grant.since <= at}
            self._enforce(due, at)

    def _enforce(self, grants: dict[int, Grant], at: int) -> None:
        """Put grants of items that have a value in force; acknowledge those that ask for it."""
        if not grants:
            return
        for handle in grants:
            self._pending.pop(handle, None)
        handles = np.array(list(grants), np.int64)
        confirm = np.array([grant.confirm for grant in grants.values()])
        ways = self._bank.ways(handles[confirm], at - self._memory)
        self._put_in_force(handles, list(grants.values()))
        asked = self._bank.recentre(handles[confirm])
        self._send("ack", asked, at, ways)
        self._send("update", self._bank.outside(handles[~confirm]), at)
        if self.watch:
            self.watch(at, handles)

    def _put_in_force(self, handles: NDArray[np.int64], grants: Sequence[Grant]) -> None:
        new = self._bank.version[handles] != [grant.version for grant in grants]  # a leave that is over stays over
        self._bank.enforce(
            handles,
            np.array([grant.width for grant in grants]),
            np.array([grant.shrink for grant in grants]),
            np.array([boundaries_passed(grant.since, self._period) for grant in grants], np.int64),
            np.array([grant.version for grant in grants], np.int64),
            np.array([grant.unit for grant in grants]),
            self._passed,
        )
        self._bank.let(
            handles[new],
            np.array([grant.far for grant in grants], np.int8)[new],
            np.array([grant.leave for grant in grants])[new],
        )

    def _begin(self, handles: NDArray[np.int64], at: int) -> None:
        """First values: in force is the newest grant whose time has come, and the hello that says so also confirms
        it.
        """
        if not len(handles):
            return
        granted: dict[int, Grant] = {}
        for handle in handles.tolist():
            grant = self._newest.get(self._keys[handle])
            if grant is not None and grant.since <= at:
                granted[handle] = grant
            elif grant is not None:
                self._pending[handle] = grant
        if granted:
            self._put_in_force(np.array(list(granted), np.int64), list(granted.values()))
        self._bank.begin(handles, self._passed)
        self._count += len(handles)
        self._send("hello", handles, at)

    def _send(
        self, kind: str, handles: NDArray[np.int64], at: int, ways: list[list[Piece] | None] | None = None
    ) -> None:
        if len(handles):
            bank = self._bank
            self._outbox.add(
                kind,
                handles,
                at,
                bank.level[handles],
                bank.version[handles],
                bank.slope[handles],
                bank.reports(handles, whole=kind != "update"),
                ways,
            )
            bank.far[handles] = 0
            self._said = at
            if self.watch:
                self.watch(at, handles)
