"""The source's side of the protocol as a pure state machine: no threads, no clock, no I/O (`docs/design/pipeline.md`
§2, §4).

Time is passed in, rows are returned by `drain`. What the rest of the system relies on:

- `at` never goes back, and a row drained later has a greater `at` than every `through` drained before.
- The end of a period, pT, is processed before anything is stamped later than pT; its rows are stamped pT + 1.
- A last offered value is never outside its filter: after widths shrink the source applies its filters again by itself,
  and so it does after centres move: at every multiple of the tick, before anything else is stamped with it.
- The newest version of a grant counts, from its arrival but not before its `since`; older ones are ignored.
- A suppression ends as soon as its item sends a row. A row that replies to a probe reports the item's history.
- When filters change by themselves (centres at a tick, widths at the end of a period), a row confirms that the source
  was alive: a heartbeat, if there is no other row. Otherwise a crashed source would look the same.
- A filtered sum (`sum_filter`) has the values of its items at every stamp, and is gone when one of them is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.edge.event_clock import EventClock
from tolerant.edge.filter_array import FilterArray, FilterState
from tolerant.edge.grant_table import GrantTable
from tolerant.edge.outbox import Outbox
from tolerant.edge.source_sums import SourceSumGroup, SourceSums
from tolerant.edge.sum_filter import SumFilter, SumTotals
from tolerant.filters.form_costs import QUERIES
from tolerant.streams import StreamOptions, is_sum
from tolerant.transport.rows import Grant, TimedRange
from tolerant.transport.sums import SumOffers

_NO_ITEM = np.array([-1])


class SourceCore:
    """The items of one source in one epoch.

    Items are named by their key text, and addressed by the handle that `register` returns. All times are microseconds
    of the source's own clock; `now` may step back, `at` does not. `moves_from`: as of `FilterArray`.

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
        self.watch: Callable[[int, NDArray[np.int64]], None] | None = None
        """Called with (at, handles) whenever filters were recentred or given another grant, for audits."""
        predicts = options.policy == "predictive"
        self._time = EventClock(options)
        self._filters = FilterArray(predicts, moves_from)
        self._grants = GrantTable()
        self._sum_filter = SumFilter(self._filters, SourceSums(predicts, options.period), self.register)
        self._outbox = Outbox(source, epoch)
        # Longer than an answer waits, since clocks differ; by a percentile it may wait for a lease.
        self._reported_span = options.lease if options.latency_percentile else 2 * options.latency
        self._heartbeat_after = max(1, options.lease // 3)
        self._keys: list[str] = []
        self._handles: dict[str, int] = {}
        self._count = 0  # of items and sums that have a value

    @property
    def clock(self) -> int:
        """The stamp of the newest event."""
        return self._time.now

    # -- called by the application --------------------------------------------------------------------------------

    def register(self, keys: Iterable[str]) -> NDArray[np.int64]:
        """Return the handles of these items, known ones or new; nothing is sent before an item's first value."""
        keys = list(keys)
        new = [key for key in dict.fromkeys(keys) if key not in self._handles]
        for key, handle in zip(new, self._filters.add(len(new)).tolist(), strict=True):
            self._handles[key] = handle
            self._keys.append(key)
        return np.array([self._handles[key] for key in keys], np.int64)

    def offer(self, handles: NDArray[np.int64], values: NDArray[np.float64], now: int) -> int:
        """Apply the items' new values and return their stamp; rows that have to be sent wait for `drain`.

        All values of one call have one stamp; of a repeated handle the last one counts.

        Raises:
            ValueError: a handle is unknown, or a value not a finite number; nothing of the call was applied.
        """
        self._check(handles, values)
        sums, totals, overflowed = self._sums_of(handles, values)
        if len(sums):
            handles, values = np.append(handles, sums), np.append(values, totals)
        at = self._stamp(now, handles, values)
        self._apply_values(handles, values, at)
        self._end_sums(overflowed, at)
        self._compare_forms(at)
        return at

    def remove(self, handle: int, now: int) -> int:
        """Remove an item and return the stamp. Its handle stays valid: a new value makes the item exist again."""
        if not 0 <= handle < self._filters.size or not self._filters.known[handle]:
            raise ValueError("an item can be removed only while it has a value")
        at = self._stamp(now)
        self._end_sums(self._sum_filter.containing([handle]), at)
        self._remove(np.array([handle]), at)
        return at

    def nearest(self, now: int) -> int:
        """Return `now`, or the tick just before it: predicted centres move at ticks, so readings that are taken once
        per tick are best compared with them then.
        """
        return self._time.nearest(now) if self._filters.forecasts and self._count else now

    # -- called by the transport ----------------------------------------------------------------------------------

    def give_up(self, keys: Iterable[str], now: int) -> list[str]:
        """Forget items that another source has taken with a hello, until their next value takes them back; return
        those that had a value here.
        """
        lost = [key for key in keys if (handle := self._handles.get(key)) is not None and self._filters.known[handle]]
        if lost:
            at, handles = self._stamp(now), np.array([self._handles[key] for key in lost])
            self._end_sums(self._sum_filter.containing(handles.tolist()), at)
            self._forget(handles)
        return lost

    def grant(self, grants: Sequence[Grant], now: int) -> None:
        """Apply grants in any order, repeated or not; those of other sources' items are ignored."""
        fresh = self._grants.add(grants, self._handles)
        known = {handle: grant for handle, grant in fresh.items() if self._filters.known[handle]}
        if known:
            at = self._stamp(now)
            self._enforce(self._grants.split(known, at), at)

    def apply_sum_offers(self, offers: Iterable[SumOffers], now: int) -> None:
        """Apply offers of sums that may be filtered instead of items; at a start they come before the grants."""
        changes = self._sum_filter.apply_offers(offers)
        if changes.withdrawn:
            self._end_sums(changes.withdrawn, self._stamp(now))
        items = self._sum_filter.begin(changes.to_begin)
        if any(map(self._sum_filter.is_complete, changes.to_begin)):
            self._start_sums(items, self._stamp(now))

    def advance(self, now: int) -> None:
        """Advance time: ends of periods, grants whose time has come, and a heartbeat when nothing was sent for a third
        of the lease.
        """
        if now > self.clock:
            self._reach(now)
            self._compare_forms(now)
        # Also where values with this very stamp have moved the clock already: they may all be within their filters.
        silent = self.clock - self._time.last_row >= self._heartbeat_after
        if self._count and self.clock > self._time.through and silent:
            self._send_heartbeat()

    def due(self) -> int | None:
        """Return the time at which `advance` has to be called at the latest; None: there is nothing to wait for."""
        if not self._count:
            return None
        step = (self._time.periods + 1) * self._time.period + 1
        if self._filters.forecasts:
            step = min(step, (self._filters.tick + 1) * self._time.tick)
        return min([step, self._time.last_row + self._heartbeat_after, *self._grants.waiting])

    def wait_for_readings(self, now: int) -> int:
        """Return how far to `advance` while readings at the tick may still come: `now`, or just before that tick."""
        tick = self.nearest(now)
        return now if tick == now else tick - 1

    def drain(self) -> pa.RecordBatch | None:
        """Remove and return the rows since the last call, in order, for one append; None: there are none.

        Appends must be made in this order. A heartbeat is added if there is no row and filters changed by themselves.
        """
        if self._owes_a_row():
            self._send_heartbeat()
        if not len(self._outbox):
            return None
        self._time.through = self.clock
        return self._outbox.drain(self._keys, self.clock)

    def compare_forms(self) -> None:
        """Compare the costs of items and sums in every group, as `advance` does once in some periods."""
        for group in self._sum_filter.sums.groups.values():
            self._sum_filter.sums.better(group)

    # -- state ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """Return how many rows wait to be drained."""
        return len(self._outbox)

    def key(self, handle: int) -> str:
        """Return the key text of a handle."""
        return self._keys[handle]

    def items(self) -> list[str]:
        """Return the keys of all items that have a value."""
        known = (self._keys[handle] for handle in np.flatnonzero(self._filters.known[: self._filters.size]).tolist())
        return [key for key in known if not is_sum(key)]

    def sums(self) -> dict[str, dict[str, float]]:
        """Return the sums that are filtered: key → the weight of each item."""
        return self._sum_filter.weights()

    def filter_of(self, key: str) -> FilterState | None:
        """Return the filter of an item at `clock`; None while it has no value."""
        handle = self._handles.get(key)
        return None if handle is None else self._filters.state(handle)

    # -- values ---------------------------------------------------------------------------------------------------

    def _check(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        if len(handles) != len(values):
            raise ValueError(f"items and values must be of one length, got {len(handles)} and {len(values)}")
        if len(handles) and not 0 <= handles.min() <= handles.max() < self._filters.size:
            raise ValueError(f"handles must be those that register gave, from 0 up to {self._filters.size - 1}")
        finite = np.isfinite(values)
        if not finite.all():
            where = int(np.argmin(finite))
            raise ValueError(
                f"values must be finite, got {values[where]} for item {self._keys[handles[where]]!r}, "
                f"at position {where}"
            )

    def _apply_values(self, handles: NDArray[np.int64], values: NDArray[np.float64], at: int) -> None:
        passed = self._filters.offer(handles, values)
        if len(passed):
            known = self._filters.known[passed]
            self._begin(passed[~known], at)
            self._send("update", passed[known], at)

    def _begin(self, handles: NDArray[np.int64], at: int) -> None:
        """Start items with their first values: the newest grant whose time has come is in force, and the hello also
        confirms it.
        """
        if not len(handles):
            return
        granted = self._grants.split(self._grants.of_items(handles.tolist(), self._keys), at)
        if granted:
            self._put_in_force(np.array(list(granted), np.int64), list(granted.values()))
        self._filters.begin(handles, self._time.periods)
        self._count += len(handles)
        self._send("hello", handles, at)

    def _remove(self, handles: NDArray[np.int64], at: int) -> None:
        filters = self._filters
        filters.level[handles], filters.slope[handles] = filters.last[handles], 0.0  # a gone row has the last value
        self._send("gone", handles, at)
        self._forget(handles)

    def _forget(self, handles: NDArray[np.int64]) -> None:
        for handle in handles.tolist():
            self._filters.forget(handle)
        self._grants.settle(handles.tolist())
        self._count -= len(handles)

    # -- sums -----------------------------------------------------------------------------------------------------

    def _sums_of(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> SumTotals:
        return self._sum_filter.totals(handles, values)

    def _start_sums(self, items: NDArray[np.int64], at: int) -> None:
        """Give the sums of these items, which have values, their first values."""
        sums, totals, overflowed = self._sums_of(items, self._filters.last[items])
        self._apply_values(sums, totals, at)
        self._end_sums(overflowed, at)

    def _end_sums(self, groups: Sequence[SourceSumGroup], at: int) -> None:
        """Remove the sums of these groups for good."""
        if groups:
            self._remove(self._sum_filter.end(groups), at)

    def _compare_forms(self, at: int) -> None:
        """Filter sums where they have become cheaper, and request items where those have."""
        if not self._count:
            return
        for group, form in self._sum_filter.transitions(self._time.periods):
            if not group.active:
                self._start_sums(self._sum_filter.begin([group]), at)
            else:
                group.requested_form = form
                first, wants_sums = group.sums[:1], np.full(1, float(form == QUERIES))
                self._outbox.add("form_request", first, at, wants_sums, self._filters.version[first])
                self._time.last_row = at

    # -- time -----------------------------------------------------------------------------------------------------

    def _stamp(
        self, now: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> int:
        at = self._time.stamp(now)
        self._reach(at, handles, values)
        return at

    def _reach(
        self, at: int, handles: NDArray[np.int64] | None = None, values: NDArray[np.float64] | None = None
    ) -> None:
        """Advance to `at`, when `handles` get their `values`."""
        time, filters = self._time, self._filters
        if not time.started:
            time.start(at)
            filters.tick = at // time.tick
        self._sum_filter.pass_tick(at // time.tick)
        if filters.forecasts and self._count:
            while (moment := time.next_tick(filters.tick, at)) is not None:
                self._end_periods(moment)
                self._set_clock(moment)
                new = (handles, values) if moment == at else (None, None)
                self._send("update", filters.pass_tick(moment // time.tick, *new), moment)
                # After the tick: a filter that is recentred now counts its ticks from this one, as its row's time says.
                self._enforce_due(moment)
        filters.tick = at // time.tick
        self._end_periods(at)
        self._set_clock(at)
        self._enforce_due(at)

    def _set_clock(self, moment: int) -> None:
        self._time.now = self._filters.now = moment

    def _end_periods(self, at: int) -> None:
        while self._time.periods < self._time.periods_at(at):
            idle = not self._grants.waiting and not self._filters.can_leave()
            self._time.periods = self._time.next_periods(at, idle=idle)
            self._end_period(self._time.periods * self._time.period + 1)

    def _end_period(self, moment: int) -> None:
        self._set_clock(moment)
        self._filters.decay(self._time.periods)
        self._enforce_due(moment)
        self._reapply(moment)

    def _reapply(self, moment: int) -> None:
        """Apply all filters again after a shrink. Without this step the promise breaks."""
        self._send("update", self._filters.outside(), moment)

    # -- grants ---------------------------------------------------------------------------------------------------

    def _enforce_due(self, at: int) -> None:
        self._enforce(self._grants.due(at), at)

    def _enforce(self, grants: Mapping[int, Grant], at: int) -> None:
        """Put grants of items that have a value in force; acknowledge those that ask for it."""
        if not grants:
            return
        self._grants.settle(grants)
        handles = np.array(list(grants), np.int64)
        confirm = np.array([grant.confirm for grant in grants.values()])
        histories = self._filters.histories(handles[confirm], at - self._reported_span)
        self._put_in_force(handles, list(grants.values()))
        self._send("ack", self._filters.recentre(handles[confirm]), at, histories)
        self._send("update", self._filters.outside(handles[~confirm]), at)
        if self.watch:
            self.watch(at, handles)

    def _put_in_force(self, handles: NDArray[np.int64], grants: Sequence[Grant]) -> None:
        # A repeated grant must not renew a suppression that has ended.
        new = self._filters.version[handles] != [grant.version for grant in grants]
        self._filters.enforce(
            handles,
            np.array([grant.width for grant in grants]),
            np.array([grant.shrink for grant in grants]),
            np.array([self._time.periods_at(grant.since) for grant in grants], np.int64),
            np.array([grant.version for grant in grants], np.int64),
            np.array([grant.unit for grant in grants]),
            self._time.periods,
        )
        self._filters.set_suppression(
            handles[new],
            np.array([grant.far for grant in grants], np.int8)[new],
            np.array([grant.leave for grant in grants])[new],
        )

    # -- rows -----------------------------------------------------------------------------------------------------

    def _send(
        self, kind: str, handles: NDArray[np.int64], at: int, histories: list[list[TimedRange] | None] | None = None
    ) -> None:
        if len(handles):
            filters = self._filters
            self._outbox.add(
                kind,
                handles,
                at,
                filters.level[handles],
                filters.version[handles],
                filters.slope[handles],
                filters.reports(handles, whole=kind != "update"),
                histories,
            )
            filters.suppress_side[handles] = 0
            self._time.last_row = at
            if self.watch:
                self.watch(at, handles)

    def _send_heartbeat(self) -> None:
        self._outbox.add("heartbeat", _NO_ITEM, self.clock, np.zeros(1), np.zeros(1, np.int64))
        self._time.last_row = self.clock

    def _owes_a_row(self) -> bool:
        """Return whether filters have changed by themselves since the last row, and no row is waiting."""
        if len(self._outbox):
            return False
        tick, period_end = self._filters.tick * self._time.tick, self._time.periods * self._time.period + 1
        through = self._time.through
        return (through < tick and self._filters.moves()) or (through < period_end and self._filters.shrinks())
