"""One view as it is kept: which version of each table it has absorbed, its groups, and what pushing does to both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from tolerant.spark.views.clock import Clock, SystemClock
from tolerant.spark.views.deltas import VERSION, DeltaLog, Slice, blank_row, netted, signed_schema
from tolerant.spark.views.time_limits import TookTooLong, full_limit, push_limit
from tolerant.sql.view_select import ViewPlan, delta_sql, full_sql, source_names
from tolerant.views.view_groups import Key, ViewGroups

Sources = Mapping[str, pa.Table | Slice]

_UNSEEN = itertools.count(1)  # by which slices of rehearsals differ, of all views: an engine may know those of another


class Engine(Protocol):
    """What runs a view's SQL."""

    def run(self, sql: str, sources: Sources, limit: float = math.inf) -> pa.Table:
        """The result of the SQL over these sources, by the names that it has for them.

        Raises:
            TookTooLong: it was cancelled after `limit` seconds.
        """
        ...


@dataclass
class Pushed:
    """What pushing did: the groups touched, and for each table its changes and the seconds that they took."""

    touched: list[Key] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    recomputed: int = 0
    """Groups that had to be recomputed because an extreme was deleted."""
    recomputing: float = 0.0
    """Seconds that the recomputation took, not included in `seconds`."""
    cancelled: list[str] = field(default_factory=list)
    """Tables whose changes cancelled each other out: there was nothing to join, and the time says nothing."""


class Maintained:
    """A view; `logs` has the changes of its tables, `within` is the seconds that a refresh may take.

    A push of one table joins its changes with the other tables *as the view has absorbed them*, not as they are: what
    waits on both sides would else be counted twice or never. Pushing up to a version that was absorbed does nothing.
    """

    def __init__(
        self,
        plan: ViewPlan,
        logs: Mapping[str, DeltaLog],
        engine: Engine,
        clock: Clock | None = None,
        within: float = math.inf,
    ) -> None:
        self._push_limit, self._full_limit = push_limit(within), full_limit(within)
        self.plan, self._logs, self._engine, self._clock = plan, logs, engine, clock or SystemClock()
        self.absorbed = dict.fromkeys(plan.tables, 0)
        self.groups = ViewGroups(
            len(plan.keys), len(plan.arguments), plan.summed, plan.extremes, everything=plan.everything
        )

    def compute(self, versions: Mapping[str, int]) -> Pushed:
        """Work everything out from the tables at these versions."""
        begun = self._clock.elapsed()
        before = list(self.groups.by_key)
        self.absorbed = {table: versions[table] for table in self.plan.tables}
        self.groups.clear()
        self.groups.replace((), self._full({}, False))
        touched = list(dict.fromkeys([*before, *self.groups.by_key]))
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
        sources = self._rehearsed(self._sources(table, rows, self.absorbed[table]))
        begun = self._clock.elapsed()
        self._run(
            delta_sql(self.plan, table), sources, self._push_limit, f"timing a push of {len(rows):,} rows of {table}"
        )
        return self._clock.elapsed() - begun

    def rehearse_recompute(self, groups: int) -> float:
        """Times the recomputation of `groups` groups, seconds; discards the result."""
        keys = list(self.groups.by_key)[:groups]
        sources = self._rehearsed(self._full_sources(self._keyed(keys), bool(keys)))
        begun = self._clock.elapsed()
        self._run(full_sql(self.plan, bool(keys)), sources, self._push_limit, "timing groups computed again")
        return self._clock.elapsed() - begun

    def _rehearsed(self, sources: Sources) -> dict[str, pa.Table | Slice]:
        """Sources that take as long as those of a push will: slices that the engine has not seen before, and a row of a
        table that has none, for an engine leaves out what is joined with nothing.
        """
        return {name: self._unseen(source) for name, source in sources.items()}

    def _unseen(self, source: pa.Table | Slice) -> pa.Table | Slice:
        if not isinstance(source, Slice):
            return source
        if not source.files:
            return blank_row(signed_schema(source.columns)).drop_columns([VERSION])
        return replace(source, high=source.high + next(_UNSEEN)) if source.whole else source

    def recompute(self, keys: Sequence[Key]) -> None:
        """Recomputes these groups from the absorbed changes."""
        self.groups.replace(keys, self._full(self._keyed(keys), True))

    def _keyed(self, keys: Sequence[Key]) -> dict[str, list[Any]]:
        """Groups' keys by the column."""
        return {f"k{index}": [key[index] for key in keys] for index in range(len(self.plan.keys))}

    def result(self, key: Key) -> list[list[Any]]:
        """The rows of the view that a group makes: none where it is not there."""
        if key not in self.groups.by_key:
            return []
        row = [self.groups.value(key, part.kind, part.index) for part in self.plan.outputs]
        return [row] * (1 if self.plan.grouped else self.groups.by_key[key].rows)

    def rows(self) -> list[list[Any]]:
        """All rows of the view, in no order."""
        return [row for key in self.groups.by_key for row in self.result(key)]

    def _delta(self, table: str, low: int, high: int) -> tuple[int, pa.Table | None]:
        changes = self._logs[table].read(low, high, self.plan.columns[table])
        delta = netted(changes)
        if not len(delta):
            return len(changes), None
        sources, what = self._sources(table, delta, high), f"pushing {len(changes):,} changes of {table}"
        return len(changes), self._run(delta_sql(self.plan, table), sources, self._push_limit, what)

    def _sources(self, table: str, delta: pa.Table, high: int) -> dict[str, pa.Table | Slice]:
        sources: dict[str, pa.Table | Slice] = {}
        for name, (of, which) in source_names(self.plan, table).items():
            sources[name] = (
                delta if which == "delta" else self._held(of, high if which == "after" else self.absorbed[of])
            )
        return sources

    def _held(self, table: str, version: int) -> Slice:
        return self._logs[table].slice(0, version, self.plan.columns[table])

    def _full(self, stale: Mapping[str, list[Any]], only: bool) -> Mapping[str, Sequence[Any]]:
        what = f"computing {'groups' if only else 'the view'} from its tables"
        rows = self._run(full_sql(self.plan, only), self._full_sources(stale, only), self._full_limit, what)
        columns: dict[str, list[Any]] = rows.to_pydict()
        return columns

    def _run(self, sql: str, sources: Sources, limit: float, what: str) -> pa.Table:
        try:
            return self._engine.run(sql, sources, limit)
        except TookTooLong:
            raise TookTooLong(f"{what} took longer than {limit:g} s, and was cancelled") from None

    def _full_sources(self, stale: Mapping[str, list[Any]], only: bool) -> dict[str, pa.Table | Slice]:
        sources: dict[str, pa.Table | Slice] = {
            f"h{index}": self._held(table, self.absorbed[table]) for index, table in enumerate(self.plan.tables)
        }
        if only and stale:
            sources["stale"] = pa.table(dict(stale))
        return sources
