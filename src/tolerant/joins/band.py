"""Very many continuous band joins: which of them gain results through a row, and which rows they gain."""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from tolerant.joins import checks
from tolerant.joins.band_index import BandIndex, band_index, live_bands, remove_band
from tolerant.joins.band_search import METHODS, band_costs, search_bands
from tolerant.joins.continuous_joins import ContinuousJoins
from tolerant.joins.run_buffer import RunBuffer
from tolerant.kernels.array_types import Floats, Integers

Triple = tuple[Integers, Integers, Integers]


class BandJoins(ContinuousJoins[BandIndex]):
    """Queries (low, high) over stored rows b: a probe with b returns every pair with `low ≤ row.b − b ≤ high`.

    The condition is evaluated as written, in float64. `alpha`: groups with at least that share of the queries are hot,
    which the method "hotspot" uses (None: all are). All methods return the same pairs, each once, in any order:

    | method | does | time |
    |---|---|---|
    | "ssi" | looks at the two rows next to each group's common point | O(τ log m + k) |
    | "hotspot" | the same for hot groups, "merge" or "queries" for the rest | |
    | "merge" | bands by low against rows by b | O(n + m + k) |
    | "queries" | two searches for each band | O(n log m + k) |
    | "data" | stabs the bands with each row | O(m log n + k) |
    | "auto" | the cheapest by estimate, row by row | |

    >>> joins = BandJoins()
    >>> joins.add(1, -1.0, 2.0)
    >>> joins.insert_many([10, 11], [4.0, 7.0])
    >>> queries, rows = joins.probe(6.0)
    >>> queries.tolist(), rows.tolist()
    ([1], [11])
    """

    METHODS = METHODS
    COLUMNS = ("low", "high")

    def add(self, query: int, low: float, high: float) -> None:
        """Add a query; its ends may be infinite."""
        self._add(query, checks.interval("low", "high", low, high))

    def add_many(self, queries: ArrayLike, lows: ArrayLike, highs: ArrayLike) -> None:
        """Add queries, all or none."""
        self._add_many(queries, lows, highs)

    def insert(self, row: int, b: float) -> None:
        """Store a row."""
        self._rows.insert(row, checks.number("b", b))

    def insert_many(self, rows: ArrayLike, bs: ArrayLike) -> None:
        """Store rows, all or none."""
        values = checks.finite("bs", bs)
        checks.alike(("rows", "bs"), (checks.integers("rows", rows), values))
        self._rows.insert_many(rows, values, np.zeros(len(values)))

    def probe(self, b: float, method: str = "auto") -> tuple[Integers, Integers]:
        """Return which queries gain which stored rows through a row with this b: (queries[k], rows[k])."""
        return self._probe_many((np.array([checks.number("b", b)]),), method)[1:3]

    @overload
    def probe_many(self, bs: ArrayLike, method: str = ..., *, limit: None = ...) -> Triple: ...
    @overload
    def probe_many(
        self, bs: ArrayLike, method: str = ..., *, limit: int
    ) -> tuple[Integers, Integers, Integers, int]: ...
    def probe_many(
        self, bs: ArrayLike, method: str = "auto", *, limit: int | None = None
    ) -> Triple | tuple[Integers, Integers, Integers, int]:
        """Probe with many rows: (events[k], queries[k], rows[k]); an event is an index into `bs`.

        With `limit`, returns at most that many pairs, of whole events, and fourth the event to continue with.
        """
        pairs = self._probe_many((checks.finite("bs", bs),), method, limit)
        return pairs if limit is not None else pairs[:3]

    def slices(self, b: float, method: str = "auto") -> Triple:
        """Return the pairs as slices: query k gains `rows_in_order()[starts[k]:stops[k]]`; (queries, starts, stops)."""
        return self._slices((checks.number("b", b),), method)

    def count(self, b: float, method: str = "auto") -> int:
        """Return the number of pairs that `probe` returns."""
        _, starts, stops = self.slices(b, method)
        return int((stops - starts).sum())

    def affected(self, b: float, method: str = "auto") -> Integers:
        """Return the queries that gain anything, each once."""
        return self.slices(b, method)[0]

    def snapshot(self, query: int, bs: ArrayLike) -> tuple[Integers, Integers]:
        """Join the stored rows with rows of the other side that have `bs`, for single query: (indices into
        `bs`, rows).
        """
        single = self._alone(query)
        events, _, rows, _ = single._probe_many((checks.finite("bs", bs),), "queries")
        return events, rows

    def estimate(self, b: float) -> dict[str, float]:
        """Estimate the time of each method for this row, without the output, in microseconds on the machine of the
        costs.
        """
        rows = self._settle()
        costs = np.zeros(len(METHODS) - 1)
        for index in (self._main, self._side):
            band_costs(checks.number("b", b), rows.b, index, self._costs, costs)
        return dict(zip(METHODS[:-1], costs.tolist(), strict=True))

    def choose(self, b: float) -> str:
        """Return the method that "auto" chooses for this row."""
        return self._chosen((np.array([checks.number("b", b)]),))[0]

    def _alone(self, query: int) -> BandJoins:
        """The same stored rows with this query only."""
        ids, columns = self._all()
        chosen = ids == checks.identifier("query", query)
        if not chosen.any():
            raise ValueError(f"query must be there, got {query}, which is not")
        single = BandJoins()
        single._rows = self._rows
        single._replace(ids[chosen], columns[chosen])
        return single

    def _build(self, ids: Integers, columns: Floats) -> BandIndex:
        return band_index(ids, columns, self.alpha)

    def _drop(self, index: BandIndex, place: int) -> None:
        remove_band(index, place)

    def _live(self, index: BandIndex) -> tuple[Integers, Floats]:
        return live_bands(index)

    def _search(
        self, probes: tuple[Floats, ...], first: int, method: int, buffer: RunBuffer, ends: Integers, chosen: Integers
    ) -> tuple[int, int, int]:
        rows = self._rows.order()
        return search_bands(
            probes[0], first, rows.b, self._main, self._side, method, self._costs, buffer, ends, chosen
        )  # fmt: skip
