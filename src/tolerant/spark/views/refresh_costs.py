"""What a refresh of a view costs, as timed and learned, and whether its promise can be kept."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.spark.views.deltas import VERSION, DeltaLog, blank_row
from tolerant.spark.views.maintained import Maintained, Pushed
from tolerant.sql.view_select import WEIGHT
from tolerant.views import Measured, Scheduler
from tolerant.views.capacity import MARGIN, Promise, needed

SIZES = (1, 100, 1000)
"""Rows whose push is timed when a view is made."""

REPEATS = 3
"""How often, so that one that was disturbed does not count."""

PRACTICE = 8
"""Rounds of pushes before any is timed, at most."""

FEW = 100
"""Changes of each table that may be pending when somebody asks, though everything was pushed just before: a promise
that could not be kept even then is refused.
"""

_RECENT = 20.0
"""Seconds for which a timing tells how slow pushes are, where a view was found too slow."""

_CALM = 0.9  # a round that took so much of the best before it shows that there is little left to gain
_LEARN = 0.2  # what the newest timing of anything but a push counts for


class TooSlow(Exception):
    """The time promised is less than what a refresh takes, or may have to wait."""


class RefreshCosts:
    """The costs of a view's refreshes, which its scheduler has; `jobs`: see `views.capacity.Promise`."""

    def __init__(self, name: str, view: Maintained, within: float, jobs: int) -> None:
        self.name, self.within = name, within
        self.scheduler: Scheduler | None = None
        self.recompute = self._overhead = 0.0  # seconds per refresh, besides pushing
        self._view, self._jobs = view, jobs
        self._timed = np.full(len(view.plan.tables), -math.inf)  # when a push of each table was last timed, elapsed

    @property
    def tables(self) -> tuple[str, ...]:
        """Its tables, in the order in which the scheduler has them."""
        return self._view.plan.tables

    def measure(self, logs: Mapping[str, DeltaLog]) -> Iterator[None]:
        """Time what a refresh does, piece by piece, after some practice; then keep the view by these costs."""
        yield from self.practise(logs)
        timings: list[list[float]] = [[] for _ in self.tables]
        sizes = [size for _ in range(REPEATS) for size in SIZES]
        for place, table in enumerate(self.tables):
            rows = self._held(table, logs[table])
            for size in sizes:
                timings[place].append(self._view.rehearse(table, _sample(rows, size)))
                yield
        costs = [Measured(sizes, seconds) for seconds in timings]
        spread = [_spread(cost, sizes, seconds) for cost, seconds in zip(costs, timings, strict=True)]
        self.keep_by(costs, spread)

    def practise(self, logs: Mapping[str, DeltaLog]) -> Iterator[None]:
        """Pushes a row of each table for practice, piece by piece, until that gets no faster: Spark is slow just after
        its start. Also times the recomputation of groups.
        """
        samples = {table: _sample(self._held(table, logs[table]), 1) for table in self.tables}
        best = math.inf
        for _ in range(PRACTICE):
            took = 0.0
            for table, rows in samples.items():
                took += self._view.rehearse(table, rows)
                yield
            if self._view.plan.extremes:
                self.recompute = self._view.rehearse_recompute(FEW)
                took += self.recompute
                yield
            if took > _CALM * best:
                return
            best = min(best, took)

    def time_again(self, logs: Mapping[str, DeltaLog]) -> Iterator[None]:
        """Practises, then times pushes of a few rows, piece by piece, and learns from them: this machine may be slower
        than the one that made the promise.
        """
        assert self.scheduler is not None
        yield from self.practise(logs)
        for place in range(len(self.tables)):
            for seconds in self._rehearsals(place, logs):
                self.scheduler.pushed(place, FEW, seconds)
                yield

    def _rehearsals(self, place: int, logs: Mapping[str, DeltaLog]) -> Iterator[float]:
        """Pushes a few rows of a table again and again, and yields the seconds of each."""
        table = self.tables[place]
        rows = _sample(self._held(table, logs[table]), FEW)
        return (self._view.rehearse(table, rows) for _ in range(REPEATS))

    def has_old_timings(self, elapsed: float) -> bool:
        """Whether no push of some table has been timed recently."""
        return bool((self._timed + _RECENT <= elapsed).any())

    def renew_timings(self, logs: Mapping[str, DeltaLog], elapsed: float) -> Iterator[None]:
        """Times pushes of the tables of which none has been timed recently, piece by piece, and learns from them.

        What made them slow may be over, and a table without changes, or whose changes cancel each other, would never
        show it.
        """
        assert self.scheduler is not None
        places = np.flatnonzero(self._timed + _RECENT <= elapsed)
        self._timed[places] = elapsed
        if self._view.plan.extremes:
            self.recompute += _LEARN * (self._view.rehearse_recompute(FEW) - self.recompute)
            yield
        for place in places.tolist():
            for seconds in self._rehearsals(place, logs):
                self.scheduler.pushed(place, FEW, seconds, rehearsed=True)
                yield

    def _held(self, table: str, log: DeltaLog) -> pa.Table:
        """The rows of a table that the view has absorbed, signed."""
        return log.read(0, self._view.absorbed[table], self._view.plan.columns[table]).drop_columns([VERSION])

    def keep_by(self, costs: list[Measured], spread: Sequence[float] | None = None) -> None:
        """Keeps the view by these costs of pushing each table; `spread`: how far timings were from them."""
        self.scheduler = Scheduler(costs, self.within, margin=MARGIN, spread=spread)
        self.allow(self.within)

    @property
    def promise(self) -> Promise:
        """What is promised, and what a refresh takes when few changes are pending, by what is known now."""
        return Promise(self.within, sum(self._floors()) + self.beside, self._jobs)

    @property
    def beside(self) -> float:
        """Seconds of a refresh that are not for pushing."""
        return self.recompute + self._overhead

    def _floors(self) -> list[float]:
        """What pushing a few changes of each table takes as things are: more where that varies, or has become slow."""
        assert self.scheduler is not None
        slowness = self.scheduler.slowness
        return [float(cost(FEW) * more) for cost, more in zip(self.scheduler.costs, slowness, strict=True)]

    def allow(self, seconds: float) -> None:
        """A refresh may take so long: what is pending is kept within that, as far as pushing can help."""
        assert self.scheduler is not None
        self.scheduler.limit = max(0.0, seconds - self.beside) / MARGIN
        self.scheduler.least = sum(self._floors())

    def check(self, promises: Mapping[str, Promise]) -> None:
        """Checks that the promise can be kept beside the others, of which this is one.

        Raises:
            TooSlow: it cannot; the message has what was measured and the time that could be kept.
        """
        least = needed(self.name, promises)
        if least > self.within:
            raise TooSlow(self._shortfall(least, promises))

    def _shortfall(self, least: float, promises: Mapping[str, Promise]) -> str:
        """Why the promise cannot be kept: what a refresh takes, and for what it may have to wait."""
        parts = [f"{table} {seconds:.2f} s" for table, seconds in zip(self.tables, self._floors(), strict=True)]
        parts += [f"groups computed again {self.recompute:.2f} s"] if self.recompute else []
        rest = {name: promise for name, promise in promises.items() if name != self.name}
        others = [f"{name} {promise.floor:.2f} of {promise.within:g} s" for name, promise in rest.items()]
        longest = max(promise.floor for promise in promises.values())
        return (
            f"REFRESH WITHIN {self.within:g} s cannot be kept: a refresh takes {self.promise.floor:.2f} s as measured"
            f" ({', '.join(parts)}), and whoever asks may have to wait {longest:.2f} s for the one under way"
            + (f" and for the refreshes of {len(others)} other views ({', '.join(others)})" if others else "")
            + (
                f"; allow {least:.2f} s at least"
                if math.isfinite(least)
                else "; beside those no time can be kept: drop some, or let them take longer"
            )
        )

    def by_table(self) -> list[dict[str, Any]]:
        """What is known of each table: changes pending, fitted cost, and whether it has outgrown the promise."""
        assert self.scheduler is not None
        costs = []
        for index, table in enumerate(self.tables):
            cost = self.scheduler.costs[index]
            line = cost.linear() if isinstance(cost, Measured) else None
            setup, slope = (line.setup, line.slope) if line else (0.0, 0.0)
            pending = int(self.scheduler.pending[index])
            costs.append(
                {"table": table, "pending": pending, "setup": setup, "slope": slope, "outgrown": setup > self.within}
            )
        return costs

    def learn(self, done: Pushed, seconds: float, elapsed: float) -> None:
        """Learns from a push that took `seconds` in all and ended at `elapsed`."""
        assert self.scheduler is not None
        for table, rows in done.rows.items():
            place = self.tables.index(table)
            if rows and table not in done.cancelled:
                self.scheduler.pushed(place, rows, done.seconds[table])
                self._timed[place] = elapsed
        if done.recomputed:
            self.recompute += _LEARN * (done.recomputing - self.recompute)
        beside = max(0.0, seconds - sum(done.seconds.values()) - done.recomputing)
        self._overhead += _LEARN * (beside - self._overhead)

    def record(self) -> list[float]:
        """The seconds of a refresh that are not for pushing, as JSON values."""
        return [self.recompute, self._overhead]

    def resume(self, seconds: Sequence[float]) -> None:
        """Restores what `record` returned."""
        self.recompute, self._overhead = map(float, seconds)


def _spread(cost: Measured, sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """How far timings were from what is predicted from them: the mean deviation of the logarithms above 0, doubled."""
    over = [max(0.0, math.log(took / cost(size))) for size, took in zip(sizes, seconds, strict=True) if took > 0]
    return 2 * sum(over) / len(over) if over else 0.0


def _sample(rows: pa.Table, size: int) -> pa.Table:
    """Rows to practise with: of the table, again and again if it has fewer; one of its own making if it has none."""
    rows = rows if len(rows) else blank_row(rows.schema)
    rows = rows.take(pa.array(np.arange(size) % len(rows)))
    place = rows.column_names.index(WEIGHT)
    return rows.set_column(place, rows.schema.field(place), pa.array(np.ones(size, np.int64)))
