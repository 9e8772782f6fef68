"""The poller, live: told which queries there are and what pulls brought, it says what to ask for now."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.polling.answers import PolledAnswer, values_of
from tolerant.polling.arrays import Chains, Links, Records, Room, States, Window
from tolerant.polling.calibration import draw
from tolerant.polling.carry import carried, rescale
from tolerant.polling.execution import advance
from tolerant.polling.feedback import end_window
from tolerant.polling.lanes import Lanes, lanes_of, set_limits
from tolerant.polling.learning import give_up, take
from tolerant.polling.options import PATIENCE, PUSHES, Options
from tolerant.polling.problem import (
    coefficients,
    fresh_items,
    fresh_window,
    queries_of,
    referred,
    room_for,
    set_bounds,
    start_feedback,
)
from tolerant.polling.risk import LEARNED, Rows, count_lost, refresh, rows_of
from tolerant.polling.shares import shares
from tolerant.polling.tick import ANY_OVER, RISK, close, decide, mark_due
from tolerant.polling.together import Together, nothing_together
from tolerant.polling.trust import assess
from tolerant.queries import Aggregate

_VERSION = 3
LONGEST_WAIT = 16
"""Ticks that an item which fails is waited for at most: what is over should not be waited for."""


class Poller:
    """Decides tick by tick which items to ask for, so that every query keeps its promise with the fewest pulls.

    The keywords are those of `simulate`, and two more. stale_after: ticks after which a value is too old to answer
    with, whatever the model says of its item; default: a little more than `max_interval`. patience: ticks that an
    answer may take before its item counts as one that cannot be had.

    A tick is whatever the caller counts; `due` is called with growing ticks, and
    every item that it names is either `pulled`, `unchanged` or `failed` before the next call (one that is none of the
    three counts as not asked for). `due(0)`, `due(1)`, … with every item pulled is what `simulate` does, pull for pull.

    >>> poller = Poller([Aggregate.over("both", "sum", ["x", "y"], within=3, fidelity=0.95)], "risk")
    >>> poller.due(0)
    ['x', 'y']
    >>> poller.pulled("x", 10.0, 0)
    >>> poller.pulled("y", 20.0, 0)
    >>> [(answer.query, answer.low, answer.value, answer.high) for answer in poller.answers()]
    [('both', 27.0, 30.0, 33.0)]
    """

    def __init__(
        self,
        queries: Iterable[Aggregate] = (),
        chooser: str = "max",
        *,
        pull_ratio: float = 0.8,
        max_interval: int = 60,
        smoothing: float = 0.8,
        window: int = 200,
        states: int = 21,
        safety: float | None = None,
        intermediates: bool = False,
        seed: int = 0,
        gamma: float = 0.1,
        learning_rate: float = 0.98,
        estimate: str = "interpolated",
        execution: str = "drawn",
        forecast: bool = False,
        correlated: bool = False,
        calibrated: bool = False,
        forgetting: float = 0.0,
        costs: Mapping[str, float] | None = None,
        servers: Mapping[str, str] | None = None,
        request_cost: float = 0.0,
        limit: int | None = None,
        server_limits: Mapping[str, int] | None = None,
        stale_after: int | None = None,
        patience: int = PATIENCE,
        cautious: bool = False,
    ) -> None:
        if chooser in PUSHES:
            raise ValueError(f"chooser {chooser!r} needs to know every value; a poller cannot run it")
        options = Options(
            chooser, pull_ratio, max_interval, smoothing, window, states, safety, intermediates, seed, gamma,
            learning_rate, estimate, execution, forecast, correlated, calibrated, forgetting, costs, servers,
            request_cost, limit, server_limits, stale_after, patience, cautious,
        )  # fmt: skip
        self._begin(options)
        self._arrange(list(queries))

    def _begin(self, options: Options) -> None:
        self.options = options
        self._settings = options.settings(report=True)
        self._now: int | None = None
        self._origin = 0
        self._report = 0.0
        self._said: dict[str, float] = {}
        self._hint = np.zeros(1, np.int64)
        self._means = np.full(2, np.nan)
        self._index: dict[str, int] = {}
        self._queries: dict[str, Aggregate] = {}

    # -- what there is ---------------------------------------------------------------------------------------------

    @property
    def now(self) -> int | None:
        """The tick of the last `due`; None before the first."""
        return self._now

    @property
    def queries(self) -> list[Aggregate]:
        """The queries, in the order in which they are gone through."""
        return list(self._queries.values())

    @property
    def items(self) -> list[str]:
        """The items that some query refers to."""
        return list(self._index)

    def __contains__(self, item: str) -> bool:
        """Whether some query refers to the item."""
        return item in self._index

    def held(self, item: str) -> tuple[float, int] | None:
        """The value last pulled and its tick; None before the first pull."""
        record = self._items[self._find(item)]
        return None if record["last"] < 0 else (float(record["value"]), int(record["last"]))

    # -- deciding ----------------------------------------------------------------------------------------------------

    def due(self, at: int) -> list[str]:
        """The items to ask for at tick `at`. Ticks may be left out; the chains are then brought on by as many."""
        if self._now is None:
            self._now = self._origin = int(at)
            mark_due(self._rows, self._items, False, int(at))
        elif at < self._now:
            raise ValueError(f"at must not go back, got {at} after {self._now}")
        elif at > self._now:
            self._finish(self._now, int(at))
            self._now = int(at)
            advance(self._items, self._chains, self._now)
            set_limits(self._lanes, self._table)
            decide(
                self._table, self._links, self._lanes, self._rows, self._items, self._together.correlation,
                self._settings, self._servers, self._room, self._hint, self._now,
            )  # fmt: skip
        marked = self._items["marked"]
        return [name for name, i in self._index.items() if marked[i]]

    def _finish(self, now: int, following: int) -> None:
        """End tick `now`, and the window that it is in if the next tick is beyond it."""
        give_up(self._rows, self._items, now)
        count_lost(self._rows, self._items, now)
        self._assess(now)
        if now <= self._origin:
            return
        size = self._settings.window
        if self._window.held.size:
            shown = values_of(self._items, now)
            for tick in range(now, min(following, now + size)):
                self._window.held[:, (tick - 1) % size] = shown
        close(self._rows, self._items, self._together, self._settings, now, following - now)
        end = -(-now // size) * size
        self._note(now, min(end + 1, following))
        if end < following:
            end_window(
                self._table, self._links, self._rows, self._items, self._window, end, self._origin, self._settings,
                self._means,
            )  # fmt: skip
            self._note(max(end + 1, following - size), following)

    def _note(self, first: int, stop: int) -> None:
        """Write down of these ticks, of one window, which queries could not be kept, and what items may have done."""
        if first < stop and self._window.excused.size:
            begin = (first - 1) % self._settings.window
            self._window.excused[:, begin : begin + stop - first] = self._states[:, np.newaxis]
        if self._settings.calibrated:
            for tick in range(first, stop):
                draw(self._items, self._chains, self._window, tick)

    def _assess(self, tick: int) -> None:
        """Find out which queries can be kept at a tick, in `_states`."""
        risks, options = np.empty(len(self._table)), self.options
        assess(
            self._table, self._links, self._items, tick, options.oldest, options.patience, options.calibrated, risks,
            self._states,
        )  # fmt: skip

    def pulled(self, item: str, value: float, at: int, updates: Sequence[float] | None = None) -> None:
        """A pull brought the item's value at tick `at`; one older than what is held is dropped.

        updates: with `intermediates`, the values of every tick since the last pull, this one included.
        """
        i = self._find(item)
        if not math.isfinite(value):
            raise ValueError(f"value of item {item!r} must be finite, got {value}")
        if self._now is None or at > self._now:
            raise ValueError(f"at must not be after the tick of the last due(), {self._now}, got {at}")
        path = self._path(item, self._items[i], at, updates)
        take(
            self._rows, self._items, self._chains, self._window, self._together, self._settings,
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
                f"updates of item {item!r} must be {at - record['last']} finite values, one a tick, got {len(path)}"
            )
        return path

    def unchanged(self, item: str, at: int, fresh_until: int | None = None) -> None:
        """The item was asked for and has not changed (HTTP's 304): a pull like any other, with the value held.

        fresh_until: the first tick at which it may have changed again; it is not asked for before.
        """
        held = self.held(item)
        if held is None:
            raise ValueError(f"item {item!r} has no value yet that could be unchanged")
        self.pulled(item, held[0], at)
        if fresh_until is not None:
            self.block(item, fresh_until)

    def failed(self, item: str, at: int) -> int:
        """A pull did not come: nothing is learned, the item's age goes on. The tick from which it is tried again.

        Each failure in a row doubles the wait, up to 16 ticks or `max_interval`.
        """
        record = self._items[self._find(item)]
        wait = min(1 << min(int(record["failures"]), 30), LONGEST_WAIT, self.options.max_interval)
        record["failures"] += 1
        self.block(item, int(at) + wait)
        return int(at) + wait

    def doubt(self, item: str) -> None:
        """A pull of the item was lost: what is held may be long out of date, and nothing is claimed until the next."""
        self._items[self._find(item)]["last"] = -1

    def block(self, item: str, until: int) -> None:
        """Do not ask for the item before tick `until`."""
        record = self._items[self._find(item)]
        record["blocked"] = max(int(record["blocked"]), int(until))

    def resume(self, items: Iterable[str]) -> None:
        """Try these items again at once, however long they were to be waited for: their server answers again."""
        for item in items:
            if item in self._index:
                self._items[self._index[item]]["blocked"] = 0

    # -- answering ---------------------------------------------------------------------------------------------------

    def answers(self, at: int | None = None, report: float = 0.0) -> list[PolledAnswer]:
        """The queries whose value has moved by more than `report`·within since they were last listed here.

        With `report` > 0 the poller itself works with (1 − report)·within from then on, so that what a client heard
        last is within the tolerance as often as promised.
        """
        if not 0 <= report < 1:
            raise ValueError(f"report must be in [0, 1), got {report}")
        if report != self._report:
            self._report = report
            self._arrange(self.queries)
        listed = []
        for answer in self.current(at):
            before = self._said.get(answer.query)
            within = self._queries[answer.query].within
            if before is None or abs(answer.value - before) > report * within:
                self._said[answer.query] = answer.value
                listed.append(answer)
        return listed

    def current(self, at: int | None = None, only: Collection[str] | None = None) -> list[PolledAnswer]:
        """What every query is thought to be now; one with an item that was never pulled is left out.

        only: names of queries; default: all.
        """
        if self._now is None:
            return []
        now = self._now if at is None else max(int(at), self._now)
        names = list(self._queries if only is None else only)
        queries, places = [self._queries[name] for name in names], [self._places[name] for name in names]
        return PolledAnswer.of(queries, self._table[places], self._links, self._items, now, self.options)

    def disturbed(self) -> frozenset[str]:
        """The queries of which some item cannot be had, or is too old, by now."""
        if self._now is None:
            return frozenset()
        self._assess(self._now)
        states = self._states
        return frozenset(name for name, place in self._places.items() if states[place]) if states.any() else frozenset()

    def overdue(self) -> frozenset[str]:
        """The items that cannot be had, or whose values are too old to answer with, by now."""
        now, items = self._now or 0, self._items
        away = (items["failures"] > 0) | (items["missing"] > 0) | (now - items["last"] > self.options.oldest)
        away &= items["last"] >= 0
        return frozenset(name for name, i in self._index.items() if away[i]) if away.any() else frozenset()

    def figures(self) -> dict[str, NDArray[Any]]:
        """What is known of each item, in the order of `items`: its value (NaN before the first pull), the tick of its
        last pull (−1), how many there were, the variance of its change a tick, and failures in a row.
        """
        found = {name: self._items[name].copy() for name in ("value", "last", "pulls", "variance", "failures")}
        found["value"][found["last"] < 0] = np.nan
        return found

    # -- queries that come and go -----------------------------------------------------------------------------------

    def rearrange(self, queries: Iterable[Aggregate], servers: Mapping[str, str] | None = None) -> None:
        """Have these queries and no others, at once; everything known of those that stay, and of their items, is kept.

        servers: from items to servers; default: as they are.
        """
        if servers is not None:
            self.options = replace(self.options, servers=servers)
        self._arrange(list(queries))

    def add(self, query: Aggregate) -> None:
        """Take on another query; items that are new are asked for at the next `due`."""
        self._arrange([*self.queries, query])

    def drop(self, name: str) -> None:
        """Forget a query, and the items that only it referred to."""
        self._require(name)
        self._arrange([query for query in self.queries if query.name != name])

    def alter(self, name: str, *, within: float | None = None, fidelity: float | None = None) -> None:
        """Give a query another tolerance or fidelity; what was learned of its items is kept."""
        self._require(name)
        old = self._queries[name]
        new = Aggregate(
            name,
            old.fn,
            old.weights,
            old.within if within is None else within,
            old.fidelity if fidelity is None else fidelity,
        )
        self._arrange([new if query.name == name else query for query in self.queries])

    def replace(self, query: Aggregate) -> None:
        """Put a query in the place of the one of the same name, for instance products at newly held values.

        Weights that only change in size are changed in place; what was learned and the feedback are kept.
        """
        self._require(query.name)
        old = self._queries[query.name]
        if (query.fn, query.within, query.fidelity) == (old.fn, old.within, old.fidelity) and (
            coefficients(query).keys() == coefficients(old).keys()
        ):
            record = self._table[self._places[query.name]]
            self._links.weights[record["start"] : record["stop"]] = list(coefficients(query).values())
            self._queries[query.name] = query
            self._weigh(record)
        else:
            self._arrange([query if each.name == query.name else each for each in self.queries])

    def _look(self) -> None:
        """Make anew where it is looked whether any query is over."""
        chosen = self._table if self._settings.chooser in ANY_OVER else self._table[:0]
        self._lanes = lanes_of(chosen, self._links, len(self._items))

    def _weigh(self, record: Any) -> None:
        """Make anew what follows from a query's weights: its items' shares and reach, its row's sums."""
        span = slice(int(record["start"]), int(record["stop"]))
        size = span.stop - span.start
        within = np.array([record["within"]])
        self._links.shares[span] = shares(self._links.weights[span], within, np.zeros(size, np.int64))
        self._look()
        before = self._items["spacing"].copy()
        set_bounds(self._items, self._table, self._links, self.options.states)
        rescale(self._items, self._chains, before, np.arange(len(self._items)))
        # Rows keep a copy of the weights by item; one query's part of it is not worth finding.
        table = self._rows.table
        chosen = self._table if self._settings.chooser == RISK else self._table[:0]
        self._rows = rows_of(chosen, self._links, len(self._items), self.options.first_doubt)
        for field in LEARNED:
            self._rows.table[field] = table[field]
        if self._now is not None:
            refresh(self._rows, self._items, self._now)

    def _arrange(self, queries: list[Aggregate]) -> None:
        """Make the arrays for these queries, with everything that is known carried over."""
        index = referred(queries)
        names = tuple(index)
        options, settings = self.options, self._settings
        table, links = queries_of(queries, index, 1.0 - self._report)
        start_feedback(table, options.first_safety, options.gamma)
        items, chains = fresh_items(
            names, options.states, options.seed, propagate=options.execution == "expected", past=options.past
        )
        set_bounds(items, table, links, options.states)
        items["cost"] = options.charges(names)
        items["server"], servers = options.hosts(names)
        items["missing"] = -options.patience
        rows = rows_of(table if settings.chooser == RISK else table[:0], links, len(names), options.first_doubt)
        window = fresh_window(
            links, len(names), settings.window,
            used=True, doubted=True, calibrated=settings.calibrated, excused=len(queries),
        )  # fmt: skip
        together = nothing_together(len(names), settings.max_interval, options.correlated)
        if self._index or self._queries:
            carried(
                (self._index, list(self._queries.values()), self._table, self._rows, self._items, self._chains,
                 self._window, self._together),
                (index, queries, table, rows, items, chains, window, together),
            )  # fmt: skip
        self._index, self._queries = index, {query.name: query for query in queries}
        self._places = {query.name: place for place, query in enumerate(queries)}
        self._table, self._links, self._rows, self._items, self._chains = table, links, rows, items, chains
        self._window, self._together, self._servers = window, together, servers
        self._room, self._states = room_for(len(names)), np.zeros(len(queries), np.int8)
        self._look()
        self._said = {name: value for name, value in self._said.items() if name in self._queries}
        self._hint[0] = 0
        if self._now is not None:
            refresh(rows, items, self._now)

    def _find(self, item: str) -> int:
        if item not in self._index:
            raise ValueError(f"item {item!r} is in no query")
        return self._index[item]

    def _require(self, name: str) -> None:
        if name not in self._queries:
            raise ValueError(f"no query is called {name!r}")

    # -- state -------------------------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values; `load` takes it back."""
        arrays: dict[str, NDArray[Any]] = {"hint": self._hint}
        records = {"item": self._items, "query": self._table, "row": self._rows.table}
        for prefix, table in records.items():
            arrays |= {f"{prefix}.{name}": np.ascontiguousarray(table[name]) for name in table.dtype.names or ()}
        tuples: dict[str, Chains | Window | Together] = {
            "chain": self._chains, "window": self._window, "together": self._together
        }  # fmt: skip
        for prefix, bundle in tuples.items():
            arrays |= {f"{prefix}.{name}": array for name, array in bundle._asdict().items()}
        queries = [[q.name, q.fn, dict(q.weights), q.within, q.fidelity] for q in self.queries]
        values = [_VERSION, asdict(self.options), queries, self._now, self._origin, self._report, self._said]
        return arrays, values

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Become what `state` said, bit for bit."""
        if values[0] != _VERSION:
            raise ValueError(f"a poller's state of version {_VERSION} was expected, got {values[0]}")
        _, options, queries, now, origin, report, said = values
        self._begin(Options(**options))
        self._report = report
        self._arrange([Aggregate(*query) for query in queries])
        self._now, self._origin, self._said = now, origin, dict(said)
        for prefix, table in {"item": self._items, "query": self._table, "row": self._rows.table}.items():
            for name in table.dtype.names or ():
                table[name] = arrays[f"{prefix}.{name}"]
        bundles: dict[str, Chains | Window | Together] = {
            "chain": self._chains, "window": self._window, "together": self._together
        }  # fmt: skip
        for prefix, bundle in bundles.items():
            for name, array in bundle._asdict().items():
                array[...] = arrays[f"{prefix}.{name}"]
        self._hint[:] = arrays["hint"]

    def save(self) -> bytes:
        """The whole poller as bytes."""
        from tolerant.kernels.snapshots import pack  # loads Arrow, which nothing else here needs

        return pack(*self.state())

    @classmethod
    def restore(cls, saved: bytes) -> Poller:
        """The poller that `save` made the bytes from; it decides as that one would have."""
        from tolerant.kernels.snapshots import unpack

        poller = cls()
        poller.load(*unpack(saved))
        return poller

    _places: dict[str, int]
    _table: Records
    _links: Links
    _rows: Rows
    _items: Records
    _chains: Chains
    _window: Window
    _together: Together
    _room: Room
    _lanes: Lanes
    _states: States
