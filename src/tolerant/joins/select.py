"""Very many continuous equality joins with selections on both sides."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.continuous_joins import ContinuousJoins
from tolerant.joins.run_buffer import RunBuffer
from tolerant.joins.select_index import SelectIndex, live_selections, remove_selection, select_index
from tolerant.joins.select_search import METHODS, search_selections, select_costs
from tolerant.joins.stored_rows import slice_of
from tolerant.kernels.array_types import Floats, Integers

Triple = tuple[Integers, Integers, Integers]


class SelectJoins(ContinuousJoins[SelectIndex]):
    """Queries (a_low, a_high, c_low, c_high) over stored rows (b, c): a probe with (a, b) returns every pair of a query
    whose a range contains a, and a row with the same b (exactly) whose c is in the query's c range.

    `alpha`: groups with at least that share of the queries are hot, which the method "hotspot" uses (None: all are).
    k_j rows have the probe's b, k_s queries select its a. All methods return the same pairs, each once, in any order:

    | method | does | time |
    |---|---|---|
    | "ssi" | groups whose c ranges share a point: looks at the two partners next to it | O(Σ (log k_j + g(n_j)) + k) |
    | "hotspot" | the same for hot groups, "select-first" for the rest | |
    | "select-first" | the c range of each query that selects a | O(log n + k_s log k_j + k) |
    | "join-first" | stabs one R-tree of all queries with each partner | O(k_j g(n) + k) |
    | "scan" | the c range of each query | O(n log k_j + k) |
    | "auto" | the cheapest by estimate, row by row | |

    >>> joins = SelectJoins()
    >>> joins.add(1, 0, 10, 2, 5)
    >>> joins.insert_many([10, 11], [1.0, 1.0], [1.0, 4.8])
    >>> queries, rows = joins.probe(8.5, 1.0)
    >>> queries.tolist(), rows.tolist()
    ([1], [11])
    """

    METHODS = METHODS
    COLUMNS = ("a_low", "a_high", "c_low", "c_high")

    def add(self, query: int, a_low: float, a_high: float, c_low: float, c_high: float) -> None:
        """Add a query; its ends may be infinite."""
        selected = checks.interval("a_low", "a_high", a_low, a_high)
        self._add(query, (*selected, *checks.interval("c_low", "c_high", c_low, c_high)))

    def add_many(
        self, queries: ArrayLike, a_lows: ArrayLike, a_highs: ArrayLike, c_lows: ArrayLike, c_highs: ArrayLike
    ) -> None:
        """Add queries, all or none."""
        self._add_many(queries, a_lows, a_highs, c_lows, c_highs)

    def insert(self, row: int, b: float, c: float) -> None:
        """Store a row."""
        self._rows.insert(row, checks.number("b", b), checks.number("c", c))

    def insert_many(self, rows: ArrayLike, bs: ArrayLike, cs: ArrayLike) -> None:
        """Store rows, all or none."""
        ids, b, c = checks.integers("rows", rows), checks.finite("bs", bs), checks.finite("cs", cs)
        checks.alike(("rows", "bs", "cs"), (ids, b, c))
        self._rows.insert_many(ids, b, c)

    def probe(self, a: float, b: float, method: str = "auto") -> tuple[Integers, Integers]:
        """Return which queries gain which stored rows through a row (a, b): (queries[k], rows[k])."""
        return self._probe_many(self._event(a, b), method)[1:3]

    @overload
    def probe_many(self, a: ArrayLike, b: ArrayLike, method: str = ..., *, limit: None = ...) -> Triple: ...
    @overload
    def probe_many(
        self, a: ArrayLike, b: ArrayLike, method: str = ..., *, limit: int
    ) -> tuple[Integers, Integers, Integers, int]: ...
    def probe_many(
        self, a: ArrayLike, b: ArrayLike, method: str = "auto", *, limit: int | None = None
    ) -> Triple | tuple[Integers, Integers, Integers, int]:
        """Probe with many rows: (events[k], queries[k], rows[k]); an event is an index into `a`.

        With `limit`, returns at most that many pairs, of whole events, and fourth the event to continue with.
        """
        pairs = self._probe_many(self._events(a, b), method, limit)
        return pairs if limit is not None else pairs[:3]

    def slices(self, a: float, b: float, method: str = "auto") -> Triple:
        """Return the pairs as slices: query k gains `rows_in_order()[starts[k]:stops[k]]`; (queries, starts, stops)."""
        return self._slices((checks.number("a", a), checks.number("b", b)), method)

    def count(self, a: float, b: float, method: str = "auto") -> int:
        """Return the number of pairs that `probe` returns."""
        _, starts, stops = self.slices(a, b, method)
        return int((stops - starts).sum())

    def affected(self, a: float, b: float, method: str = "auto") -> Integers:
        """Return the queries that gain anything, each once."""
        return self.slices(a, b, method)[0]

    def snapshot(self, query: int, a: ArrayLike, b: ArrayLike) -> tuple[Integers, Integers]:
        """Join the stored rows with rows (a, b) of the other side, for single query: (indices into `a`, rows)."""
        single = self._alone(query)
        events, _, rows, _ = single._probe_many(self._events(a, b), "scan")
        return events, rows

    def estimate(self, a: float, b: float) -> dict[str, float]:
        """Estimate the time of each method for this row, without the output, in microseconds on the machine of the
        costs.
        """
        rows = self._settle()
        costs = np.zeros(len(METHODS) - 1)
        start, stop = slice_of(rows.b, checks.number("b", b))
        if start < stop:
            for index in (self._main, self._side):
                select_costs(checks.number("a", a), stop - start, index, self._costs, costs)
        return dict(zip(METHODS[:-1], costs.tolist(), strict=True))

    def choose(self, a: float, b: float) -> str:
        """Return the method that "auto" chooses for this row."""
        return self._chosen(self._event(a, b))[0]

    def choose_many(self, a: ArrayLike, b: ArrayLike) -> list[str]:
        """Return the methods that "auto" chooses for these rows."""
        return self._chosen(self._events(a, b))

    def _event(self, a: float, b: float) -> tuple[Floats, ...]:
        return np.array([checks.number("a", a)]), np.array([checks.number("b", b)])

    def _events(self, a: ArrayLike, b: ArrayLike) -> tuple[Floats, ...]:
        values = checks.finite("a", a), checks.finite("b", b)
        checks.alike(("a", "b"), values)
        return values

    def _alone(self, query: int) -> SelectJoins:
        """The same stored rows with this query only."""
        ids, columns = self._all()
        chosen = ids == checks.identifier("query", query)
        if not chosen.any():
            raise ValueError(f"query must be there, got {query}, which is not")
        single = SelectJoins()
        single._rows = self._rows
        single._replace(ids[chosen], columns[chosen])
        return single

    def _build(self, ids: Integers, columns: Floats) -> SelectIndex:
        return select_index(ids, columns, self.alpha)

    def _drop(self, index: SelectIndex, place: int) -> None:
        remove_selection(index, place)

    def _live(self, index: SelectIndex) -> tuple[Integers, Floats]:
        return live_selections(index)

    def _search(
        self, probes: tuple[Floats, ...], first: int, method: int, buffer: RunBuffer, ends: Integers, chosen: Integers
    ) -> tuple[int, int, int]:
        rows = self._rows.order()
        return search_selections(
            probes[0], probes[1], first, rows.b, rows.c, self._main, self._side,
            method, self._costs, buffer, ends, chosen,
        )  # fmt: skip
