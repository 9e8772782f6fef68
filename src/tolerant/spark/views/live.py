"""One view while it is kept: its scheduler, when it is due, and what it has said."""

from __future__ import annotations

import base64
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels import snapshots
from tolerant.spark.views.deltas import VERSION, DeltaLog
from tolerant.spark.views.maintained import Maintained, Pushed
from tolerant.spark.views.refresh_costs import RefreshCosts
from tolerant.spark.views.shard import Applied
from tolerant.spark.views.watch import Fired, Watch
from tolerant.sql.select import Trigger
from tolerant.streams import SECOND
from tolerant.transport.views import NOTICE
from tolerant.views import Measured, Scheduler
from tolerant.views.cost_curves import Cost
from tolerant.views.view_groups import Key, ViewGroup

_FIGURES: dict[str, Any] = {
    "pushes": 0, "refreshes": 0, "notices": 0, "misses": 0, "slowest": 0.0, "seconds": 0.0, "last": None,
}  # fmt: skip
_SHORTEST_TICK = SECOND // 10
_IDLE = 1000  # ticks without changes that are counted one by one; more say nothing new


@dataclass(frozen=True)
class Due:
    """The condition of a view is to be told; `heard`: when the pipeline knew, by its wall clock, microseconds."""

    fired: Fired
    heard: int


class LiveView:
    """A view, its scheduler and its promise; `refresh` microseconds."""

    def __init__(
        self, name: str, view: Maintained, columns: list[tuple[str, str]], refresh: int, when: Trigger | None = None
    ) -> None:
        self.name, self.view, self.columns, self.refresh = name, view, columns, refresh
        self.when = when
        self.watch = None if when is None else Watch(when, refresh)
        self.fired: list[Due] = []
        """Moments at which the condition is to be told, and has not been yet."""
        self.within = refresh / SECOND
        self.tick = max(_SHORTEST_TICK, refresh // 10)
        self.ticked = 0  # ticks before this one have been counted
        self.costs = RefreshCosts(name, view, self.within, 2 if self.watch else 1)
        self.served = -math.inf
        """When it was last brought up to date because somebody asked or its condition became true, seconds elapsed."""
        self.queue: dict[str, int] = {}
        """Tables that are to be pushed, and up to which version."""
        self.queued_at = 0.0
        """Since when there are any, seconds elapsed."""
        self._queued = np.zeros(len(view.plan.tables), np.int64)  # changes in the queue, by table
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

    @property
    def scheduler(self) -> Scheduler:
        """Its scheduler, once its costs have been measured."""
        assert self.costs.scheduler is not None
        return self.costs.scheduler

    # -- time ------------------------------------------------------------------------------------------------------

    def note(self, applied: Applied) -> None:
        """Changes have come: they count in the tick of their time."""
        if applied.table in self._versions:
            place = self.tables.index(applied.table)
            ticks = np.maximum(applied.changes.at // self.tick, self.ticked)
            self._arrived += [(int(t), place, int(s)) for t, s in zip(ticks, applied.steps, strict=True)]

    def pass_time(self, watermark: int, elapsed: float) -> None:
        """Let the ticks up to the watermark pass, and queue the tables that are to be pushed by then."""
        now = watermark // self.tick
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
        for tick in self._ticks(now, counts):
            self._versions |= newest.get(tick, {})
            arrivals = counts.get(tick, [0] * len(self.tables))
            pending = self.scheduler.pending + arrivals
            for place in self.scheduler.arrive(arrivals):
                self._enqueue(place, int(pending[place]), elapsed)
        self.ticked = max(now, self.ticked)

    def _enqueue(self, place: int, rows: int, elapsed: float) -> None:
        if not self.queue:
            self.queued_at = elapsed
        self.queue[self.tables[place]] = self._versions[self.tables[place]]
        self._queued[place] += rows

    def enqueue_all(self, logs: Mapping[str, DeltaLog], elapsed: float) -> None:
        """Queue everything that there is."""
        rows = self._outstanding()
        self.all_due(logs)
        for place in np.flatnonzero(rows):
            self._enqueue(int(place), int(rows[place]), elapsed)

    def piece(self, logs: Mapping[str, DeltaLog], seconds: float) -> dict[str, int]:
        """A part of the queue that is predicted to take no longer than this: a table, and up to which version. Empty:
        there is none.
        """
        for table, version in self.queue.items():
            place = self.tables.index(table)
            rows = _affordable(self.scheduler.costs[place], int(self._queued[place]), seconds - self.costs.beside)
            if rows >= self._queued[place]:
                return {table: version}
            if rows:
                log, absorbed = logs[table], self.view.absorbed[table]
                log.flush()
                return {table: log.read(absorbed, version, ()).column(VERSION)[rows - 1].as_py()}
        return {}

    @property
    def predicted(self) -> float:
        """The seconds that a refresh would take now."""
        rows = self._outstanding().tolist()
        return sum(float(cost(n)) for cost, n in zip(self.scheduler.costs, rows, strict=True)) + self.costs.beside

    def _outstanding(self) -> NDArray[np.int64]:
        """Changes of each table that the view has not absorbed."""
        arrived = np.bincount([place for _, place, _ in self._arrived], minlength=len(self.tables))
        return self.scheduler.pending + self._queued + arrived

    def _ticks(self, now: int, counts: Mapping[int, Any]) -> list[int]:
        """The ticks to count: all, but not all of a long time in which nothing happened."""
        first = self.ticked or min(counts, default=now)
        if now - first <= _IDLE:
            return list(range(first, now))
        return sorted({*(tick for tick in counts if tick < now), *range(now - _IDLE, now)})

    def watch_from(self, logs: Mapping[str, DeltaLog], at: int, step: int, now: int) -> None:
        """Let the condition begin with the rows that the tables had at a step."""
        if self.watch is not None:
            contents = {table: logs[table].read(0, step, tuple(self.watch.columns(table))) for table in self.tables}
            self.fired += [Due(fired, now) for fired in self.watch.begin(contents, at, step)]

    def look(self, applied: Sequence[Applied], watermark: int, now: int) -> None:
        """Changes have come and time has gone on: is there anything to tell? `now`: by the wall clock."""
        if self.watch is not None:
            own = [change for change in applied if change.table in self._versions]
            self.fired += [Due(fired, now) for fired in self.watch.take(own) + self.watch.passed(watermark)]

    def due_by(self, fired: Fired) -> dict[str, int]:
        """The condition is told: every table up to the version that it had then."""
        later = [arrival for arrival in self._arrived if arrival[2] > fired.step]
        self._arrived = [arrival for arrival in self._arrived if arrival[2] <= fired.step]
        self.pass_time(fired.at, 0.0)
        counts = [0] * len(self.tables)
        for _, place, step in self._arrived:
            counts[place] += 1
            self._versions[self.tables[place]] = step
        self._arrived = later
        self.scheduler.arrive(counts)
        self._clear()
        return dict(self._versions)

    def all_due(self, logs: Mapping[str, DeltaLog]) -> dict[str, int]:
        """Somebody asks: every table up to its newest version."""
        if self._arrived:
            counts = [0] * len(self.tables)
            for _, place, _ in self._arrived:
                counts[place] += 1
            self._arrived = []
            self.scheduler.arrive(counts)
        self._clear()
        self._versions = {table: logs[table].last for table in self.tables}
        return dict(self._versions)

    def _clear(self) -> None:
        """Everything that was pending is about to be pushed."""
        self.scheduler.refresh()
        self.queue, self._queued = {}, np.zeros_like(self._queued)

    def pushed(self, done: Pushed, seconds: float, elapsed: float) -> None:
        """Learns from a push that took `seconds` in all and ended at `elapsed`, and takes it off the queue."""
        self.costs.learn(done, seconds, elapsed)
        for table, rows in done.rows.items():
            place = self.tables.index(table)
            self._queued[place] = max(0, self._queued[place] - rows)
        self.queue = {table: to for table, to in self.queue.items() if to > self.view.absorbed[table]}
        for place, table in enumerate(self.tables):
            self._queued[place] *= table in self.queue

    def count(self, kind: str, took: Sequence[float], at: int, predicted: float, seconds: float) -> None:
        """Count something that was done: whoever waited for it, how long, `took`; of which `seconds` in the engine."""
        figures = self.figures
        figures["seconds"] += seconds
        counted = {"push": "pushes", "refresh": "refreshes", NOTICE: "notices"}.get(kind)
        if counted:
            figures[counted] += len(took)
        if counted and kind != "push":
            figures["misses"] += sum(seconds_taken > self.within for seconds_taken in took)
            figures["slowest"] = max(figures["slowest"], *took)
        figures["last"] = {"kind": kind, "at": at, "took": max(took), "predicted": predicted}

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
        """The state needed to continue, except the groups, as JSON values."""
        arrays, values = self.scheduler.state()
        return {
            "absorbed": dict(self.view.absorbed),
            "columns": self.columns,
            "figures": dict(self.figures),
            "scheduler": base64.b64encode(snapshots.pack(arrays, values)).decode(),
            "watch": self.watch.record() if self.watch else None,
            "fired": [[due.fired.at, due.fired.step, due.heard] for due in self.fired],
            "beside": self.costs.record(),
        }

    def resume(self, record: Mapping[str, Any], logs: Mapping[str, DeltaLog]) -> None:
        """Continues from a record; counts the pending changes again from the delta logs.

        Raises:
            ValueError, TypeError, LookupError: the record is not one of such a view. The view must not be used after.
        """
        absorbed = {table: int(record["absorbed"][table]) for table in self.tables}
        if not all(0 <= absorbed[table] <= logs[table].last for table in self.tables):
            raise ValueError("versions must be those of its tables")
        figures = {**_FIGURES, **record["figures"]}
        if not all(math.isfinite(value) for name, value in figures.items() if name != "last"):
            raise ValueError("figures must be numbers")
        self.view.absorbed, self.figures = absorbed, figures
        arrays, values = snapshots.unpack(base64.b64decode(record["scheduler"]))
        knots = [(arrays[f"sizes.{place}"], arrays[f"seconds.{place}"]) for place in range(len(self.tables))]
        self.costs.keep_by([Measured(*knot) for knot in knots])
        for name, array in self.scheduler.state()[0].items():
            if (arrays[name].dtype, arrays[name].shape) != (array.dtype, array.shape) or np.isnan(arrays[name]).any():
                raise ValueError(f"{name} of its scheduler must be {array.dtype}{list(array.shape)}")
        ticks, turn, spent = values
        self.scheduler.load(arrays, [max(0, int(ticks)), max(0, int(turn)), float(spent)])
        self.costs.allow(self.within)
        if self.watch is not None and record.get("watch"):
            self.watch.resume(record["watch"])
        self.fired = [Due(Fired(int(at), int(step)), int(requested)) for at, step, requested in record["fired"]]
        self.costs.resume(record["beside"])
        for place, table in enumerate(self.tables):
            self._versions[table] = logs[table].last
            log = logs[table]
            log.flush()
            self.scheduler.pending[place] = len(log.read(self.view.absorbed[table], log.last, ()))


def _affordable(cost: Cost, rows: int, seconds: float) -> int:
    """The most changes, up to `rows`, whose push costs no more than `seconds`."""
    return bisect_right(range(1, rows + 1), seconds, key=lambda size: float(cost(size)))


def group_body(group: ViewGroup) -> list[Any]:
    """A group for JSON."""
    return [group.rows, group.counts, group.sums, group.extremes]
