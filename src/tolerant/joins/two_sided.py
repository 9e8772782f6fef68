"""Joins whose both sides change: each pair is told when its later row arrives, and retracted when one goes (§2.9).

Rows of S are kept where rows of R probe, and the other way round with the roles swapped. The conditions agree to the
bit, since fl(r − s) = −fl(s − r).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.joins import checks
from tolerant.joins.arrays import Flags, Floats, Integers
from tolerant.joins.band import BandJoins
from tolerant.joins.band_lists import BandOrders, runs_of, shortened
from tolerant.joins.select import SelectJoins
from tolerant.joins.standing import Standing


class Changed(NamedTuple):
    """Result rows that appear (sign 1) or are retracted (sign −1): query, row of R, row of S, [k] each."""

    query: Integers
    r: Integers
    s: Integers
    sign: int


BEFORE, NEVER = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""When a row came that was there before, and when one goes that stays."""


class Touched(NamedTuple):
    """Rows of one side that come or go in a batch of changes: `rows` int64[n], all different; when each comes and when
    it goes, int64[n] (BEFORE: it was there, NEVER: it stays); and `values` float64[n] each: (b,) for a band join,
    (a, b) for rows of R and (b, c) for rows of S of a select join.
    """

    rows: Integers
    comes: Integers
    goes: Integers
    values: tuple[Floats, ...]


class Told(NamedTuple):
    """Result rows that appear (sign 1) or are retracted (−1) at their moments: all [k]."""

    query: Integers
    r: Integers
    s: Integers
    moment: Integers
    sign: Integers


class ToldRuns(NamedTuple):
    """Pairs of rows that come together (sign 1) or part (−1) at their moments, with the queries that this is a result
    row of, `queries[start:stop]`: all [k] but the queries. Runs may overlap; a pair may have several, and has a query
    once.
    """

    queries: Integers
    start: Integers
    stop: Integers
    r: Integers
    s: Integers
    moment: Integers
    sign: Integers


class _TwoSided(ABC):
    _over_s: Standing[Any]  # rows of S, probed with rows of R
    _over_r: Standing[Any]  # rows of R, probed with rows of S

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self._over_s)

    def remove(self, query: int) -> None:
        """Forget a query; nothing is retracted."""
        self._over_s.remove(query)
        self._over_r.remove(query)

    def remove_many(self, queries: ArrayLike) -> None:
        """Forget queries, all or none."""
        self._over_s.remove_many(queries)
        self._over_r.remove_many(queries)

    def delete_r(self, rows: ArrayLike) -> Changed:
        """Rows of R go; what they had joined with is retracted."""
        ids, values = self._taken(self._over_r, rows)
        events, queries, others, _ = self._over_s._probe_many(values, "auto")
        return Changed(queries, ids[events], others, -1)

    def delete_s(self, rows: ArrayLike) -> Changed:
        """Rows of S go; what they had joined with is retracted."""
        ids, values = self._taken(self._over_s, rows)
        events, queries, others, _ = self._over_r._probe_many(values, "auto")
        return Changed(queries, others, ids[events], -1)

    def change(self, r: Touched, s: Touched) -> Told:
        """Many changes of both sides at once: what they would tell one moment after the other, in any order.

        Changes of one moment are one transaction: a row that goes at a moment and one that comes then never meet. It
        takes two probes, whatever the number of moments.
        """
        self._arrive(r, s)
        events, queries, partners, _ = self._over_s._probe_many(r.values, "auto")
        first = _lives((queries, r.rows[events], partners), _spans(r, events), _found(s, partners)[0])
        events, queries, partners, _ = self._over_r._probe_many(self._probe_of_s(s.values), "auto")
        spans, is_touched = _found(r, partners)
        rest = _lives((queries, partners, s.rows[events]), spans, _spans(s, events), ~is_touched)
        self._leave(r, s)
        return Told(*map(np.concatenate, zip(first, rest, strict=True)))

    def _arrive(self, r: Touched, s: Touched) -> None:
        """Check changes, and store the rows that come."""
        _check_touched("r", r, self._over_r)
        _check_touched("s", s, self._over_s)
        new_r, new_s = r.comes > BEFORE, s.comes > BEFORE
        self._over_r._rows.insert_many(r.rows[new_r], *self._stored_r(tuple(value[new_r] for value in r.values)))
        self._over_s._rows.insert_many(s.rows[new_s], *self._stored_s(tuple(value[new_s] for value in s.values)))

    def _leave(self, r: Touched, s: Touched) -> None:
        """Forget the rows that go."""
        self._over_r.delete_many(r.rows[r.goes < NEVER])
        self._over_s.delete_many(s.rows[s.goes < NEVER])

    def store(self, r: Touched, s: Touched) -> None:
        """Rows that are there already: nothing is told of them. When they came and go is of no account."""
        for name, held, touched, stored in (
            ("r", self._over_r, r, self._stored_r(r.values)),
            ("s", self._over_s, s, self._stored_s(s.values)),
        ):
            for value in stored:
                checks.alike((f"{name}.rows", f"{name}.values"), (touched.rows, checks.finite(f"{name}.values", value)))
            held._rows.insert_many(touched.rows, *stored)

    def results(self) -> Changed:
        """All result rows of all queries, of what is stored."""
        held = self._over_r._rows.order()
        events, queries, rows, _ = self._over_s._probe_many(self._probe_of(held.b, held.c), "auto")
        return Changed(queries, held.id[events], rows, 1)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Both sides as flat arrays, for `tolerant.kernels.snapshots.pack`."""
        sides = {"s": self._over_s.to_arrays(), "r": self._over_r.to_arrays()}
        return {f"{side}.{name}": array for side, arrays in sides.items() for name, array in arrays.items()}

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        for side, held in (("s", self._over_s), ("r", self._over_r)):
            own = {name[2:]: array for name, array in arrays.items() if name.startswith(f"{side}.")}
            held.__setstate__(own)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        assert isinstance(other, _TwoSided)
        return self._over_s == other._over_s and self._over_r == other._over_r

    __hash__ = None  # type: ignore[assignment]

    def _taken(self, side: Standing[Any], rows: ArrayLike) -> tuple[Integers, tuple[Floats, ...]]:
        """Delete rows of a side; what the other side is to be probed with for them."""
        ids = checks.integers("rows", rows)
        places = side._rows.places_of(ids)
        order = side._rows.order()
        b, c = order.b[places], order.c[places]
        side.delete_many(ids)
        return ids, self._probe_of(b, c)

    # -- what a kind of join says --

    @abstractmethod
    def _probe_of(self, b: Floats, c: Floats) -> tuple[Floats, ...]:
        """What rows of the other side are probed with for a row that was kept as (b, c)."""

    @abstractmethod
    def _probe_of_s(self, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        """What rows of S probe with."""

    @abstractmethod
    def _stored_r(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Rows of R as they are kept for rows of S to probe: (b, c)."""

    @abstractmethod
    def _stored_s(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        """Rows of S as they are kept for rows of R to probe: (b, c)."""


def _check_touched(name: str, touched: Touched, held: Standing[Any]) -> None:
    """Raise ValueError unless the changes can be made."""
    checks.alike((f"{name}.rows", f"{name}.comes"), (touched.rows, touched.comes))
    checks.alike((f"{name}.rows", f"{name}.goes"), (touched.rows, touched.goes))
    for value in touched.values:
        checks.alike((f"{name}.rows", f"{name}.values"), (touched.rows, checks.finite(f"{name}.values", value)))
    if len(np.unique(touched.rows)) < len(touched.rows):
        raise ValueError(f"{name}.rows must be different, got one twice")
    if not (touched.comes < touched.goes).all():
        raise ValueError(f"{name}: a row must come before it goes")
    held._rows.order()
    there = held._rows._places(touched.rows) >= 0
    wrong = touched.rows[there != (touched.comes == BEFORE)]
    if len(wrong):
        raise ValueError(f"{name}: a row must be there before exactly if it came BEFORE, got {int(wrong[0])}")


Spans = tuple[Integers, Integers]
"""When rows come, and when they go."""


def _spans(touched: Touched, events: Integers) -> Spans:
    return touched.comes[events], touched.goes[events]


def _found(touched: Touched, rows: Integers) -> tuple[Spans, Flags]:
    """When rows of a side come and go, and whether they are among those that do."""
    if not len(touched.rows):
        return (np.full(len(rows), BEFORE), np.full(len(rows), NEVER)), np.zeros(len(rows), np.bool_)
    order = np.argsort(touched.rows)
    held = touched.rows[order]
    places = np.minimum(np.searchsorted(held, rows), len(held) - 1)
    is_touched = held[places] == rows
    comes = np.where(is_touched, touched.comes[order][places], BEFORE)
    return (comes, np.where(is_touched, touched.goes[order][places], NEVER)), is_touched


def _lives(carried: tuple[Integers, ...], r: Spans, s: Spans, chosen: Flags | None = None) -> tuple[Integers, ...]:
    """What pairs tell of themselves: they are there while both their rows are. What is carried along, and behind it
    moment and sign.
    """
    comes, goes = np.maximum(r[0], s[0]), np.minimum(r[1], s[1])
    live = comes < goes if chosen is None else (comes < goes) & chosen
    appear, vanish = live & (comes > BEFORE), live & (goes < NEVER)
    sign = np.repeat([1, -1], [np.count_nonzero(appear), np.count_nonzero(vanish)])
    moment = np.concatenate([comes[appear], goes[vanish]])
    return (*(np.concatenate([column[appear], column[vanish]]) for column in carried), moment, sign)


class TwoSidedBandJoins(_TwoSided):
    """Band joins `low ≤ s.b − r.b ≤ high` of two tables that change.

    >>> joins = TwoSidedBandJoins()
    >>> joins.add_many([1], [0.0], [2.0])
    >>> len(joins.insert_r([7], [5.0]).query)
    0
    >>> gained = joins.insert_s([8, 9], [6.0, 9.0])
    >>> gained.query.tolist(), gained.r.tolist(), gained.s.tolist(), gained.sign
    ([1], [7], [8], 1)
    >>> joins.delete_r([7]).s.tolist()
    [8]
    """

    def __init__(self, alpha: float | None = None) -> None:
        self._over_s: BandJoins = BandJoins(alpha)
        self._over_r: BandJoins = BandJoins(alpha)
        self._orders = BandOrders()

    def add_many(self, queries: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add queries, all or none; `snapshot` gives the first answer of one."""
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

    def change_runs(self, r: Touched, s: Touched) -> ToldRuns:
        """As `change`, with the queries of a pair of rows as runs: it takes time for the pairs, not for the queries
        that each is for; when some have come or gone since the last time, also for going over all of them once.

        >>> joins = TwoSidedBandJoins()
        >>> joins.add_many([1, 2, 3], [-1.0, 0.0, 0.5], [1.0, 2.0, 3.0])
        >>> one, now, stays = np.array([7]), np.array([10]), np.array([NEVER])
        >>> told = joins.change_runs(Touched(one, now, stays, (np.array([5.0]),)),
        ...                          Touched(one, now, stays, (np.array([5.2]),)))
        >>> told.queries[told.start[0]:told.stop[0]].tolist(), told.moment.tolist(), told.sign.tolist()
        ([1, 2], [10], [1])
        """
        self._arrive(r, s)
        lists = self._orders.lists()
        held = self._over_s._rows.order()
        found = runs_of(held.b, r.values[0], lists)
        partners = held.id[found.place]
        carried = (found.start, found.stop, r.rows[found.event], partners)
        first = _lives(carried, _spans(r, found.event), _found(s, partners)[0])
        held = self._over_r._rows.order()
        # fl(s − r) = fl(−r − −s): rows of R from the other end are stored rows of the same bands.
        found = runs_of(np.ascontiguousarray(-held.b[::-1]), -s.values[0], lists)
        partners = held.id[len(held.id) - 1 - found.place]
        spans, is_touched = _found(r, partners)
        carried = (found.start, found.stop, partners, s.rows[found.event])
        rest = _lives(carried, spans, _spans(s, found.event), ~is_touched)
        self._leave(r, s)
        start, stop, *others = map(np.concatenate, zip(first, rest, strict=True))
        starts, queries = shortened(lists.members, start, stop)
        return ToldRuns(queries, starts, starts + stop - start, *others)

    def insert_r(self, rows: ArrayLike, bs: ArrayLike) -> Changed:
        """Rows of R arrive; the result rows that appear by them."""
        ids = checks.integers("rows", rows)
        self._over_r.insert_many(ids, bs)
        events, queries, others = self._over_s.probe_many(bs)
        return Changed(queries, ids[events], others, 1)

    def insert_s(self, rows: ArrayLike, bs: ArrayLike) -> Changed:
        """Rows of S arrive; the result rows that appear by them."""
        ids = checks.integers("rows", rows)
        self._over_s.insert_many(ids, bs)
        events, queries, others = self._over_r.probe_many(bs)
        return Changed(queries, others, ids[events], 1)

    def snapshot(self, query: int) -> Changed:
        """The query's full join of what is stored."""
        held = self._over_r._rows.order()
        events, rows = self._over_s.snapshot(query, held.b)
        return Changed(np.full(len(rows), query), held.id[events], rows, 1)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TwoSidedBandJoins:
        """The object that `to_arrays` was taken of."""
        made = cls()
        made._restore(arrays)
        ids, ends = made._over_s._all()
        made._orders.add(ids, ends[:, 0].copy(), ends[:, 1].copy())
        return made

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
        """Add queries, all or none; `snapshot` gives the first answer of one."""
        self._over_s.add_many(queries, a_lows, a_highs, c_lows, c_highs)
        self._over_r.add_many(queries, c_lows, c_highs, a_lows, a_highs)

    def add(self, query: int, a_low: float, a_high: float, c_low: float, c_high: float) -> None:
        """Add a query."""
        self._over_s.add(query, a_low, a_high, c_low, c_high)
        self._over_r.add(query, c_low, c_high, a_low, a_high)

    def insert_r(self, rows: ArrayLike, a: ArrayLike, bs: ArrayLike) -> Changed:
        """Rows (a, b) of R arrive; the result rows that appear by them."""
        ids, values, b = checks.integers("rows", rows), checks.finite("a", a), checks.finite("bs", bs)
        checks.alike(("rows", "a", "bs"), (ids, values, b))
        self._over_r.insert_many(ids, b, values)
        events, queries, others = self._over_s.probe_many(values, b)
        return Changed(queries, ids[events], others, 1)

    def insert_s(self, rows: ArrayLike, bs: ArrayLike, cs: ArrayLike) -> Changed:
        """Rows (b, c) of S arrive; the result rows that appear by them."""
        ids = checks.integers("rows", rows)
        self._over_s.insert_many(ids, bs, cs)
        events, queries, others = self._over_r.probe_many(cs, bs)
        return Changed(queries, others, ids[events], 1)

    def snapshot(self, query: int) -> Changed:
        """The query's full join of what is stored."""
        held = self._over_r._rows.order()
        events, rows = self._over_s.snapshot(query, held.c, held.b)
        return Changed(np.full(len(rows), query), held.id[events], rows, 1)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> TwoSidedSelectJoins:
        """The object that `to_arrays` was taken of."""
        made = cls()
        made._restore(arrays)
        return made

    def _probe_of(self, b: Floats, c: Floats) -> tuple[Floats, ...]:
        return c, b

    def _probe_of_s(self, values: tuple[Floats, ...]) -> tuple[Floats, ...]:
        return values[1], values[0]

    def _stored_r(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return values[1], values[0]

    def _stored_s(self, values: tuple[Floats, ...]) -> tuple[Floats, Floats]:
        return values[0], values[1]
