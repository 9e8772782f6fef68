"""The condition of a view (`WHEN …`): whether it holds, change by change, and at which moments it is to be told.

All is a function of the log: the condition is looked at after every transaction of the tables, in event time, and what
has become true is told at once, or when the view's time is over since it was last told: telling brings the view up to
date, which may take that long, and a condition that comes and goes must not keep a pipeline busy for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.spark.views.shard import Applied
from tolerant.sql.predicates import columns, matches
from tolerant.sql.select import Tally, Trigger
from tolerant.sql.view_select import WEIGHT


@dataclass(frozen=True)
class Fired:
    """The condition is told: at this event time, of the tables as they were at this step."""

    at: int
    step: int


@dataclass(frozen=True)
class _Change:
    """A row that came (1) or went (-1), of one table."""

    step: int
    at: int
    table: str
    weight: int
    row: Mapping[str, Any]


class Watch:
    """One condition; `apart` microseconds lie between two moments at which it is told, at least.

    It is told when it becomes true, not while it stays so: it must have been false in between, if only for a moment.
    """

    def __init__(self, trigger: Trigger, apart: int) -> None:
        self._trigger, self._apart = trigger, apart
        self._counts = [0] * len(trigger.tallies)
        self._sums: list[Any] = [0] * len(trigger.tallies)
        self._armed = True  # it was false since it was last told
        self._last: int | None = None  # when it was last told
        self._now, self._step = 0, 0

    @property
    def holds(self) -> bool:
        """Whether the condition is true of the tables now."""
        tallies = range(len(self._trigger.tallies))
        return matches(self._trigger.condition, {str(place): self._value(place) for place in tallies})

    def columns(self, table: str) -> set[str]:
        """The columns of a table that it reads."""
        own = [tally for tally in self._trigger.tallies if tally.table == table]
        return {name for tally in own for name in (*columns(tally.where), *([tally.column] if tally.column else []))}

    def begin(self, contents: Mapping[str, pa.Table], at: int, step: int) -> list[Fired]:
        """Take the signed rows that the tables had when the view was made."""
        for table, rows in contents.items():
            for row in rows.to_pylist():
                self._count(table, row[WEIGHT], row)
        self._now, self._step = at, step
        return self._look()

    def take(self, applied: Sequence[Applied]) -> list[Fired]:
        """Take changes of the tables, all that there were in their order; the moments at which it is to be told."""
        fired: list[Fired] = []
        for seen, at, changes in _transactions(applied):
            # A late row is taken when time has gone on: what was to be told until then was so without it.
            fired += self.passed(max(at - 1, seen))
            for change in changes:
                self._count(change.table, change.weight, change.row)
                self._step = change.step
            self._now = max(self._now, at)
            fired += self._look()
        return fired

    def passed(self, watermark: int) -> list[Fired]:
        """Advances to the watermark; returns the firing that had to wait until now, if any."""
        self._now = max(self._now, watermark)
        if self._last is None or not self._armed or self._last + self._apart > watermark or not self.holds:
            return []
        return [self._tell(self._last + self._apart)]

    def record(self) -> list[Any]:
        """Everything that changes; for JSON."""
        return [self._counts, self._sums, self._armed, self._last, self._now, self._step]

    def resume(self, record: Sequence[Any]) -> None:
        """Become what `record` said.

        Raises:
            ValueError, TypeError: it is no record of such a condition.
        """
        counts, sums, armed, last, now, step = record
        if not len(counts) == len(sums) == len(self._trigger.tallies):
            raise ValueError(f"a condition of {len(self._trigger.tallies)} tallies has as many counts and sums")
        self._counts, self._armed = [int(count) for count in counts], bool(armed)
        self._sums = [value + 0 for value in sums]
        self._last, self._now, self._step = None if last is None else int(last), int(now), int(step)

    def _look(self) -> list[Fired]:
        if not self.holds:
            self._armed = True
        elif self._armed and (self._last is None or self._now >= self._last + self._apart):
            return [self._tell(self._now)]
        return []

    def _tell(self, at: int) -> Fired:
        self._armed, self._last = False, at
        return Fired(at, self._step)

    def _count(self, table: str, weight: int, row: Mapping[str, Any]) -> None:
        for place, tally in enumerate(self._trigger.tallies):
            if tally.table == table and matches(tally.where, row):
                self._counts[place] += weight
                # Floating point sums of nothing are not quite nothing: an empty table starts afresh.
                added = 0 if tally.column is None else weight * row[tally.column]
                self._sums[place] = self._sums[place] + added if self._counts[place] else 0

    def _value(self, place: int) -> Any:
        tally: Tally = self._trigger.tallies[place]
        if tally.fn == "count":
            return self._counts[place]
        if not self._counts[place]:
            return None
        return self._sums[place] if tally.fn == "sum" else self._sums[place] / self._counts[place]


def _transactions(applied: Sequence[Applied]) -> Iterator[tuple[int, int, list[_Change]]]:
    """Changes by the transaction, in order: (time that had passed before, their own time, the changes)."""
    transactions: dict[tuple[int, int], tuple[int, list[_Change]]] = {}
    for table_changes in applied:
        for row in range(len(table_changes.changes)):
            at, step = int(table_changes.changes.at[row]), int(table_changes.steps[row])
            change = _Change(
                step,
                at,
                table_changes.table,
                1 if table_changes.changes.insert[row] else -1,
                table_changes.changes.row(row),
            )
            transactions.setdefault((table_changes.through, at), (table_changes.seen, []))[1].append(change)
    for (_, at), (seen, changes) in sorted(transactions.items(), key=lambda item: min(c.step for c in item[1][1])):
        yield seen, at, sorted(changes, key=lambda change: change.step)


def after(applied: Applied, step: int) -> Applied:
    """The changes behind a step."""
    later = np.flatnonzero(applied.steps > step)
    return Applied(applied.table, applied.changes.take(later), applied.steps[later], applied.through, applied.seen)
