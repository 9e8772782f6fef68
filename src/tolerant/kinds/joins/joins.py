"""Select joins and band joins over two tables: result rows as they appear and as they are retracted.

One core per template has all subscriptions and the rows of both tables (`docs/design/joins.md`); a batch of changes
costs two lookups in it, however many transactions the batch has. The outputs depend on the subscriptions, the rows and
the changes alone, so a restore builds the core again from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.joins import BEFORE, NEVER, JoinDelta, JoinDeltaRuns, RowLifetimes, TwoSidedBandJoins, stabbing_partition
from tolerant.kernels.compiled import compiled
from tolerant.kernels.snapshots import State
from tolerant.kinds.joins.join_columns import Joining
from tolerant.kinds.joins.select import BandJoinSelect, JoinSelect
from tolerant.pipeline.range_partitioner import RangePartitioner
from tolerant.pipeline.shard_range import SINGLE_SHARD, Part
from tolerant.pipeline.sides import PairSide, SideChanges, Sides
from tolerant.relations import SubscriptionTable
from tolerant.sql import CreateQuery
from tolerant.sql.templates import parameter_types
from tolerant.transport.results import results_batch
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids
from tolerant.transport.topics import answers_topic

Integers = NDArray[np.int64]

Both = tuple[SideChanges, SideChanges]
"""The changes of both tables, in the order in which the statement names them."""

PART = 8192
"""About so many changes are told together, of whole transactions: what they come to is all in memory."""

HOT = 0.01
"""A group of at least this share of the subscriptions is hot."""

_COUNTED = ("rows", "appeared", "retracted", "rebuilds")
_OWN = "@own"  # no parameter is called so


class Joins:
    """One join query: a template with its subscriptions, or without parameters one for all.

    Of several shards (`part`) one of a band join that is spread by subscriptions knows all of them, and tells those
    that are its own.
    """

    tally = "results"

    def __init__(
        self,
        query: CreateQuery,
        sides: Sides,
        state: State | None = None,
        part: Part = SINGLE_SHARD,
    ) -> None:
        select = JoinSelect.of(query)
        self.query, self._part = query, part
        self._turned = sides[0].table.name != select.left  # the pair's order is that of names
        self._sides: Sides = (sides[1], sides[0]) if self._turned else sides
        tables = [side.table for side in self._sides]
        self._tables = [(table.name, table.columns) for table in tables]
        self._types = parameter_types(query, tables)
        self._on = select.on
        is_spread = part.shards > 1 and BandJoinSelect.matching(query) is not None and part.ranges is None
        self._stretches = RangePartitioner(part) if is_spread else None
        known = self._types | {_OWN: "BOOLEAN"} if is_spread else self._types
        self.subscriptions = SubscriptionTable(known)
        self._counts = np.zeros(len(_COUNTED), np.int64)
        self._is_regrouped = True  # since the last rows
        if state is not None:
            self._load(state)
        elif not query.parameters:
            self.subscriptions.add_many(subscription_ids({}), {_OWN: np.array([part.shard == 0])})
        self._joining = Joining(query, *tables)
        self._core = self._joining.core()
        self._listen(self.subscriptions.ids(), self.subscriptions.columns())
        self._core.store(*(self._held(place) for place in (0, 1)))

    def _load(self, state: State) -> None:
        subscriptions, partitioner, self._counts, self._is_regrouped = state.exactly(
            "subscriptions", "partitioner", "counts", "is_regrouped"
        )
        self.subscriptions = SubscriptionTable.load(self.subscriptions.parameters, subscriptions)
        if self._stretches is not None:
            self._stretches.load(partitioner)

    @classmethod
    def over(cls, query: CreateQuery, sides: Sides, state: State | None, part: Part = SINGLE_SHARD) -> Joins:
        """A new query over the rows that there are, or the one whose subscriptions were these."""
        return cls(query, sides, state, part)

    def __len__(self) -> int:
        return len(self.subscriptions)

    def state(self) -> State:
        """The subscriptions, and what was counted."""
        return State(
            subscriptions=self.subscriptions.state(),
            partitioner=None if self._stretches is None else self._stretches.state(),
            counts=self._counts.copy(),
            is_regrouped=self._is_regrouped,
        )

    def figures(self) -> dict[str, float]:
        """Counts rows inserted or deleted, results of single subscriptions that appeared and that were retracted, and
        rebuilds of an index of subscriptions for rows; the number of groups of subscriptions that share a point (the
        cost of a row grows with it), and the share of the subscriptions in hot groups. Only the first shard reports
        figures that are the same in all shards.
        """
        last = self._ends(*_own(self.subscriptions.ids(), self.subscriptions.columns()))[-2:]
        sizes, total = np.bincount(stabbing_partition(*last)[0]), len(self.subscriptions)
        hot = float(sizes[sizes >= HOT * total].sum() / total) if total else 0.0
        counts = dict(zip(_COUNTED, self._counts.tolist(), strict=True)) | {"groups": len(sizes), "hot": round(hot, 4)}
        if self._part.shard:
            same = ("rows", "rebuilds") if self._stretches is not None else ("rebuilds", "groups", "hot")
            counts |= dict.fromkeys(same, 0)
        return counts

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows.

        Raises:
            ValueError: the rows are not those of this template.
        """
        self._is_regrouped = True
        joining, ids, columns = read_subscription_rows(batch, self._types)
        self._ends(ids[joining], {name: column[joining] for name, column in columns.items()})  # all can be used
        edges = np.flatnonzero(np.diff(joining.astype(np.int8))) + 1
        for run in np.split(np.arange(len(ids)), edges):
            given = {name: column[run] for name, column in columns.items()}
            if len(run) and joining[run[0]]:
                self._place(ids[run], given)
                new = self.subscriptions.add_many(ids[run], given)
                self._listen(ids[run][new], {name: column[new] for name, column in given.items()})
            elif len(run):
                there = np.unique(ids[run][self.subscriptions.holds(ids[run])])
                listening = _own(there, self.subscriptions.of(there))[0]
                self.subscriptions.remove_many(there)
                self._core.remove_many(listening)

    def _place(self, ids: Integers, given: dict[str, NDArray[Any]]) -> None:
        """Note among the parameters of subscriptions that come which of them are this shard's."""
        if self._stretches is not None:
            current = self._ends(self.subscriptions.ids(), self.subscriptions.columns())[0]
            given[_OWN] = self._stretches.place(current, self._ends(ids, given)[0])

    def outputs(self, changes: tuple[SideChanges, SideChanges]) -> list[tuple[str, pa.RecordBatch]]:
        """The result rows that the changes make and unmake."""
        whole = (changes[1], changes[0]) if self._turned else changes
        self._counts[_COUNTED.index("rebuilds")] += self._is_regrouped
        self._is_regrouped = False
        batches = [self._delta(part, whole) for part in in_parts(whole, PART)]
        for place, side in enumerate(whole):
            gone = ~side.changes.insert
            self._joining.drop(place, {name: column[gone] for name, column in side.changes.columns.items()})
        return [(answers_topic(self.query.name), batch) for batch in batches if batch is not None]

    def _delta(self, part: Both, whole: Both) -> pa.RecordBatch | None:
        """Whole transactions, some of those that apply now."""
        runs = self._runs(self._touched(0, part[0]), self._touched(1, part[1]))
        sizes, appear = runs.stop - runs.start, runs.sign > 0
        self._counts += (self._counted(part), int(sizes[appear].sum()), int(sizes[~appear].sum()), 0)
        return self._results(runs, whole) if len(runs.sign) else None

    def _counted(self, part: Both) -> int:
        """How many rows came or went, those once that several shards have."""
        values = (side.changes.columns[on] for side, on in zip(part, self._on, strict=True))
        return sum(int(np.count_nonzero(self._part.counts(column))) for column in values)

    def _runs(self, r: RowLifetimes, s: RowLifetimes) -> JoinDeltaRuns:
        """What the changes come to, in order: by moment, retracted first, then by the rows."""
        if isinstance(self._core, TwoSidedBandJoins):
            runs = self._core.change_runs(r, s)
            order = np.lexsort((runs.start, runs.s, runs.r, runs.sign, runs.moment))
            return JoinDeltaRuns(runs.queries, *(column[order] for column in runs[1:]))
        return in_runs(self._core.change(r, s))

    def _listen(self, ids: Integers, columns: Mapping[str, NDArray[Any]]) -> None:
        ids, columns = _own(ids, columns)
        if len(ids):
            self._core.add_many(ids, *self._ends(ids, columns))

    def _ends(self, ids: Integers, columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[np.float64], ...]:
        return self._joining.ends(len(ids), columns)

    def _held(self, place: int) -> RowLifetimes:
        """The rows that a table has now."""
        side = self._sides[place]
        rows = side.numbers.of(side.relation.keys())
        values = self._joining.values(place, side.relation.rows(), np.ones(len(rows), np.bool_))
        return RowLifetimes(rows, np.full(len(rows), BEFORE), np.full(len(rows), NEVER), values)

    def _touched(self, place: int, side: SideChanges) -> RowLifetimes:
        """The rows that come and go, with when: a moment is the time of its transaction."""
        insert, at = side.changes.insert, side.changes.at
        rows, first = np.unique(side.rows, return_index=True)
        comes, goes = np.full(len(rows), BEFORE), np.full(len(rows), NEVER)
        comes[np.searchsorted(rows, side.rows[insert])] = at[insert]
        goes[np.searchsorted(rows, side.rows[~insert])] = at[~insert]
        columns = {name: column[first] for name, column in side.changes.columns.items()}
        return RowLifetimes(rows, comes, goes, self._joining.values(place, columns, comes > BEFORE))

    def _results(self, runs: JoinDeltaRuns, whole: Both) -> pa.RecordBatch:
        """One row for each result row and moment, with its subscriptions; of a band join for each group of these."""
        moments, steps = _last_steps(*whole)
        columns: dict[str, NDArray[Any]] = {}
        for side, changes, rows in zip(self._sides, whole, (runs.r, runs.s), strict=True):
            side_columns = _rows_of(side, changes, rows)
            columns |= {f"{side.table.name}.{name}": column for name, column in side_columns.items()}
        return results_batch(
            self._tables,
            insert=runs.sign > 0,
            at=runs.moment,
            steps=steps[np.searchsorted(moments, runs.moment)],
            starts=runs.start,
            stops=runs.stop,
            subscriptions=runs.queries,
            columns=columns,
            shard=self._part.number,
        )


def _own(ids: Integers, columns: Mapping[str, NDArray[Any]]) -> tuple[Integers, Mapping[str, NDArray[Any]]]:
    """The subscriptions that are this shard's."""
    if _OWN not in columns:
        return ids, columns
    own = columns[_OWN]
    return ids[own], {name: column[own] for name, column in columns.items()}


def in_parts(whole: Both, size: int) -> Iterator[Both]:
    """The changes in parts of whole transactions, each of `size` or a little more than its last transaction allows."""
    at = np.sort(np.concatenate([side.changes.at for side in whole]))
    begin = 0
    while begin < len(at):
        last = at[min(begin + size, len(at)) - 1]
        left, right = (side.take((side.changes.at >= at[begin]) & (side.changes.at <= last)) for side in whole)
        yield left, right
        begin = int(np.searchsorted(at, last, side="right"))


def _last_steps(*sides: SideChanges) -> tuple[Integers, Integers]:
    """The moments of the changes, and the last step of each."""
    at = np.concatenate([side.changes.at for side in sides])
    steps = np.concatenate([side.steps for side in sides])
    order = np.lexsort((steps, at))
    last = np.append(np.diff(at[order]) != 0, True)
    return at[order][last], steps[order][last]


def in_runs(delta: JoinDelta) -> JoinDeltaRuns:
    """What was told one by one, by moment, retracted first, then by the rows; the queries of each result row sorted."""
    if not len(delta.sign):
        return JoinDeltaRuns(delta.query, *(np.zeros(0, np.int64) for _ in range(6)))
    moments = np.unique(delta.moment, return_inverse=True)[1]
    bounds, order = grouped(moments, delta)
    chosen, queries = order[bounds[:-1]], delta.query[order]
    sort_parts(queries, bounds)
    return JoinDeltaRuns(queries, bounds[:-1], bounds[1:], *(column[chosen] for column in delta[1:]))


def grouped(moments: Integers, delta: JoinDelta) -> tuple[Integers, Integers]:
    """An order of what is told: by moment, retracted first, then by the rows. (Where each result row's part of it
    begins, with the end of all; the order.)
    """
    sizes = tuple(int(column.max()) + 1 for column in (delta.r, delta.s))
    if (int(moments.max()) + 1) * 2 * sizes[0] * sizes[1] < 1 << 62:
        key = ((moments * 2 + (delta.sign > 0)) * sizes[0] + delta.r) * sizes[1] + delta.s
        order = np.argsort(key)
        begins = np.diff(key[order]) != 0
    else:
        order = np.lexsort((delta.s, delta.r, delta.sign, moments))
        begins = np.zeros(len(order) - 1, np.bool_)
        for column in (delta.s, delta.r, delta.sign, moments):
            begins |= np.diff(column[order]) != 0
    return np.concatenate([[0], np.flatnonzero(begins) + 1, [len(order)]]), order


@compiled
def sort_parts(values: Integers, bounds: Integers) -> None:
    """Sort each part of the values, in place."""
    for part in range(len(bounds) - 1):
        if bounds[part + 1] - bounds[part] > 1:
            values[bounds[part] : bounds[part + 1]].sort()


def _rows_of(side: PairSide, changes: SideChanges, rows: Integers) -> dict[str, NDArray[Any]]:
    """The columns of rows of a table by their numbers: those that changed, and others that are there."""
    wanted, back = np.unique(rows, return_inverse=True)
    numbers, first = np.unique(changes.rows, return_index=True)
    is_changed = np.isin(wanted, numbers)
    places = first[np.searchsorted(numbers, wanted[is_changed])]
    others = side.relation.of(side.numbers.keys(wanted[~is_changed]))
    columns = {}
    for name, column in others.items():
        values = np.empty(len(wanted), column.dtype)
        values[is_changed], values[~is_changed] = changes.changes.columns[name][places], column
        columns[name] = values[back]
    return columns
