"""Joins of two sides that both change: a result appears when its later row is inserted, and is retracted when one of
its rows is deleted (docs/design/joins.md §2.9).

Rows of S are stored where rows of R probe, and vice versa with the roles swapped. Both conditions agree to the bit,
since fl(r − s) = −fl(s − r).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.joins import checks
from tolerant.joins.band import BandJoins
from tolerant.joins.band_lists import BandOrders, runs_of, shortened
from tolerant.joins.continuous_joins import ContinuousJoins
from tolerant.joins.select import SelectJoins
from tolerant.kernels.array_types import Flags, Floats, Integers


class SignedResults(NamedTuple):
    """Result rows that appear (sign 1) or are retracted (sign −1): query, row of R, row of S, [k] each."""

    query: Integers
    r: Integers
    s: Integers
    sign: int


BEFORE, NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""Time of insertion of a row that existed before the batch; time of deletion of one that stays."""


class RowLifetimes(NamedTuple):
    """Rows of one side that are inserted or deleted in a batch of changes.

    `rows` int64[n] are all different. `inserted` and `deleted` int64[n] are the moments of insertion (BEFORE: the row
    existed) and of deletion (NEVER: it stays). `values` are float64[n] each: (b,) for a band join; (a, b) for rows of R
    and (b, c) for rows of S of a select join.
    """

    rows: Integers
    inserted: Integers
    deleted: Integers
    values: tuple[Floats, ...]


class JoinDelta(NamedTuple):
    """Result rows that appear (sign 1) or are retracted (−1) at their moments: all [k]."""

    query: Integers
    r: Integers
    s: Integers
    moment: Integers
    sign: Integers


class JoinDeltaRuns(NamedTuple):
    """Pairs of rows that appear (sign 1) or are retracted (−1) at their moments, with the queries of which the pair is
    a result row, `queries[start:stop]`; all [k] except the queries.

    Runs may overlap. A pair may have several runs, but each of its queries is in only one.
    """

    queries: Integers
    start: Integers
    stop: Integers
    r: Integers
    s: Integers
    moment: Integers
    sign: Integers


class _TwoSided(ABC):
    _over_s: ContinuousJoins[Any]  # rows of S, probed with rows of R
    _over_r: ContinuousJoins[Any]  # rows of R, probed with rows of S

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self._over_s)

    def remove(self, query: int) -> None:
        """Remove a query; no result is retracted."""
        self._over_s.remove(query)
        self._over_r.remove(query)

    def remove_many(self, queries: ArrayLike) -> None:
        """Remove queries, all or none."""
        self._over_s.remove_many(queries)
        self._over_r.remove_many(queries)

    def delete_r(self, rows: ArrayLike) -> SignedResults:
        """Delete rows of R; returns the results that are retracted."""
        ids, values = self._deleted_rows(self._over_r, rows)
        events, queries, others, _ = self._over_s._probe_many(values, "auto")
        return SignedResults(queries, ids[events], others, -1)

    def delete_s(self, rows: ArrayLike) -> SignedResults:
        """Delete rows of S; returns the results that are retracted."""
        ids, values = self._deleted_rows(self._over_s, rows)
        events, queries, others, _ = self._over_r._probe_many(values, "auto")
        return SignedResults(queries, others, ids[events], -1)

    def change(self, r: RowLifetimes, s: RowLifetimes) -> JoinDelta:
        """Apply many changes of both sides; returns the results that they would give one moment after the other, in any
        order.

        Changes of one moment are one transaction: a row deleted at a moment and one inserted then are never paired.
        This takes two probes, whatever the number of moments.
        """
        self._insert_new(r, s)
        events, queries, partners, _ = self._over_s._probe_many(r.values, "auto")
        first = _pair_changes((queries, r.rows[events], partners), _spans(r, events), _lifetimes_of(s, partners)[0])
        events, queries, partners, _ = self._over_r._probe_many(self._probe_of_s(s.values), "auto")
        spans, is_changed = _lifetimes_of(r, partners)
        rest = _pair_changes((queries, partners, s.rows[events]), spans, _spans(s, events), ~is_changed)
        self._delete_old(r, s)
        return JoinDelta(*map(np.concatenate, zip(first, rest, strict=True)))

    def _insert_new(self, r: RowLifetimes, s: RowLifetimes) -> None:
        """Check the changes, and store the inserted rows."""
        _check_lifetimes("r", r, self._over_r)
        _check_lifetimes("s", s, self._over_s)
        new_r, new_s = r.inserted > BEFORE, s.inserted > BEFORE
        self._over_r._rows.insert_many(r.rows[new_r], *self._stored_r(tuple(value[new_r] for value in r.values)))
        self._over_s._rows.insert_many(s.rows[new_s], *self._stored_s(tuple(value[new_s] for value in s.values)))

    def _delete_old(self, r: RowLifetimes, s: RowLifetimes) -> None:
        """Delete the deleted rows."""
        self._over_r.delete_many(r.rows[r.deleted < NEVER])
        self._over_s.delete_many(s.rows[s.deleted < NEVER])

    def store(self, r: RowLifetimes, s: RowLifetimes) -> None:
        """Store rows that exist already, without results; their moments are ignored."""
        for name, side, rows_of_side, stored in (
            ("r", self._over_r, r, self._stored_r(r.values)),
            ("s", self._over_s, s, self._stored_s(s.values)),
        ):
            for value in stored:
                checks.alike(
                    (f"{name}.rows", f"{name}.values"), (rows_of_side.rows, checks.finite(f"{name}.values", value))
                )
            side._rows.insert_many(rows_of_side.rows, *stored)

    def results(self) -> SignedResults:
        """Return all result rows of all queries over the stored rows."""
        stored = self._over_r._rows.order()
        events, queries, rows, _ = self._over_s._probe_many(self._probe_of(stored.b, stored.c), "auto")
        return SignedResults(queries, stored.id[events], rows, 1)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return both sides as flat arrays, for `tolerant.kernels.snapshots.pack`."""
        sides = {"s": self._over_s.to_arrays(), "r": self._over_r.to_arrays()}
        return {f"{side}.{name}": array for side, arrays in sides.items() for name, array in arrays.items()}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        for side, joins in (("s", self._over_s), ("r", self._over_r)):
            own = {name[2:]: array for name, array in arrays.items() if name.startswith(f"{side}.")}
            joins.__setstate__(own)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _TwoSided)
        return self._over_s == other._over_s and self._over_r == other._over_r

    __hash__ = None  # type: ignore[assignment]

    def _deleted_rows(self, side: ContinuousJoins[Any], rows: ArrayLike) -> tuple[Integers, tuple[Floats, ...]]:
        """Delete rows of a side; returns their ids and what to probe the other side with for them."""
        ids = checks.integers("rows", rows)
        places = side._rows.places_of(ids)
        order = side._rows.order()
        b, c = order.b[places], order.c[places]
        side.delete_many(ids)
        return ids, self._probe_of(b, c)

    # -- what a kind of join implements --

    @abstractmethod
    def _probe_of(self, b: Floats, c: Floats) -> tuple[Floats, ...]:
        """What to probe the other side with for a row that is stored as (b, c)."""

    @abstractmethod
    def _probe_of_s(self, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """What rows of S probe with."""

    @abstractmethod
    def _stored_r(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Rows of R as they are stored for probes by rows of S: (b, c)."""

    @abstractmethod
    def _stored_s(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Rows of S as they are stored for probes by rows of R: (b, c)."""


def _check_lifetimes(name: str, lifetimes: RowLifetimes, side: ContinuousJoins[Any]) -> None:
    """Raise ValueError unless the changes can be applied."""
    checks.alike((f"{name}.rows", f"{name}.inserted"), (lifetimes.rows, lifetimes.inserted))
    checks.alike((f"{name}.rows", f"{name}.deleted"), (lifetimes.rows, lifetimes.deleted))
    for value in lifetimes.values:
        checks.alike((f"{name}.rows", f"{name}.values"), (lifetimes.rows, checks.finite(f"{name}.values", value)))
    if len(np.unique(lifetimes.rows)) < len(lifetimes.rows):
        raise ValueError(f"{name}.rows must be different, got one twice")
    if not (lifetimes.inserted < lifetimes.deleted).all():
        raise ValueError(f"{name}: a row must be inserted before it is deleted")
    side._rows.order()
    exists = side._rows._places(lifetimes.rows) >= 0
    wrong = lifetimes.rows[exists != (lifetimes.inserted == BEFORE)]
    if len(wrong):
        raise ValueError(
            f"{name}: a row must exist before the batch exactly if it was inserted BEFORE, got {int(wrong[0])}"
        )


Spans = tuple[Integers, Integers]
"""When rows are inserted, and when they are deleted."""


def _spans(lifetimes: RowLifetimes, events: Integers) -> Spans:
    return lifetimes.inserted[events], lifetimes.deleted[events]


def _lifetimes_of(lifetimes: RowLifetimes, rows: Integers) -> tuple[Spans, Flags]:
    """When rows of a side are inserted and deleted, and whether they are among the changed rows."""
    if not len(lifetimes.rows):
        return (np.full(len(rows), BEFORE), np.full(len(rows), NEVER)), np.zeros(len(rows), np.bool_)
    order = np.argsort(lifetimes.rows)
    sorted_rows = lifetimes.rows[order]
    places = np.minimum(np.searchsorted(sorted_rows, rows), len(sorted_rows) - 1)
    is_changed = sorted_rows[places] == rows
    inserted = np.where(is_changed, lifetimes.inserted[order][places], BEFORE)
    return (inserted, np.where(is_changed, lifetimes.deleted[order][places], NEVER)), is_changed


def _pair_changes(
    carried: tuple[Integers, ...], r: Spans, s: Spans, chosen: Flags | None = None
) -> tuple[Integers, ...]:
    """When pairs of rows appear and vanish: a pair exists while both its rows do.

    Returns the columns `carried` for each change, and behind them moment and sign.
    """
    inserted, deleted = np.maximum(r[0], s[0]), np.minimum(r[1], s[1])
    exists = inserted < deleted if chosen is None else (inserted < deleted) & chosen
    appear, vanish = exists & (inserted > BEFORE), exists & (deleted < NEVER)
    sign = np.repeat([1, -1], [np.count_nonzero(appear), np.count_nonzero(vanish)])
    moment = np.concatenate([inserted[appear], deleted[vanish]])
    return (*(np.concatenate([column[appear], column[vanish]]) for column in carried), moment, sign)


class TwoSidedBandJoins(_TwoSided):
    """Band joins `low ≤ s.b − r.b ≤ high` of two tables that change.

    >>> joins = TwoSidedBandJoins()
    >>> joins.add_many([1], [0.0], [2.0])
    >>> len(joins.insert_r([7], [5.0]).query)
    0
    >>> results = joins.insert_s([8, 9], [6.0, 9.0])
    >>> results.query.tolist(), results.r.tolist(), results.s.tolist(), results.sign
    ([1], [7], [8], 1)
    >>> joins.delete_r([7]).s.tolist()
    [8]
    """

    def __init__(self, alpha: float | None = None) -> None:
        self._over_s: BandJoins = BandJoins(alpha)
        self._over_r: BandJoins = BandJoins(alpha)
        self._orders = BandOrders()

    def add_many(self, queries: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add queries, all or none; `snapshot` returns the first answer of one."""
        self._over_s.add_many(queries, lows, highs)
        low, high = np.array(lows, np.float64), np.array(highs, np.float64)
        self._over_r.add_many(queries, -high, -low)
        self._orders.add(np.array(queries, np.int64), low, high)

    def add(self, query: int, low: float, high: float) -> None:
        """Add a query."""
        self._over_s.add(query, low, high)
        self._over_r.add(query, -high, -low)
        self._orders.add(np.array([query]), np.array([low], np.float64), np.array([high], np.float64))

    def remove(self, query: int) -> None:
        """See `_TwoSided.remove`."""
        super().remove(query)
        self._orders.remove(np.array([query]))

    def remove_many(self, queries: ArrayLike) -> None:
        """See `_TwoSided.remove_many`."""
        super().remove_many(queries)
        self._orders.remove(np.array(queries, np.int64))

    def change_runs(self, r: RowLifetimes, s: RowLifetimes) -> JoinDeltaRuns:
        """Apply changes as `change` does, with the queries of a pair of rows as runs.

        This takes time for the pairs of rows, not for the queries of each; after queries were added or removed also for
        one pass over all of them.

        >>> joins = TwoSidedBandJoins()
        >>> joins.add_many([1, 2, 3], [-1.0, 0.0, 0.5], [1.0, 2.0, 3.0])
        >>> row, now, stays = np.array([7]), np.array([10]), np.array([NEVER])
        >>> delta = joins.change_runs(RowLifetimes(row, now, stays, (np.array([5.0]),)),
        ...                           RowLifetimes(row, now, stays, (np.array([5.2]),)))
        >>> delta.queries[delta.start[0]:delta.stop[0]].tolist(), delta.moment.tolist(), delta.sign.tolist()
        ([1, 2], [10], [1])
        """
        self._insert_new(r, s)
        lists = self._orders.lists()
        stored = self._over_s._rows.order()
        runs = runs_of(stored.b, r.values[0], lists)
        partners = stored.id[runs.place]
        carried = (runs.start, runs.stop, r.rows[runs.event], partners)
        first = _pair_changes(carried, _spans(r, runs.event), _lifetimes_of(s, partners)[0])
        stored = self._over_r._rows.order()
        # fl(s − r) = fl(−r − −s): negated and in reverse, rows of R are stored rows of the same bands.
        runs = runs_of(np.ascontiguousarray(-stored.b[::-1]), -s.values[0], lists)
        partners = stored.id[len(stored.id) - 1 - runs.place]
        spans, is_changed = _lifetimes_of(r, partners)
        carried = (runs.start, runs.stop, partners, s.rows[runs.event])
        rest = _pair_changes(carried, spans, _spans(s, runs.event), ~is_changed)
        self._delete_old(r, s)
        start, stop, *others = map(np.concatenate, zip(first, rest, strict=True))
        starts, queries = shortened(lists.members, start, stop)
        return JoinDeltaRuns(queries, starts, starts + stop - start, *others)

    def insert_r(self, rows: ArrayLike, bs: ArrayLike) -> SignedResults:
        """Insert rows of R; returns the results that appear."""
        ids = checks.integers("rows", rows)
        self._over_r.insert_many(ids, bs)
        events, queries, others = self._over_s.probe_many(bs)
        return SignedResults(queries, ids[events], others, 1)

    def insert_s(self, rows: ArrayLike, bs: ArrayLike) -> SignedResults:
        """Insert rows of S; returns the results that appear."""
        ids = checks.integers("rows", rows)
        self._over_s.insert_many(ids, bs)
        events, queries, others = self._over_r.probe_many(bs)
        return SignedResults(queries, others, ids[events], 1)

    def snapshot(self, query: int) -> SignedResults:
        """Return the query's full join of the stored rows."""
        stored = self._over_r._rows.order()
        events, rows = self._over_s.snapshot(query, stored.b)
        return SignedResults(np.full(len(rows), query), stored.id[events], rows, 1)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TwoSidedBandJoins:
        """Restore an object from what `to_arrays` returned."""
        restored = cls()
        restored._restore(arrays)
        ids, ends = restored._over_s._all()
        restored._orders.add(ids, ends[:, 0].copy(), ends[:, 1].copy())
        return restored

    def _probe_of(self, b: Floats, c: Floats) -> tuple[Floats, ...]:
        return (b,)

    def _probe_of_s(self, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        return values

    def _stored_r(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return values[0], np.zeros(len(values[0]))

    def _stored_s(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return self._stored_r(values)


class TwoSidedSelectJoins(_TwoSided):
    """Select joins of R(a, b) and S(b, c), both of which change: equal b, a and c each in the query's range."""

    def __init__(self, alpha: float | None = None) -> None:
        self._over_s: SelectJoins = SelectJoins(alpha)
        self._over_r: SelectJoins = SelectJoins(alpha)

    def add_many(
        self, queries: ArrayLike, a_lows: ArrayLike, a_highs: ArrayLike, c_lows: ArrayLike, c_highs: ArrayLike
    ) -> None:
        """Add queries, all or none; `snapshot` returns the first answer of one."""
        self._over_s.add_many(queries, a_lows, a_highs, c_lows, c_highs)
        self._over_r.add_many(queries, c_lows, c_highs, a_lows, a_highs)

    def add(self, query: int, a_low: float, a_high: float, c_low: float, c_high: float) -> None:
        """Add a query."""
        self._over_s.add(query, a_low, a_high, c_low, c_high)
        self._over_r.add(query, c_low, c_high, a_low, a_high)

    def insert_r(self, rows: ArrayLike, a: ArrayLike, bs: ArrayLike) -> SignedResults:
        """Insert rows (a, b) of R; returns the results that appear."""
        ids, values, b = checks.integers("rows", rows), checks.finite("a", a), checks.finite("bs", bs)
        checks.alike(("rows", "a", "bs"), (ids, values, b))
        self._over_r.insert_many(ids, b, values)
        events, queries, others = self._over_s.probe_many(values, b)
        return SignedResults(queries, ids[events], others, 1)

    def insert_s(self, rows: ArrayLike, bs: ArrayLike, cs: ArrayLike) -> SignedResults:
        """Insert rows (b, c) of S; returns the results that appear."""
        ids = checks.integers("rows", rows)
        self._over_s.insert_many(ids, bs, cs)
        events, queries, others = self._over_r.probe_many(cs, bs)
        return SignedResults(queries, others, ids[events], 1)

    def snapshot(self, query: int) -> SignedResults:
        """Return the query's full join of the stored rows."""
        stored = self._over_r._rows.order()
        events, rows = self._over_s.snapshot(query, stored.c, stored.b)
        return SignedResults(np.full(len(rows), query), stored.id[events], rows, 1)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TwoSidedSelectJoins:
        """Restore an object from what `to_arrays` returned."""
        restored = cls()
        restored._restore(arrays)
        return restored

    def _probe_of(self, b: Floats, c: Floats) -> tuple[Floats, ...]:
        return c, b

    def _probe_of_s(self, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        return values[1], values[0]

    def _stored_r(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return values[1], values[0]

    def _stored_s(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return values[0], values[1]
