"""One view while it is kept: its scheduler, when it is due, and what it has said."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.kernels import snapshots
from tolerant.spark.views.deltas import VERSION, DeltaLog
from tolerant.spark.views.maintained import Maintained, Pushed
from tolerant.spark.views.shard import Applied
from tolerant.spark.views.watch import Fired, Watch
from tolerant.sql.statements import Trigger
from tolerant.sql.viewing import WEIGHT
from tolerant.streams import SECOND
from tolerant.views import Measured, Scheduler
from tolerant.views.groups import Group, Key

MARGIN = 0.9
"""The share of the promised time that the scheduler keeps pending work within at most, the rest being for what no model
knows; where pushes spread more widely about what is predicted it is less.
"""

SIZES = (1, 100, 1000)
"""Rows whose push is timed when a view is made."""

REPEATS = 3
"""How often, so that one that was disturbed does not count."""

PRACTICE = 8
"""Rounds of pushes before any is timed, at most."""

_CALM = 0.9  # a round that took so much of the best before it shows that there is little left to gain
_FIGURES: dict[str, Any] = {"pushes": 0, "refreshes": 0, "notices": 0, "misses": 0, "seconds": 0.0, "last": None}
_SHORTEST_TICK = SECOND // 10
_IDLE = 1000  # ticks without changes that are counted one by one; more say nothing new


class TooSlow(Exception):
    """The time promised is less than what pushing one change takes."""


class LiveView:
    """A view, its scheduler and its promise; `refresh` microseconds."""

    def __init__(
        self, name: str, view: Maintained, columns: list[tuple[str, str]], refresh: int, when: Trigger | None = None
    ) -> None:
        self.name, self.view, self.columns, self.refresh = name, view, columns, refresh
        self.when = when
        self.watch = None if when is None else Watch(when, refresh)
        self.fired: list[Fired] = []
        """Moments at which the condition is to be told, and has not been yet."""
        self.within = refresh / SECOND
        self.tick = max(_SHORTEST_TICK, refresh // 10)
        self.ticked = 0  # ticks before this one have been counted
        self.scheduler: Scheduler | None = None
        self.lead = 0
        self.dirty: dict[Key, None] = {}
        """Groups that were touched since the view was last said."""
        self.said: dict[Key, list[list[Any]]] = {}
        self.news_said: list[pa.RecordBatch] = []
        """What is to be said in this round."""
        self.figures: dict[str, Any] = {**_FIGURES}
        self._arrived: list[tuple[int, int, int]] = []  # (tick, place of the table, step)
        self._versions = dict.fromkeys(view.plan.tables, 0)  # of each table the newest that has been counted

    @property
    def tables(self) -> tuple[str, ...]:
        """Its tables, in the order in which the scheduler has them."""
        return self.view.plan.tables

    # -- costs -----------------------------------------------------------------------------------------------------

    def measure(self, logs: Mapping[str, DeltaLog]) -> list[Measured]:
        """Time pushes of a few sizes for each table, of rows that it has, after some for practice."""
        self.practise(logs)
        return [self._measured(table, logs[table]) for table in self.tables]

    def practise(self, logs: Mapping[str, DeltaLog]) -> None:
        """Push a row of each table for practice until that gets no faster: a Spark that has just started is slow."""
        samples = {table: _sample(self._held(table, logs[table]), 1) for table in self.tables}
        best = math.inf
        for _ in range(PRACTICE):
            took = sum(self.view.rehearse(table, rows) for table, rows in samples.items())
            if took > _CALM * best:
                return
            best = min(best, took)

    def _measured(self, table: str, log: DeltaLog) -> Measured:
        held = self._held(table, log)
        sizes = [size for _ in range(REPEATS) for size in SIZES]
        return Measured(sizes, [self.view.rehearse(table, _sample(held, size)) for size in sizes])

    def _held(self, table: str, log: DeltaLog) -> pa.Table:
        """The rows of a table that the view has absorbed, signed."""
        return log.read(0, self.view.absorbed[table], self.view.plan.columns[table]).drop_columns([VERSION])

    def start(self, costs: list[Measured]) -> None:
        """Keep the view by these costs.

        Raises:
            TooSlow: one change of some table takes longer than is promised.
        """
        setups = [cost.linear().setup for cost in costs]
        worst = int(np.argmax(setups))
        if setups[worst] > self.within:
            raise TooSlow(
                f"REFRESH WITHIN {self.within:g} s cannot be kept: pushing changes of {self.tables[worst]} takes"
                f" {setups[worst]:.2f} s however few they are; allow {setups[worst] / MARGIN:.2f} s at least, for all"
                f" tables {sum(setups) / MARGIN:.2f} s"
            )
        self._keep_by(costs)

    def _keep_by(self, costs: list[Measured]) -> None:
        # Acting a tick early keeps the promise also for who asks while a push runs, where there is time for that.
        self.lead = int(MARGIN * self.within >= 2 * sum(cost.linear().setup for cost in costs))
        self.scheduler = Scheduler(costs, self.within, lead=self.lead, margin=MARGIN)

    def costs(self) -> list[dict[str, Any]]:
        """What is known of each table: changes pending, fitted cost, and whether it has outgrown the promise."""
        assert self.scheduler is not None
        found = []
        for index, table in enumerate(self.tables):
            cost = self.scheduler.costs[index]
            line = cost.linear() if isinstance(cost, Measured) else None
            setup, slope = (line.setup, line.slope) if line else (0.0, 0.0)
            pending = int(self.scheduler.pending[index])
            found.append(
                {"table": table, "pending": pending, "setup": setup, "slope": slope, "outgrown": setup > self.within}
            )
        return found

    # -- time ------------------------------------------------------------------------------------------------------

    def note(self, applied: Applied) -> None:
        """Changes have come: they count in the tick of their time."""
        if applied.table in self._versions:
            place = self.tables.index(applied.table)
            ticks = np.maximum(applied.changes.at // self.tick, self.ticked)
            self._arrived += [(int(t), place, int(s)) for t, s in zip(ticks, applied.steps, strict=True)]

    def due(self, horizon: int) -> dict[str, int]:
        """Let the ticks up to the horizon pass; the tables to push now, and up to which version."""
        assert self.scheduler is not None
        now = horizon // self.tick
        counts: dict[int, list[int]] = {}
        newest: dict[int, dict[str, int]] = {}
        waiting = []
        for tick, place, step in self._arrived:
            if tick >= now:
                waiting.append((tick, place, step))
                continue
            counts.setdefault(tick, [0] * len(self.tables))[place] += 1
            newest.setdefault(tick, {})[self.tables[place]] = step
        self._arrived = waiting
        found: dict[str, int] = {}
        for tick in self._ticks(now, counts):
            self._versions |= newest.get(tick, {})
            for place in self.scheduler.arrive(counts.get(tick, [0] * len(self.tables))):
                found[self.tables[place]] = self._versions[self.tables[place]]
        self.ticked = max(now, self.ticked)
        return found

    def _ticks(self, now: int, counts: Mapping[int, Any]) -> list[int]:
        """The ticks to count: all, but not all of a long time in which nothing happened."""
        first = self.ticked or min(counts, default=now)
        if now - first <= _IDLE:
            return list(range(first, now))
        return sorted({*(tick for tick in counts if tick < now), *range(now - _IDLE, now)})

    def watch_from(self, logs: Mapping[str, DeltaLog], at: int, step: int) -> None:
        """Let the condition begin with the rows that the tables had at a step."""
        if self.watch is not None:
            held = {table: logs[table].read(0, step, tuple(self.watch.columns(table))) for table in self.tables}
            self.fired += self.watch.begin(held, at, step)

    def look(self, applied: Sequence[Applied], horizon: int) -> None:
        """Changes have come and time has gone on: is there anything to tell?"""
        if self.watch is not None:
            own = [one for one in applied if one.table in self._versions]
            self.fired += self.watch.take(own) + self.watch.passed(horizon)

    def due_by(self, fired: Fired) -> dict[str, int]:
        """The condition is told: every table up to the version that it had then."""
        assert self.scheduler is not None
        later = [one for one in self._arrived if one[2] > fired.step]
        self._arrived = [one for one in self._arrived if one[2] <= fired.step]
        self.due(fired.at)
        counts = [0] * len(self.tables)
        for _, place, step in self._arrived:
            counts[place] += 1
            self._versions[self.tables[place]] = step
        self._arrived = later
        self.scheduler.arrive(counts)
        self.scheduler.refresh()
        return dict(self._versions)

    def all_due(self, logs: Mapping[str, DeltaLog]) -> dict[str, int]:
        """Somebody asks: every table up to its newest version."""
        assert self.scheduler is not None
        if self._arrived:
            counts = [0] * len(self.tables)
            for _, place, _ in self._arrived:
                counts[place] += 1
            self._arrived = []
            self.scheduler.arrive(counts)
        self.scheduler.refresh()
        self._versions = {table: logs[table].last for table in self.tables}
        return dict(self._versions)

    def learn(self, done: Pushed) -> None:
        """Let the scheduler know what a push took."""
        assert self.scheduler is not None
        for table, rows in done.rows.items():
            if rows and table not in done.cancelled:
                self.scheduler.pushed(self.tables.index(table), rows, done.seconds[table])

    # -- what was said ---------------------------------------------------------------------------------------------

    def news(self) -> tuple[list[list[Any]], list[list[Any]], dict[Key, list[list[Any]]]]:
        """Rows that went and rows that came since the view was last said, and the groups as they are now."""
        gone, come, groups = [], [], {}
        for key in self.dirty:
            old, new = self.said.get(key, []), self.view.result(key)
            if old != new:
                gone += old[len(new) :] if old[:1] == new[:1] else old
                come += new[len(old) :] if old[:1] == new[:1] else new
                groups[key] = new
                if new:
                    self.said[key] = new
                else:
                    self.said.pop(key, None)
        self.dirty = {}
        return gone, come, groups

    # -- state -----------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """What must be known to go on, besides the groups; for JSON."""
        assert self.scheduler is not None
        arrays, values = self.scheduler.state()
        return {
            "absorbed": self.view.absorbed,
            "columns": self.columns,
            "figures": self.figures,
            "scheduler": base64.b64encode(snapshots.pack(arrays, values)).decode(),
            "watch": self.watch.record() if self.watch else None,
        }

    def resume(self, record: Mapping[str, Any], logs: Mapping[str, DeltaLog]) -> None:
        """Go on from a record: what is pending is counted anew, from the delta logs."""
        self.view.absorbed, self.figures = dict(record["absorbed"]), {**_FIGURES, **record["figures"]}
        arrays, values = snapshots.unpack(base64.b64decode(record["scheduler"]))
        knots = [(arrays[f"sizes.{place}"], arrays[f"seconds.{place}"]) for place in range(len(self.tables))]
        self._keep_by([Measured(*one) for one in knots])
        assert self.scheduler is not None
        self.scheduler.load(arrays, values)
        if self.watch is not None and record.get("watch"):
            self.watch.resume(record["watch"])
        for place, table in enumerate(self.tables):
            self._versions[table] = logs[table].last
            log = logs[table]
            log.flush()
            self.scheduler.pending[place] = len(log.read(self.view.absorbed[table], log.last, ()))


def group_body(group: Group) -> list[Any]:
    """A group for JSON."""
    return [group.rows, group.counts, group.sums, group.extremes]


def read_group(body: list[Any]) -> Group:
    """What `group_body` made the list from."""
    return Group(*body)


def _sample(held: pa.Table, size: int) -> pa.Table:
    """Rows to practise with: of the table, again and again if it has fewer; one of its own making if it has none."""
    if not len(held):
        blank = {pa.string(): "", pa.bool_(): False}
        row = {field.name: [blank.get(field.type, 0)] for field in held.schema}
        held = pa.table(row, schema=held.schema)
    held = held.take(pa.array(np.arange(size) % len(held)))
    place = held.column_names.index(WEIGHT)
    return held.set_column(place, held.schema.field(place), pa.array(np.ones(size, np.int64)))
