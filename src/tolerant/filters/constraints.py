"""Queries as linear constraints on the widths, Σ a·W ≤ β (`docs/design/filters.md` §2.2): sparse, over dense item
indices. A row is one constraint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled

WIDEST = 1e300
"""Upper limit of every finite width, cap and budget, so that sums of them stay finite."""

_OVERLAPS_SIZE = 32
"""A dense matrix of overlaps may have at most this many times the entries of its rows."""

_OVERLAPS_WORK = 20_000_000
"""And take at most this many multiplications to compute."""


class Terms(NamedTuple):
    """A query over item indices: `items` int64[k], all different, `weights` float64[k]. Or a plain tuple."""

    fn: str
    items: Integers
    weights: Floats
    within: float


class ConstraintArrays(NamedTuple):
    """The constraints as arrays for compiled code. A row is *busy* if it has an adaptable item."""

    indptr: Integers  # where each row starts in `items`, int64[rows + 1]
    items: Integers
    coefficients: Floats
    beta: Floats
    item_indptr: Integers  # where each item starts in `item_rows`, int64[items + 1]
    item_rows: Integers
    item_coefficients: Floats
    caps: Floats
    adaptable: Flags
    square: Floats  # Σ a² over the adaptable items of each row, float64[rows]; 0 where it cannot be a divisor
    alone: Integers  # busy rows whose adaptable items are in no other row
    coupled: Integers  # the other busy rows
    overlaps: Floats  # A·Aᵀ of the coupled rows over adaptable items, float64[coupled, coupled]; (0, 0) where too large


@dataclass(frozen=True, eq=False)
class WidthConstraints:
    """Every query's constraint on the widths: row j says Σ a·W ≤ beta[j] over items[indptr[j]:indptr[j + 1]].

    The coefficients a are above 0 and parallel to `items`; `query[j]` is the index of the query that row j comes from.
    Everything else is derived on first use.
    """

    n_items: int
    indptr: Integers
    items: Integers
    coefficients: Floats
    beta: Floats
    query: Integers

    def __len__(self) -> int:
        return len(self.beta)

    @cached_property
    def caps(self) -> Floats:
        """The largest possible width of each item, float64[items]: min over its rows of β/a, inf without a row."""
        with np.errstate(over="ignore"):
            return _least(self, self._per_entry(self.beta) / self.coefficients)

    @cached_property
    def uniform(self) -> Floats:
        """Equal widths within a row, of an item the narrowest of its rows, float64[items]; inf without a row."""
        with np.errstate(over="ignore"):
            return _least(self, self._per_entry(self.beta / self.used(np.ones(self.n_items))))

    @cached_property
    def unqueried(self) -> Flags:
        """The items in no row; their width is always infinite."""
        return np.isinf(self.caps)

    @cached_property
    def adaptable(self) -> Flags:
        """The items that shrink and grow: in at least one row of two or more items, with a cap above 0."""
        shared = np.zeros(self.n_items, np.bool_)
        shared[self.items[self._per_entry(np.diff(self.indptr) > 1)]] = True
        return shared & (self.caps > 0)

    @cached_property
    def fixed(self) -> Flags:
        """The items whose width is always their cap."""
        return ~(self.unqueried | self.adaptable)

    @cached_property
    def arrays(self) -> ConstraintArrays:
        """The arrays for compiled code, with the transposed rows."""
        item_indptr, item_rows, item_coefficients = _by_item(self.n_items, self.indptr, self.items, self.coefficients)
        active = self.adaptable[self.items]
        with np.errstate(over="ignore", under="ignore"):
            square = self._sums(np.where(active, self.coefficients, 0.0) ** 2)
        # Weights so small or large that their squares leave the range of floats: such a row gets no target.
        square[~((square > 0) & (square < np.inf))] = 0.0
        busy = self._sums(active.astype(np.float64)) > 0
        coupled = self._sums((active & (np.diff(item_indptr)[self.items] > 1)).astype(np.float64)) > 0
        alone, shared = np.flatnonzero(busy & ~coupled), np.flatnonzero(busy & coupled)
        entries = int(np.diff(self.indptr)[shared].sum())
        dense = len(shared) ** 2 <= _OVERLAPS_SIZE * entries and len(shared) * entries <= _OVERLAPS_WORK
        over = _overlaps(
            self.indptr, self.items, np.where(active, self.coefficients, 0.0), shared if dense else shared[:0]
        )
        return ConstraintArrays(
            self.indptr, self.items, self.coefficients, self.beta, item_indptr, item_rows, item_coefficients,
            self.caps, self.adaptable, square, alone, shared, over,
        )  # fmt: skip

    def used(self, widths: Floats) -> Floats:
        """Σ a·W of every row, float64[rows], added up in the order of the row."""
        out = np.empty(len(self))
        _dot(self.indptr, self.items, self.coefficients, np.ascontiguousarray(widths, np.float64), out)
        return out

    def _per_entry(self, per_row: NDArray[Any]) -> NDArray[Any]:
        return np.repeat(per_row, np.diff(self.indptr))

    def _sums(self, per_entry: Floats) -> Floats:
        return np.add.reduceat(per_entry, self.indptr[:-1]) if len(self) else np.zeros(0)


def constraints_of(
    queries: Sequence[Terms | tuple[str, Integers, Floats, float]],
    n_items: int,
    divisors: Sequence[int] | None = None,
) -> WidthConstraints:
    """The rows of `queries` over items 0…n_items − 1.

    One row for a sum or avg, one per item for a min or max, none for a count. An item of weight 0 counts in the n
    of an avg and is in no row. `divisors`: that n, for each query; default: the number of its items.

    >>> net = Terms("avg", np.array([0, 1]), np.array([1.0, -2.0]), 3.0)
    >>> top = Terms("max", np.array([0]), np.array([1.0]), 5.0)
    >>> rows = constraints_of([net, top], n_items=3)
    >>> rows.beta, rows.uniform
    (array([12., 10.]), array([ 4.,  4., inf]))
    """
    terms = [Terms(*query) for query in queries]
    sizes = np.array([len(term.items) for term in terms], np.int64)
    items = np.concatenate([np.zeros(0, np.int64), *(term.items for term in terms)]).astype(np.int64, copy=False)
    a = np.abs(np.concatenate([np.zeros(0), *(term.weights for term in terms)]))
    if items.size and not 0 <= items.min() <= items.max() < n_items:
        raise ValueError(f"items must be in [0, {n_items}), got {items.min()} to {items.max()}")
    query = np.repeat(np.arange(len(terms)), sizes)
    kept = (a > 0) & np.array([term.fn != "count" for term in terms], np.bool_)[query]
    items, a, query = items[kept], a[kept], query[kept]
    single = np.array([term.fn in ("min", "max") for term in terms], np.bool_)[query]
    first = np.flatnonzero(single | (np.diff(query, prepend=-1) > 0))
    averages = np.array([term.fn == "avg" for term in terms], np.bool_)
    share = np.where(averages, sizes if divisors is None else divisors, 1).astype(np.float64)
    with np.errstate(over="ignore"):
        beta = np.minimum(2.0 * np.array([term.within for term in terms], np.float64) * share, WIDEST)
    return WidthConstraints(n_items, np.append(first, len(items)), items, a, beta[query[first]], query[first])


def _least(rows: WidthConstraints, per_entry: Floats) -> Floats:
    out = np.full(rows.n_items, np.inf)
    np.minimum.at(out, rows.items, np.minimum(per_entry, WIDEST))
    return out


@compiled
def _dot(indptr: Integers, items: Integers, a: Floats, widths: Floats, out: Floats) -> None:
    for row in range(out.size):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += a[entry] * widths[items[entry]]
        out[row] = total


@compiled
def _by_item(n_items: int, indptr: Integers, items: Integers, a: Floats) -> tuple[Integers, Integers, Floats]:
    """The transposed rows, by a counting sort: (start of each item, its rows, its coefficients)."""
    item_indptr = np.zeros(n_items + 1, np.int64)
    for item in items:
        item_indptr[item + 1] += 1
    for item in range(n_items):
        item_indptr[item + 1] += item_indptr[item]
    free = item_indptr[:-1].copy()
    item_rows = np.empty(items.size, np.int64)
    item_coefficients = np.empty(items.size)
    for row in range(indptr.size - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            place = free[items[entry]]
            free[items[entry]] += 1
            item_rows[place] = row
            item_coefficients[place] = a[entry]
    return item_indptr, item_rows, item_coefficients


@compiled
def _overlaps(indptr: Integers, items: Integers, a: Floats, chosen: Integers) -> Floats:
    """The products of the chosen rows with each other, float64[chosen, chosen]."""
    out = np.zeros((chosen.size, chosen.size))
    spread = np.zeros(items.max() + 1 if items.size else 0)
    for k in range(chosen.size):
        own = slice(indptr[chosen[k]], indptr[chosen[k] + 1])
        for entry in range(own.start, own.stop):
            spread[items[entry]] = a[entry]
        for other in range(k, chosen.size):
            total = 0.0
            for entry in range(indptr[chosen[other]], indptr[chosen[other] + 1]):
                total += a[entry] * spread[items[entry]]
            out[k, other] = out[other, k] = total
        for entry in range(own.start, own.stop):
            spread[items[entry]] = 0.0
    return out
