"""Band joins with a selection on the stored row: a band on b and a range of c (docs/design/joins.md §2.11)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.band_index import remove_band
from tolerant.joins.continuous_joins import ContinuousJoins
from tolerant.joins.offline.staircase import RectangleIndex, rectangle_index, remove_rectangle, search_rectangles
from tolerant.joins.run_buffer import RunBuffer, empty_buffer
from tolerant.kernels.array_types import Floats, Integers


class RectangleJoins(ContinuousJoins[RectangleIndex]):
    """Queries (low, high, c_low, c_high) over stored rows (b, c): a probe with b returns every pair with `low ≤ row.b −
    b ≤ high` and `c_low ≤ row.c ≤ c_high`.

    All methods return the same pairs: "residual" evaluates the band join and tests c on each of its rows; "staircase"
    looks only at the rows that decide, group by group, and at queries that are affected; "auto" is "staircase".

    >>> joins = RectangleJoins()
    >>> joins.add(1, 0.0, 2.0, 5.0, 6.0)
    >>> joins.insert_many([10, 11], [4.0, 4.5], [9.0, 5.5])
    >>> queries, rows = joins.probe(3.0)
    >>> queries.tolist(), rows.tolist()
    ([1], [11])
    """

    METHODS = ("residual", "staircase", "auto")
    COLUMNS = ("low", "high", "c_low", "c_high")

    def add(self, query: int, low: float, high: float, c_low: float, c_high: float) -> None:
        """Add a query; its ends may be infinite."""
        band = checks.interval("low", "high", low, high)
        self._add(query, (*band, *checks.interval("c_low", "c_high", c_low, c_high)))

    def add_many(
        self, queries: ArrayLike, lows: ArrayLike, highs: ArrayLike, c_lows: ArrayLike, c_highs: ArrayLike
    ) -> None:
        """Add queries, all or none."""
        self._add_many(queries, lows, highs, c_lows, c_highs)

    def insert(self, row: int, b: float, c: float) -> None:
        """Store a row."""
        self._rows.insert(row, checks.number("b", b), checks.number("c", c))

    def insert_many(self, rows: ArrayLike, bs: ArrayLike, cs: ArrayLike) -> None:
        """Store rows, all or none."""
        ids, b, c = checks.integers("rows", rows), checks.finite("bs", bs), checks.finite("cs", cs)
        checks.alike(("rows", "bs", "cs"), (ids, b, c))
        self._rows.insert_many(ids, b, c)

    def probe(self, b: float, method: str = "auto") -> tuple[Integers, Integers]:
        """Return which queries gain which stored rows through a row with this b: (queries[k], rows[k])."""
        return self._probe_many((np.array([checks.number("b", b)]),), method)[1:3]

    def probe_many(self, bs: ArrayLike, method: str = "auto") -> tuple[Integers, Integers, Integers]:
        """Probe with many rows: (events[k], queries[k], rows[k]); an event is an index into `bs`."""
        return self._probe_many((checks.finite("bs", bs),), method)[:3]

    def affected(self, b: float, method: str = "auto") -> Integers:
        """Return the queries that gain anything, each once; no rows are enumerated."""
        return self.affected_many([b], method)[1]

    def affected_many(self, bs: ArrayLike, method: str = "auto") -> tuple[Integers, Integers]:
        """Return the affected queries of many rows: (events[a], queries[a])."""
        probes, code = checks.finite("bs", bs), self._method_number(method)
        rows = self._settle()
        ends, buffer = np.empty(len(probes), np.int64), empty_buffer(1 << 15)
        batches: list[tuple[Integers, Integers]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
        first = 0
        while first < len(probes):
            last, used, needed = search_rectangles(
                probes, first, rows.b, rows.c, self._main, self._side, min(code, 1), False, buffer, ends
            )
            if needed:
                buffer = empty_buffer(2 * needed)
                continue
            counts = np.diff(ends[first:last], prepend=0)
            batches.append((np.repeat(np.arange(first, last), counts), buffer.query[:used].copy()))
            first = last
        events, queries = (np.concatenate(columns) for columns in zip(*batches, strict=True))
        return events, queries

    def _build(self, ids: Integers, columns: Floats) -> RectangleIndex:
        return rectangle_index(ids, columns)

    def _drop(self, index: RectangleIndex, place: int) -> None:
        remove_rectangle(index, place)
        remove_band(index.bands, place)

    def _live(self, index: RectangleIndex) -> tuple[Integers, Floats]:
        live = ~np.isnan(index.column[:, 2])
        return index.ids[live], index.column[live]

    def _search(
        self, probes: tuple[Floats, ...], first: int, method: int, buffer: RunBuffer, ends: Integers, chosen: Integers
    ) -> tuple[int, int, int]:
        rows = self._rows.order()
        return search_rectangles(
            probes[0], first, rows.b, rows.c, self._main, self._side, min(method, 1), True, buffer, ends
        )
