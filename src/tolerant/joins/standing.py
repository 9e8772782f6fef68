"""What every kind of join shares: standing queries that come and go, stored rows, probes in bulk.

The queries are in a large index and a small one beside it (log-structured): a new query waits in a dictionary and is
in the small index from the next probe on; when there are more than `max(1,024, √n)` of them they are merged into the
large one. A removed query is marked in place. So a probe after a change never sorts everything again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isqrt
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.joins import checks
from tolerant.joins.arrays import Floats, Integers
from tolerant.joins.costs import DEFAULT, Costs
from tolerant.joins.output import Found, expand, pairs_in, room_for
from tolerant.joins.rows import Rows, Sorted

SIDE = 1024
"""At least so many new queries may stand beside the large index."""
_BUFFER = 1 << 15
"""Runs found before their pairs are written: what stays in the cache."""

Index = TypeVar("Index", bound=Any)


class Standing(ABC, Generic[Index]):
    """Standing queries over stored rows; what a kind of join adds is its index, its search and its arguments."""

    METHODS: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[str, ...]]
    """The ends of a query's ranges, low and high in turn."""

    def __init__(self, alpha: float | None = None, *, costs: Costs = DEFAULT) -> None:
        if alpha is not None and not 0 < alpha <= 1:
            raise ValueError(f"alpha must be None or in (0, 1], got {alpha}")
        self.alpha = alpha
        self._costs = costs.array()
        self.merges = 0
        self._rows = Rows()
        self._pending: dict[int, tuple[float, ...]] = {}
        self._dead: set[int] = set()  # removed from the large index
        self._main = self._empty()
        self._side = self._main
        self._side_is_fresh = True

    # -- what a kind of join says --

    @abstractmethod
    def _build(self, ids: Integers, columns: Floats) -> Index:
        """The index of queries given by sorted ids and float64[n, columns]."""

    @abstractmethod
    def _drop(self, index: Index, place: int) -> None:
        """Mark the query whose id is at `place` as removed."""

    @abstractmethod
    def _live(self, index: Index) -> tuple[Integers, Floats]:
        """Sorted ids and columns of the queries that are not removed."""

    @abstractmethod
    def _search(
        self, probes: tuple[Floats, ...], first: int, method: int, found: Found, ends: Integers, chosen: Integers
    ) -> tuple[int, int, int]:
        """Search a batch; see `search_bands`."""

    # -- queries --

    def __len__(self) -> int:
        """How many queries there are."""
        return len(self._main.ids) - len(self._dead) + len(self._pending)

    def __contains__(self, query: int) -> bool:
        return query in self._pending or (self._place(query) >= 0 and query not in self._dead)

    def remove(self, query: int) -> None:
        """Forget a query; its id is free again. Nothing is retracted."""
        query = checks.identifier("query", query)
        if query in self._pending:
            del self._pending[query]
            self._side_is_fresh = False
            return
        place = self._place(query)
        if place < 0 or query in self._dead:
            raise ValueError(f"query must be there, got {query}, which is not")
        self._drop(self._main, place)
        self._dead.add(query)

    def remove_many(self, queries: ArrayLike) -> None:
        """Forget queries, all or none."""
        ids = checks.integers("queries", queries)
        if len(np.unique(ids)) < len(ids):
            raise ValueError("queries must be different, got one twice")
        missing = ids[~self._there(ids)]
        if len(missing):
            raise ValueError(f"queries must be there, got {int(missing[0])}, which is not")
        if len(ids) <= SIDE:
            for query in ids.tolist():
                self.remove(query)
            return
        held, columns = self._all()
        kept = ~np.isin(held, ids)
        self._replace(held[kept], columns[kept])

    def _add(self, query: int, ends: tuple[float, ...]) -> None:
        query = checks.identifier("query", query)
        if query in self:
            raise ValueError(f"query must be new, got {query}, which is there already")
        self._pending[query] = ends
        self._side_is_fresh = False

    def _add_many(self, queries: ArrayLike, *ends: ArrayLike) -> None:
        ids = checks.integers("queries", queries)
        checked: list[Floats] = []
        for number in range(0, len(ends), 2):
            names = [f"{name}s" for name in self.COLUMNS[number : number + 2]]
            checked += checks.intervals(names[0], names[1], ends[number], ends[number + 1])
            checks.alike(("queries", names[0]), (ids, checked[-1]))
        checks.new_ids("queries", ids, ids[self._there(ids)])
        columns = np.stack(checked, axis=1)
        if len(self._pending) + len(ids) <= self._side_limit():
            self._pending.update(zip(ids.tolist(), map(tuple, columns.tolist()), strict=True))
            self._side_is_fresh = False
            return
        held, values = self._all()
        self._replace(np.concatenate([held, ids]), np.concatenate([values, columns]))

    # -- rows --

    def delete(self, row: int) -> None:
        """Forget a stored row; its id is free again."""
        self._rows.delete(row)

    def delete_many(self, rows: ArrayLike) -> None:
        """Forget stored rows, all or none."""
        self._rows.delete_many(rows)

    def rows_in_order(self) -> Integers:
        """The ids of the stored rows in the order that `slices` speaks of, int64[m]."""
        return self._rows.order().id.copy()

    @property
    def stored(self) -> int:
        """How many rows there are."""
        return len(self._rows)

    # -- figures --

    @property
    def groups(self) -> int:
        """How many groups of queries that share a point the indexes hold."""
        self._settle()
        return len(self._main.starts) - 1 + (len(self._side.starts) - 1 if self._pending else 0)

    @property
    def hot_share(self) -> float:
        """The share of queries in hot groups (all, without `alpha`)."""
        self._settle()
        return float(self._main.tally[0] / max(len(self._main.ids), 1))

    def bytes(self) -> dict[str, int]:
        """What the queries' and the rows' arrays take, indexes of all methods and lookup by id included."""
        self._settle()
        self._rows.order()
        return {"queries": _bytes(self._main), "rows": self._rows.bytes()}

    # -- probing --

    def _probe_many(
        self, probes: tuple[Floats, ...], method: str, limit: int | None = None
    ) -> tuple[Integers, Integers, Integers, int]:
        """Events, queries, rows, and the event to go on with."""
        code = self._code(method)
        rows = self._settle()
        events = len(probes[0])
        ends, chosen = np.empty(events, np.int64), np.empty(events, np.int64)
        found = room_for(_BUFFER)
        result = _Pairs()
        first = 0
        while first < events:
            last, used, needed = self._search(probes, first, code, found, ends, chosen)
            if needed:
                found = room_for(2 * needed)
                continue
            pairs = int(pairs_in(found, used))
            if limit is not None and result.used + pairs > limit:
                last, used, pairs = _fitting(found, ends, first, last, limit - result.used)
                if last == first and result.used == 0:
                    raise ValueError(f"limit must be at least the {pairs} pairs of event {first}, got {limit}")
                if last == first:
                    break
            result.make_room(pairs, (events - first) / max(last - first, 1))
            result.used = int(expand(found, ends, first, last, rows.id, *result.arrays, result.used))
            first = last
            if limit is not None and result.used == limit:
                break
        return (*result.taken(), first)

    def _slices(self, probe: tuple[float, ...], method: str) -> tuple[Integers, Integers, Integers]:
        code = self._code(method)
        self._settle()
        probes = tuple(np.array([value]) for value in probe)
        ends, chosen = np.empty(1, np.int64), np.empty(1, np.int64)
        found = room_for(1024)
        _, used, needed = self._search(probes, 0, code, found, ends, chosen)
        if needed:
            found = room_for(needed)
            _, used, _ = self._search(probes, 0, code, found, ends, chosen)
        queries, starts, stops = found.query[:used], found.start[:used], found.stop[:used]
        if self.METHODS[int(chosen[0])] in ("data", "join-first"):
            return _joined(queries, starts, stops)
        return queries.copy(), starts.copy(), stops.copy()

    def _chosen(self, probes: tuple[Floats, ...]) -> list[str]:
        """The methods that "auto" takes for these events."""
        self._settle()
        events = len(probes[0])
        ends, chosen = np.empty(events, np.int64), np.empty(events, np.int64)
        found, first, code = room_for(_BUFFER), 0, self._code("auto")
        while first < events:
            first, _, needed = self._search(probes, first, code, found, ends, chosen)
            if needed:
                found = room_for(2 * needed)
        return [self.METHODS[code] for code in chosen]

    def _code(self, method: str) -> int:
        return self.METHODS.index(checks.choice("method", method, self.METHODS))

    # -- state --

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All queries and rows as flat arrays, for `tolerant.kernels.snapshots.pack`; equal for equal objects."""
        ids, columns = self._all()
        rows = self._rows.order()
        return {
            "alpha": np.array([np.nan if self.alpha is None else self.alpha]),
            "costs": self._costs.copy(),
            "queries": ids,
            **{name: columns[:, k].copy() for k, name in enumerate(self.COLUMNS)},
            "rows": rows.id.copy(),
            "b": rows.b.copy(),
            "c": rows.c.copy(),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """The object that `to_arrays` was taken of."""
        alpha = float(arrays["alpha"][0])
        made = cls(None if np.isnan(alpha) else alpha, costs=Costs.of(arrays["costs"]))
        made._add_many(arrays["queries"], *(arrays[name] for name in cls.COLUMNS))
        made._rows.insert_many(arrays["rows"], np.asarray(arrays["b"]), np.asarray(arrays["c"]))
        return made

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.to_arrays(), other.to_arrays()
        return all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in mine)

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self) -> dict[str, NDArray[Any]]:
        return self.to_arrays()

    def __setstate__(self, state: dict[str, NDArray[Any]]) -> None:
        self.__dict__ = type(self).from_arrays(state).__dict__

    # -- the two indexes --

    def _empty(self) -> Index:
        return self._build(np.zeros(0, np.int64), np.zeros((0, len(self.COLUMNS))))

    def _side_limit(self) -> int:
        return max(SIDE, isqrt(len(self)))

    def _settle(self) -> Sorted:
        """Bring the indexes and the rows up to date."""
        if len(self._pending) > self._side_limit() or len(self._dead) > max(SIDE, len(self._main.ids) // 4):
            self._replace(*self._all())
        if not self._side_is_fresh:
            self._side = self._build(*self._waiting()) if self._pending else self._empty()
            self._side_is_fresh = True
        return self._rows.order()

    def _waiting(self) -> tuple[Integers, Floats]:
        ids = np.fromiter(self._pending, np.int64, len(self._pending))
        columns = np.array(list(self._pending.values()), np.float64).reshape(len(ids), len(self.COLUMNS))
        order = np.argsort(ids)
        return ids[order], columns[order]

    def _all(self) -> tuple[Integers, Floats]:
        """Sorted ids and columns of all queries."""
        held, columns = self._live(self._main)
        ids, more = self._waiting()
        if not len(ids):
            return held, columns
        ids, columns = np.concatenate([held, ids]), np.concatenate([columns, more])
        order = np.argsort(ids, kind="stable")
        return ids[order], columns[order]

    def _replace(self, ids: Integers, columns: Floats) -> None:
        order = np.argsort(ids, kind="stable")
        self._main = self._build(ids[order], np.ascontiguousarray(columns[order]))
        self._pending.clear()
        self._dead.clear()
        self._side = self._empty()
        self._side_is_fresh = True
        self.merges += 1

    def _place(self, query: int) -> int:
        ids = self._main.ids
        place = int(ids.searchsorted(query))
        return place if place < len(ids) and ids[place] == query else -1

    def _there(self, queries: Integers) -> NDArray[np.bool_]:
        ids = self._main.ids
        if len(ids):
            there = ids[np.minimum(np.searchsorted(ids, queries), len(ids) - 1)] == queries
        else:
            there = np.zeros(len(queries), np.bool_)
        for held, value in ((self._dead, False), (self._pending, True)):
            if held:
                there[np.isin(queries, np.fromiter(held, np.int64, len(held)))] = value
        return there


_NOTHING: Integers = np.empty(0, np.int64)


class _Pairs:
    """Growing result arrays: room for what the events so far let expect."""

    def __init__(self) -> None:
        self.used = 0
        self.arrays: tuple[Integers, Integers, Integers] = (_NOTHING, _NOTHING, _NOTHING)

    def make_room(self, pairs: int, chunks: float) -> None:
        needed = self.used + pairs
        if needed <= len(self.arrays[0]):
            return
        # Pages that are never written cost nothing.
        room = needed if chunks <= 1 else self.used + int(1.3 * pairs * chunks) + 1024
        room = max(room, needed)
        events, queries, rows = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        for larger, array in zip((events, queries, rows), self.arrays, strict=True):
            larger[: self.used] = array[: self.used]
        self.arrays = events, queries, rows

    def taken(self) -> tuple[Integers, Integers, Integers]:
        events, queries, rows = (array[: self.used] for array in self.arrays)
        return events, queries, rows


def _fitting(found: Found, ends: Integers, first: int, last: int, room: int) -> tuple[int, int, int]:
    """The event before which at most `room` pairs are found, its runs and pairs; where that is the first, the pairs it
    would take.
    """
    lengths = np.concatenate([[0], np.cumsum(found.stop[: ends[last - 1]] - found.start[: ends[last - 1]])])
    totals = lengths[ends[first:last]]
    whole = int(np.searchsorted(totals, room, side="right"))
    if whole == 0:
        return first, 0, int(totals[0])
    return first + whole, int(ends[first + whole - 1]), int(totals[whole - 1])


def _joined(queries: Integers, starts: Integers, stops: Integers) -> tuple[Integers, Integers, Integers]:
    """Runs of one query that touch, as one: methods that go row by row find them in pieces."""
    if not len(queries):
        return queries.copy(), starts.copy(), stops.copy()
    order = np.lexsort((starts, queries))
    queries, starts, stops = queries[order], starts[order], stops[order]
    first = np.concatenate([[True], queries[1:] != queries[:-1]])
    last = np.concatenate([first[1:], [True]])
    return queries[first], starts[first], stops[last]


def _bytes(index: Sequence[Any]) -> int:
    return sum(_bytes(part) if isinstance(part, tuple) else part.nbytes for part in index)
