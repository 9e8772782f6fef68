"""The live poller: says which items to pull now, given the queries and the results of earlier pulls."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import Schema, State
from tolerant.polling.arrangement import Arrangement
from tolerant.polling.carry_over import carry_over
from tolerant.polling.choice.lanes import set_limits
from tolerant.polling.choice.risk import count_unreachable, recompute_variances
from tolerant.polling.choice.risk_calibration import draw_errors
from tolerant.polling.feedback import end_window
from tolerant.polling.model.chain_execution import advance
from tolerant.polling.model.pull_update import apply_pull, expire_unanswered
from tolerant.polling.polled_answer import PolledAnswer, values_in_use
from tolerant.polling.poller_snapshot import PARTS, load_arrays, saved_arrays
from tolerant.polling.polling_options import PUSHES, PollingOptions, takes_polling_options
from tolerant.polling.query_arrays import coefficients
from tolerant.polling.tick import decide, end_tick, mark_due
from tolerant.polling.trust import assess
from tolerant.queries import Aggregate

_SCHEMA = Schema("poller", 1)
LONGEST_WAIT = 16
"""The most ticks from a failed pull to the next try: an outage that has ended should be noticed soon."""


class Poller:
    """Decides tick by tick which items to pull, so that every query keeps its promise with the fewest pulls.

    The keywords are the fields of `PollingOptions`. A tick is whatever the caller counts. Call `due` with growing
    ticks, and report every item that it names as `pulled`, `unchanged` or `failed` before the next call; one that is
    none of the three counts as not pulled. `due(0)`, `due(1)`, … with every item pulled decides as `simulate` does,
    pull for pull.

    >>> poller = Poller([Aggregate.over("both", "sum", ["x", "y"], within=3, fidelity=0.95)], "risk")
    >>> poller.due(0)
    ['x', 'y']
    >>> poller.pulled("x", 10.0, 0)
    >>> poller.pulled("y", 20.0, 0)
    >>> [(answer.query, answer.low, answer.value, answer.high) for answer in poller.answers()]
    [('both', 27.0, 30.0, 33.0)]
    """

    @takes_polling_options
    def __init__(self, queries: Iterable[Aggregate] = (), chooser: str = "max", **keywords: Any) -> None:
        if chooser in PUSHES:
            raise ValueError(f"chooser {chooser!r} needs to know every value; a poller cannot run it")
        self._start(PollingOptions(chooser, **keywords), queries)

    def _start(self, options: PollingOptions, queries: Iterable[Aggregate], report: float = 0.0) -> None:
        self.options = options
        self._settings = options.settings(report=True)
        self._now: int | None = None
        self._origin = 0
        self._report = report
        self._listed: dict[str, float] = {}  # the value that `answers` listed last, by query
        self._hint = np.zeros(1, np.int64)
        self._means = np.full(2, np.nan)
        self._arranged = self._arrange(queries)

    # -- what it knows -----------------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """The tick of the last `due`; None before the first."""
        return self._now

    @property
    def queries(self) -> list[Aggregate]:
        """The queries, in the order in which they are processed."""
        return list(self._arranged.queries.values())

    @property
    def items(self) -> list[str]:
        """The items that some query refers to."""
        return list(self._arranged.index)

    def __contains__(self, item: str) -> bool:
        """Whether some query refers to the item."""
        return item in self._arranged.index

    def last_pull(self, item: str) -> tuple[float, int] | None:
        """Return the value pulled last and its tick; None before the first pull."""
        record = self._record(item)
        return None if record["last"] < 0 else (float(record["value"]), int(record["last"]))

    # -- deciding ----------------------------------------------------------------------------------------------------

    def due(self, at: int) -> list[str]:
        """Return the items to pull at tick `at`. Ticks may be skipped; the chains are then advanced by as many."""
        arranged = self._arranged
        if self._now is None:
            self._now = self._origin = int(at)
            mark_due(arranged.rows, arranged.items, False, int(at))
        elif at < self._now:
            raise ValueError(f"at must not go back, got {at} after {self._now}")
        elif at > self._now:
            self._finish(self._now, int(at))
            self._now = int(at)
            advance(arranged.items, arranged.chains, self._now)
            set_limits(arranged.lanes, arranged.table)
            decide(
                arranged.table, arranged.links, arranged.lanes, arranged.rows, arranged.items,
                arranged.correlations.correlation, self._settings, arranged.servers, arranged.workspace, self._hint,
                self._now,
            )  # fmt: skip
        marked = arranged.items["marked"]
        return [name for name, i in arranged.index.items() if marked[i]]

    def _finish(self, now: int, following: int) -> None:
        """End tick `now`, and the window that it is in if the next tick is beyond it."""
        arranged, size = self._arranged, self._settings.window
        expire_unanswered(arranged.rows, arranged.items, now)
        count_unreachable(arranged.rows, arranged.items, now)
        self._assess(now)
        if now <= self._origin:
            return
        if arranged.window.held.size:
            used = values_in_use(arranged.items, now)
            for tick in range(now, min(following, now + size)):
                arranged.window.held[:, (tick - 1) % size] = used
        end_tick(arranged.rows, arranged.items, arranged.correlations, self._settings, now, following - now)
        end = -(-now // size) * size
        self._record_ticks(now, min(end + 1, following))
        if end < following:
            end_window(
                arranged.table, arranged.links, arranged.rows, arranged.items, arranged.window, end, self._origin,
                self._settings, self._means,
            )  # fmt: skip
            self._record_ticks(max(end + 1, following - size), following)

    def _record_ticks(self, first: int, stop: int) -> None:
        """Record for these ticks of one window which queries could not be kept, and what items may have done."""
        arranged = self._arranged
        if first < stop and arranged.window.excused.size:
            begin = (first - 1) % self._settings.window
            arranged.window.excused[:, begin : begin + stop - first] = arranged.states[:, np.newaxis]
        if self._settings.calibrated:
            for tick in range(first, stop):
                draw_errors(arranged.items, arranged.chains, arranged.window, tick)

    def _assess(self, tick: int) -> None:
        """Assess which queries can be kept at a tick, in `states` of the arrangement."""
        arranged, options = self._arranged, self.options
        risks = np.empty(len(arranged.table))
        assess(
            arranged.table, arranged.links, arranged.items, tick, options.oldest, options.patience, options.calibrated,
            risks, arranged.states,
        )  # fmt: skip

    def pulled(self, item: str, value: float, at: int, updates: Sequence[float] | None = None) -> None:
        """Apply the result of a pull: the item's value at tick `at`. A value older than the last one is dropped.

        updates: with `intermediates`, the values of every tick since the last pull, this one included.
        """
        arranged, i = self._arranged, self._index_of(item)
        if not math.isfinite(value):
            raise ValueError(f"value of item {item!r} must be finite, got {value}")
        if self._now is None or at > self._now:
            raise ValueError(f"at must not be after the tick of the last due(), {self._now}, got {at}")
        path = self._path(item, arranged.items[i], at, updates)
        apply_pull(
            arranged.rows, arranged.items, arranged.chains, arranged.window, arranged.correlations, self._settings,
            i, float(value), int(at), self._now, path,
        )  # fmt: skip

    def _path(self, item: str, record: Any, at: int, updates: Sequence[float] | None) -> NDArray[np.float64]:
        if updates is None or record["last"] < 0 or at <= record["last"]:
            return np.zeros(0)
        path = np.array(updates, np.float64)
        if not self.options.intermediates:
            raise ValueError("updates need a poller with intermediates=True")
        if len(path) != at - record["last"] or not np.isfinite(path).all():
            raise ValueError(
                f"updates of item {item!r} must be {at - record['last']} finite values, one per tick, got {len(path)}"
            )
        return path

    def unchanged(self, item: str, at: int, fresh_until: int | None = None) -> None:
        """Apply a pull whose result was "not changed" (HTTP's 304): like any other, with the value pulled last.

        fresh_until: the first tick at which it may have changed again; it is not pulled before.
        """
        last = self.last_pull(item)
        if last is None:
            raise ValueError(f"item {item!r} has no value yet that could be unchanged")
        self.pulled(item, last[0], at)
        if fresh_until is not None:
            self.block(item, fresh_until)

    def failed(self, item: str, at: int) -> int:
        """Apply a failed pull: nothing is learned, the value keeps aging. Returns the tick of the next try.

        Each failure in a row doubles the wait, up to 16 ticks or `max_interval`.
        """
        record = self._record(item)
        wait = min(1 << min(int(record["failures"]), 30), LONGEST_WAIT, self.options.max_interval)
        record["failures"] += 1
        self.block(item, int(at) + wait)
        return int(at) + wait

    def invalidate(self, item: str) -> None:
        """Forget the item's value: the result of a pull was lost, so that nothing is claimed until the next one."""
        self._record(item)["last"] = -1

    def block(self, item: str, until: int) -> None:
        """Do not pull the item before tick `until`."""
        record = self._record(item)
        record["blocked"] = max(int(record["blocked"]), int(until))

    def resume(self, items: Iterable[str]) -> None:
        """Unblock these items at once, however long they were to wait: their server answers again."""
        arranged = self._arranged
        for item in items:
            if item in arranged.index:
                arranged.items[arranged.index[item]]["blocked"] = 0

    # -- answering ---------------------------------------------------------------------------------------------------

    def answers(self, at: int | None = None, report: float = 0.0) -> list[PolledAnswer]:
        """Return the queries whose value has moved by more than `report`·within since they were last listed here.

        With `report` > 0 the poller itself works with (1 − report)·within from then on, so that what a client received
        last is within the tolerance as often as promised.
        """
        if not 0 <= report < 1:
            raise ValueError(f"report must be in [0, 1), got {report}")
        if report != self._report:
            self._report = report
            self._set_queries(self.queries)
        listed = []
        for answer in self.current(at):
            before = self._listed.get(answer.query)
            within = self._arranged.queries[answer.query].within
            if before is None or abs(answer.value - before) > report * within:
                self._listed[answer.query] = answer.value
                listed.append(answer)
        return listed

    def current(self, at: int | None = None, only: Collection[str] | None = None) -> list[PolledAnswer]:
        """Return the answer of every query; one with an item that was never pulled is left out.

        only: names of queries; default: all.
        """
        if self._now is None:
            return []
        arranged = self._arranged
        now = self._now if at is None else max(int(at), self._now)
        names = list(arranged.queries if only is None else only)
        queries, places = [arranged.queries[name] for name in names], [arranged.places[name] for name in names]
        return PolledAnswer.of(queries, arranged.table[places], arranged.links, arranged.items, now, self.options)

    def disturbed(self) -> frozenset[str]:
        """Return the queries of which some item is unreachable or too old by now."""
        if self._now is None:
            return frozenset()
        self._assess(self._now)
        states, places = self._arranged.states, self._arranged.places
        return frozenset(name for name, place in places.items() if states[place]) if states.any() else frozenset()

    def overdue(self) -> frozenset[str]:
        """Return the items that are unreachable, or whose values are too old to answer with, by now."""
        now, items, index = self._now or 0, self._arranged.items, self._arranged.index
        away = (items["failures"] > 0) | (items["missing"] > 0) | (now - items["last"] > self.options.oldest)
        away &= items["last"] >= 0
        return frozenset(name for name, i in index.items() if away[i]) if away.any() else frozenset()

    def figures(self) -> dict[str, NDArray[Any]]:
        """Return what is known of each item, in the order of `items`: its value (NaN before the first pull), the tick
        of its last pull (−1), the number of pulls, the variance of its change per tick, and failures in a row.
        """
        items = self._arranged.items
        columns = {name: items[name].copy() for name in ("value", "last", "pulls", "variance", "failures")}
        columns["value"][columns["last"] < 0] = np.nan
        return columns

    # -- changing the queries ----------------------------------------------------------------------------------------

    def set_queries(self, queries: Iterable[Aggregate], servers: Mapping[str, str] | None = None) -> None:
        """Have these queries and no others; everything known of those that stay, and of their items, is kept.

        servers: from items to servers; default: as they are.
        """
        if servers is not None:
            self.options = replace(self.options, servers=servers)
        self._set_queries(queries)

    def add(self, query: Aggregate) -> None:
        """Add a query; items that are new are pulled at the next `due`."""
        self._set_queries([*self.queries, query])

    def drop(self, name: str) -> None:
        """Remove a query, and the items that only it referred to."""
        self._require(name)
        self._set_queries([query for query in self.queries if query.name != name])

    def alter(self, name: str, *, within: float | None = None, fidelity: float | None = None) -> None:
        """Give a query another tolerance or fidelity; what was learned of its items is kept."""
        self._require(name)
        old = self._arranged.queries[name]
        new = Aggregate(
            name,
            old.fn,
            old.weights,
            old.within if within is None else within,
            old.fidelity if fidelity is None else fidelity,
        )
        self._set_queries([new if query.name == name else query for query in self.queries])

    def replace(self, query: Aggregate) -> None:
        """Replace the query of the same name, for instance by products at newly pulled values.

        Weights that change only in size are changed in place; what was learned and the feedback are kept.
        """
        self._require(query.name)
        old = self._arranged.queries[query.name]
        if (query.fn, query.within, query.fidelity) == (old.fn, old.within, old.fidelity) and (
            coefficients(query).keys() == coefficients(old).keys()
        ):
            self._arranged.reweigh(query)
            self._recompute_variances()
        else:
            self._set_queries([query if each.name == query.name else each for each in self.queries])

    def _arrange(self, queries: Iterable[Aggregate]) -> Arrangement:
        return Arrangement.of(queries, self.options, self._settings, live=True, scale=1.0 - self._report)

    def _set_queries(self, queries: Iterable[Aggregate]) -> None:
        """Arrange these queries, with everything that is known carried over."""
        arranged = self._arrange(queries)
        if self._arranged.queries:
            carry_over(self._arranged, arranged)
        self._arranged = arranged
        self._listed = {name: value for name, value in self._listed.items() if name in arranged.queries}
        self._hint[0] = 0
        self._recompute_variances()

    def _recompute_variances(self) -> None:
        if self._now is not None:
            recompute_variances(self._arranged.rows, self._arranged.items, self._now)

    def _index_of(self, item: str) -> int:
        if item not in self._arranged.index:
            raise ValueError(f"item {item!r} is in no query")
        return self._arranged.index[item]

    def _record(self, item: str) -> Any:
        return self._arranged.items[self._index_of(item)]

    def _require(self, name: str) -> None:
        if name not in self._arranged.queries:
            raise ValueError(f"no query is called {name!r}")

    # -- state -------------------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return everything, for a snapshot."""
        return State(
            saved_arrays(self._arranged),
            options=asdict(self.options),
            queries=[[q.name, q.fn, dict(q.weights), q.within, q.fidelity] for q in self.queries],
            now=self._now,
            origin=self._origin,
            report=self._report,
            listed=self._listed,
            hint=self._hint.copy(),
        )

    def load(self, state: State) -> None:
        """Become the poller whose `state` this is, bit for bit.

        Raises:
            ValueError: no poller can have had this state. This one must not be used any more.
        """
        options, queries, now, origin, report, listed, hint, *parts = state.exactly(
            "options", "queries", "now", "origin", "report", "listed", "hint", *PARTS
        )
        self._start(PollingOptions(**options), [Aggregate(*query) for query in queries], report)
        self._now, self._origin, self._listed = now, origin, dict(listed)
        tick = -1 if now is None else now
        if type(origin) is not int or type(tick) is not int or not -1 <= tick < 2**62:
            raise ValueError(f"now is {tick!r:.80}, the origin {origin!r:.80}: expected ticks")
        load_arrays(self._arranged, dict(zip(PARTS, parts, strict=True)), tick)
        self._hint[:] = hint

    def save(self) -> bytes:
        """Return the whole poller as bytes."""
        return _SCHEMA.pack(self.state())

    @classmethod
    def restore(cls, saved: bytes) -> Poller:
        """Return the poller that `save` made the bytes from; it decides as that one would have."""
        poller = cls()
        poller.load(_SCHEMA.unpack(saved))
        return poller
