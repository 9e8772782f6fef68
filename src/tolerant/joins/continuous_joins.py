"""The base of every kind of continuous join: queries that are added and removed, stored rows, probes in bulk.

The queries are in a large index and a small one beside it (log-structured): a new query is in a dictionary at first and
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
from tolerant.joins.method_costs import DEFAULT, CostCoefficients
from tolerant.joins.run_buffer import RunBuffer, count_pairs, empty_buffer, write_pairs
from tolerant.joins.stored_rows import SortedRows, StoredRows
from tolerant.kernels.array_types import Floats, Integers

SIDE = 1024
"""The small index may have at least this many queries."""
_BUFFER = 1 << 15
"""Runs per buffer before their pairs are written: as many as stay in the cache."""

Index = TypeVar("Index", bound=Any)


class ContinuousJoins(ABC, Generic[Index]):
    """Continuous queries over stored rows; a subclass adds its index, its search and its arguments.

    Attributes:
        alpha: groups with at least this share of the queries are hot; None: all are.
        merges: how often the small index was merged into the large one.
    """

    METHODS: ClassVar[tuple[str, ...]]
    COLUMNS: ClassVar[tuple[str, ...]]
    """The ends of a query's ranges, low and high alternately."""

    def __init__(self, alpha: float | None = None, *, costs: CostCoefficients = DEFAULT) -> None:
        if alpha is not None and not 0 < alpha <= 1:
            raise ValueError(f"alpha must be None or in (0, 1], got {alpha}")
        self.alpha = alpha
        self._costs = costs.array()
        self.merges = 0
        self._rows = StoredRows()
        self._pending: dict[int, tuple[float, ...]] = {}
        self._removed: set[int] = set()  # removed from the large index
        self._main = self._empty()
        self._side = self._main
        self._side_is_current = True

    # -- what a kind of join implements --

    @abstractmethod
    def _build(self, ids: Integers, columns: Floats) -> Index:
        """Build the index of queries given by sorted ids and float64[n, columns]."""

    @abstractmethod
    def _drop(self, index: Index, place: int) -> None:
        """Mark the query whose id is at `place` as removed."""

    @abstractmethod
    def _live(self, index: Index) -> tuple[Integers, Floats]:
        """Return sorted ids and columns of the queries that are not removed."""

    @abstractmethod
    def _search(
        self, probes: tuple[Floats, ...], first: int, method: int, buffer: RunBuffer, ends: Integers, chosen: Integers
    ) -> tuple[int, int, int]:
        """Search a batch; see `search_bands`."""

    # -- queries --

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self._main.ids) - len(self._removed) + len(self._pending)

    def __contains__(self, query: int) -> bool:
        return query in self._pending or (self._place(query) >= 0 and query not in self._removed)

    def remove(self, query: int) -> None:
        """Remove a query; its id is free again. No result is retracted."""
        query = checks.identifier("query", query)
        if query in self._pending:
            del self._pending[query]
            self._side_is_current = False
            return
        place = self._place(query)
        if place < 0 or query in self._removed:
            raise ValueError(f"query must be there, got {query}, which is not")
        self._drop(self._main, place)
        self._removed.add(query)

    def remove_many(self, queries: ArrayLike) -> None:
        """Remove queries, all or none."""
        ids = checks.integers("queries", queries)
        if len(np.unique(ids)) < len(ids):
            raise ValueError("queries must be different, got one twice")
        missing = ids[~self._exist(ids)]
        if len(missing):
            raise ValueError(f"queries must be there, got {int(missing[0])}, which is not")
        if len(ids) <= SIDE:
            for query in ids.tolist():
                self.remove(query)
            return
        known, columns = self._all()
        kept = ~np.isin(known, ids)
        self._replace(known[kept], columns[kept])

    def _add(self, query: int, ends: tuple[float, ...]) -> None:
        query = checks.identifier("query", query)
        if query in self:
            raise ValueError(f"query must be new, got {query}, which is there already")
        self._pending[query] = ends
        self._side_is_current = False

    def _add_many(self, queries: ArrayLike, *ends: ArrayLike) -> None:
        ids = checks.integers("queries", queries)
        checked: list[Floats] = []
        for number in range(0, len(ends), 2):
            names = [f"{name}s" for name in self.COLUMNS[number : number + 2]]
            checked += checks.intervals(names[0], names[1], ends[number], ends[number + 1])
            checks.alike(("queries", names[0]), (ids, checked[-1]))
        checks.new_ids("queries", ids, ids[self._exist(ids)])
        columns = np.stack(checked, axis=1)
        if len(self._pending) + len(ids) <= self._side_limit():
            self._pending.update(zip(ids.tolist(), map(tuple, columns.tolist()), strict=True))
            self._side_is_current = False
            return
        known, values = self._all()
        self._replace(np.concatenate([known, ids]), np.concatenate([values, columns]))

    # -- rows --

    def delete(self, row: int) -> None:
        """Delete a stored row; its id is free again."""
        self._rows.delete(row)

    def delete_many(self, rows: ArrayLike) -> None:
        """Delete stored rows, all or none."""
        self._rows.delete_many(rows)

    def rows_in_order(self) -> Integers:
        """Return the ids of the stored rows in the order to which `slices` refers, int64[m]."""
        return self._rows.order().id.copy()

    @property
    def stored(self) -> int:
        """The number of stored rows."""
        return len(self._rows)

    # -- figures --

    @property
    def groups(self) -> int:
        """The number of groups of queries that share a point, in both indexes."""
        self._settle()
        return len(self._main.starts) - 1 + (len(self._side.starts) - 1 if self._pending else 0)

    @property
    def hot_share(self) -> float:
        """The share of queries in hot groups (all, without `alpha`)."""
        self._settle()
        return float(self._main.hot_counts[0] / max(len(self._main.ids), 1))

    def bytes(self) -> dict[str, int]:
        """Return the size of the queries' and the rows' arrays, including the indexes of all methods and the lookup by
        id.
        """
        self._settle()
        self._rows.order()
        return {"queries": _bytes(self._main), "rows": self._rows.bytes()}

    # -- probing --

    def _probe_many(
        self, probes: tuple[Floats, ...], method: str, limit: int | None = None
    ) -> tuple[Integers, Integers, Integers, int]:
        """Return events, queries, rows, and the event to continue with."""
        code = self._method_number(method)
        rows = self._settle()
        events = len(probes[0])
        ends, chosen = np.empty(events, np.int64), np.empty(events, np.int64)
        buffer = empty_buffer(_BUFFER)
        result = _Pairs()
        first = 0
        while first < events:
            last, used, needed = self._search(probes, first, code, buffer, ends, chosen)
            if needed:
                buffer = empty_buffer(2 * needed)
                continue
            pairs = int(count_pairs(buffer, used))
            if limit is not None and result.used + pairs > limit:
                last, used, pairs = _fitting(buffer, ends, first, last, limit - result.used)
                if last == first and result.used == 0:
                    raise ValueError(f"limit must be at least the {pairs} pairs of event {first}, got {limit}")
                if last == first:
                    break
            result.make_room(pairs, (events - first) / max(last - first, 1))
            result.used = int(write_pairs(buffer, ends, first, last, rows.id, *result.arrays, result.used))
            first = last
            if limit is not None and result.used == limit:
                break
        return (*result.written(), first)

    def _slices(self, probe: tuple[float, ...], method: str) -> tuple[Integers, Integers, Integers]:
        code = self._method_number(method)
        self._settle()
        probes = tuple(np.array([value]) for value in probe)
        ends, chosen = np.empty(1, np.int64), np.empty(1, np.int64)
        buffer = empty_buffer(1024)
        _, used, needed = self._search(probes, 0, code, buffer, ends, chosen)
        if needed:
            buffer = empty_buffer(needed)
            _, used, _ = self._search(probes, 0, code, buffer, ends, chosen)
        queries, starts, stops = buffer.query[:used], buffer.start[:used], buffer.stop[:used]
        if self.METHODS[int(chosen[0])] in ("data", "join-first"):
            return _joined(queries, starts, stops)
        return queries.copy(), starts.copy(), stops.copy()

    def _chosen(self, probes: tuple[Floats, ...]) -> list[str]:
        """The methods that "auto" chooses for these events."""
        self._settle()
        events = len(probes[0])
        ends, chosen = np.empty(events, np.int64), np.empty(events, np.int64)
        buffer, first, code = empty_buffer(_BUFFER), 0, self._method_number("auto")
        while first < events:
            first, _, needed = self._search(probes, first, code, buffer, ends, chosen)
            if needed:
                buffer = empty_buffer(2 * needed)
        return [self.METHODS[code] for code in chosen]

    def _method_number(self, method: str) -> int:
        return self.METHODS.index(checks.choice("method", method, self.METHODS))

    # -- state --

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all queries and rows as flat arrays, for `tolerant.kernels.snapshots.pack`; equal for equal
        objects.
        """
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
        """Restore an object from what `to_arrays` returned."""
        alpha = float(arrays["alpha"][0])
        restored = cls(None if np.isnan(alpha) else alpha, costs=CostCoefficients.of(arrays["costs"]))
        restored._add_many(arrays["queries"], *(arrays[name] for name in cls.COLUMNS))
        restored._rows.insert_many(arrays["rows"], np.asarray(arrays["b"]), np.asarray(arrays["c"]))
        return restored

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

    def _settle(self) -> SortedRows:
        """Bring the indexes and the rows up to date."""
        if len(self._pending) > self._side_limit() or len(self._removed) > max(SIDE, len(self._main.ids) // 4):
            self._replace(*self._all())
        if not self._side_is_current:
            self._side = self._build(*self._pending_arrays()) if self._pending else self._empty()
            self._side_is_current = True
        return self._rows.order()

    def _pending_arrays(self) -> tuple[Integers, Floats]:
        ids = np.fromiter(self._pending, np.int64, len(self._pending))
        columns = np.array(list(self._pending.values()), np.float64).reshape(len(ids), len(self.COLUMNS))
        order = np.argsort(ids)
        return ids[order], columns[order]

    def _all(self) -> tuple[Integers, Floats]:
        """Sorted ids and columns of all queries."""
        indexed, columns = self._live(self._main)
        ids, pending = self._pending_arrays()
        if not len(ids):
            return indexed, columns
        ids, columns = np.concatenate([indexed, ids]), np.concatenate([columns, pending])
        order = np.argsort(ids, kind="stable")
        return ids[order], columns[order]

    def _replace(self, ids: Integers, columns: Floats) -> None:
        order = np.argsort(ids, kind="stable")
        self._main = self._build(ids[order], np.ascontiguousarray(columns[order]))
        self._pending.clear()
        self._removed.clear()
        self._side = self._empty()
        self._side_is_current = True
        self.merges += 1

    def _place(self, query: int) -> int:
        ids = self._main.ids
        place = int(ids.searchsorted(query))
        return place if place < len(ids) and ids[place] == query else -1

    def _exist(self, queries: Integers) -> NDArray[np.bool_]:
        ids = self._main.ids
        if len(ids):
            exists = ids[np.minimum(np.searchsorted(ids, queries), len(ids) - 1)] == queries
        else:
            exists = np.zeros(len(queries), np.bool_)
        for changed, value in ((self._removed, False), (self._pending, True)):
            if changed:
                exists[np.isin(queries, np.fromiter(changed, np.int64, len(changed)))] = value
        return exists


_NOTHING: Integers = np.empty(0, np.int64)


class _Pairs:
    """Growing result arrays, enlarged to what the events so far suggest for the rest."""

    def __init__(self) -> None:
        self.used = 0
        self.arrays: tuple[Integers, Integers, Integers] = (_NOTHING, _NOTHING, _NOTHING)

    def make_room(self, pairs: int, chunks: float) -> None:
        needed = self.used + pairs
        if needed <= len(self.arrays[0]):
            return
        # Memory pages that are never written cost nothing.
        room = needed if chunks <= 1 else self.used + int(1.3 * pairs * chunks) + 1024
        room = max(room, needed)
        events, queries, rows = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
        for larger, array in zip((events, queries, rows), self.arrays, strict=True):
            larger[: self.used] = array[: self.used]
        self.arrays = events, queries, rows

    def written(self) -> tuple[Integers, Integers, Integers]:
        events, queries, rows = (array[: self.used] for array in self.arrays)
        return events, queries, rows


def _fitting(buffer: RunBuffer, ends: Integers, first: int, last: int, room: int) -> tuple[int, int, int]:
    """The event up to which at most `room` pairs were found, and the runs and pairs before it; where that is the first
    event, the pairs that it needs.
    """
    lengths = np.concatenate([[0], np.cumsum(buffer.stop[: ends[last - 1]] - buffer.start[: ends[last - 1]])])
    totals = lengths[ends[first:last]]
    complete = int(np.searchsorted(totals, room, side="right"))
    if complete == 0:
        return first, 0, int(totals[0])
    return first + complete, int(ends[first + complete - 1]), int(totals[complete - 1])


def _joined(queries: Integers, starts: Integers, stops: Integers) -> tuple[Integers, Integers, Integers]:
    """Join adjacent runs of one query: methods that proceed row by row find them in pieces."""
    if not len(queries):
        return queries.copy(), starts.copy(), stops.copy()
    order = np.lexsort((starts, queries))
    queries, starts, stops = queries[order], starts[order], stops[order]
    first = np.concatenate([[True], queries[1:] != queries[:-1]])
    last = np.concatenate([first[1:], [True]])
    return queries[first], starts[first], stops[last]


def _bytes(index: Sequence[Any]) -> int:
    return sum(_bytes(part) if isinstance(part, tuple) else part.nbytes for part in index)
