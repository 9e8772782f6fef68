"""One view as it is kept: which version of each table it has absorbed, its groups, and what pushing does to both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from tolerant.spark.views.clock import Clock, SystemClock
from tolerant.spark.views.deltas import DeltaLog, Slice, netted
from tolerant.sql.viewing import ViewPlan, delta_sql, full_sql, source_names
from tolerant.views.groups import Groups, Key

Sources = Mapping[str, pa.Table | Slice]


class Engine(Protocol):
    """What runs a view's SQL."""

    def run(self, sql: str, sources: Sources) -> pa.Table:
        """The result of the SQL over these sources, by the names that it has for them."""
        ...


@dataclass
class Pushed:
    """What pushing did: the groups touched, and for each table its changes and the seconds that they took."""

    touched: list[Key] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    recomputed: int = 0
    """Groups that had to be worked out anew, for an extreme went."""
    recomputing: float = 0.0
    """Seconds that this took, which are in none of `seconds`."""
    cancelled: list[str] = field(default_factory=list)
    """Tables whose changes cancelled each other out: there was nothing to join, and the time says nothing."""


class Maintained:
    """A view; `logs` has the changes of its tables.

    A push of one table joins its changes with the other tables *as the view has absorbed them*, not as they are: what
    waits on both sides would else be counted twice or never. Pushing up to a version that was absorbed does nothing.
    """

    def __init__(
        self, plan: ViewPlan, logs: Mapping[str, DeltaLog], engine: Engine, clock: Clock | None = None
    ) -> None:
        self.plan, self._logs, self._engine, self._clock = plan, logs, engine, clock or SystemClock()
        self.absorbed = dict.fromkeys(plan.tables, 0)
        self.groups = Groups(
            len(plan.keys), len(plan.arguments), plan.summed, plan.extremes, everything=plan.everything
        )

    def compute(self, versions: Mapping[str, int]) -> Pushed:
        """Work everything out from the tables at these versions."""
        begun = self._clock.elapsed()
        before = list(self.groups.held)
        self.absorbed = {table: versions[table] for table in self.plan.tables}
        self.groups.clear()
        self.groups.replace((), self._full({}, False))
        touched = list(dict.fromkeys([*before, *self.groups.held]))
        return Pushed(touched, seconds={self.plan.tables[0]: self._clock.elapsed() - begun})

    def push(self, versions: Mapping[str, int]) -> Pushed:
        """Bring these tables to these versions, one after the other."""
        done, stale = Pushed(), dict[Key, None]()
        for table, version in versions.items():
            if version <= self.absorbed[table]:
                continue
            begun = self._clock.elapsed()
            rows, result = self._delta(table, self.absorbed[table], version)
            self.absorbed[table] = version
            if result is None:
                done.cancelled.append(table)
            else:
                touched, unsure = self.groups.merge(result.to_pydict())
                done.touched += touched
                stale |= dict.fromkeys(unsure)
            done.rows[table], done.seconds[table] = rows, self._clock.elapsed() - begun
        if stale:
            begun = self._clock.elapsed()
            self.recompute(list(stale))
            done.recomputed = len(stale)
            done.recomputing = self._clock.elapsed() - begun
        done.touched = list(dict.fromkeys(done.touched))
        return done

    def rehearse(self, table: str, rows: pa.Table) -> float:
        """How long it takes to push signed rows of a table, seconds; nothing comes of it."""
        begun = self._clock.elapsed()
        self._engine.run(delta_sql(self.plan, table), self._sources(table, rows, self.absorbed[table]))
        return self._clock.elapsed() - begun

    def rehearse_recompute(self, groups: int) -> float:
        """How long it takes to work so many groups out anew, seconds; nothing comes of it."""
        begun = self._clock.elapsed()
        keys = list(self.groups.held)[:groups]
        self._full(self._keyed(keys), bool(keys))
        return self._clock.elapsed() - begun

    def recompute(self, keys: Sequence[Key]) -> None:
        """Work these groups out anew from what has been absorbed."""
        self.groups.replace(keys, self._full(self._keyed(keys), True))

    def _keyed(self, keys: Sequence[Key]) -> dict[str, list[Any]]:
        """Groups' keys by the column."""
        return {f"k{index}": [key[index] for key in keys] for index in range(len(self.plan.keys))}

    def result(self, key: Key) -> list[list[Any]]:
        """The rows of the view that a group makes: none where it is not there."""
        if key not in self.groups.held:
            return []
        row = [self.groups.value(key, part.kind, part.index) for part in self.plan.outputs]
        return [row] * (1 if self.plan.grouped else self.groups.held[key].rows)

    def rows(self) -> list[list[Any]]:
        """All rows of the view, in no order."""
        return [row for key in self.groups.held for row in self.result(key)]

    def _delta(self, table: str, low: int, high: int) -> tuple[int, pa.Table | None]:
        changes = self._logs[table].read(low, high, self.plan.columns[table])
        delta = netted(changes)
        if not len(delta):
            return len(changes), None
        return len(changes), self._engine.run(delta_sql(self.plan, table), self._sources(table, delta, high))

    def _sources(self, table: str, delta: pa.Table, high: int) -> dict[str, pa.Table | Slice]:
        found: dict[str, pa.Table | Slice] = {}
        for name, (of, which) in source_names(self.plan, table).items():
            found[name] = delta if which == "delta" else self._held(of, high if which == "after" else self.absorbed[of])
        return found

    def _held(self, table: str, version: int) -> Slice:
        return self._logs[table].slice(0, version, self.plan.columns[table])

    def _full(self, stale: Mapping[str, list[Any]], only: bool) -> Mapping[str, Sequence[Any]]:
        sources: dict[str, pa.Table | Slice] = {
            f"h{index}": self._held(table, self.absorbed[table]) for index, table in enumerate(self.plan.tables)
        }
        if only and stale:
            sources["stale"] = pa.table(dict(stale))
        found: dict[str, list[Any]] = self._engine.run(full_sql(self.plan, only), sources).to_pydict()
        return found
