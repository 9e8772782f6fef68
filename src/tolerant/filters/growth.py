"""The end of a period: burdens, targets, deviations, shrinking and growth (`docs/design/filters.md` §2.4).

The pipeline and `simulate` use the same functions. Free is what the *believed* widths leave, the largest that the
sources' filters may still have (`docs/design/pipeline.md` §4); in `simulate`, believed widths are the widths.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.constraints import ConstraintArrays, WidthConstraints
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.filters.targets import deviate, improve
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import bits_at

_LEAST = 1e-9
"""Fraction of an item's cap: the least width in a burden, and the least growth that is worth a grant."""

_TIE = 1e-10
"""Fraction of the largest deviation within which two deviations count as equal."""

_HEAVIEST = 1e300
"""Upper limit of a burden, so that sums of burdens are finite."""

_FEW = 8
"""Up to this many items are selected one by one; for more, sorting is faster."""

_Rank = float | np.uint64
_Ranks = NDArray[np.float64] | NDArray[np.uint64]
"""Items of a lower rank grow first: minus the deviation, or random bits among those that tie."""


@dataclass(frozen=True, eq=False)
class Reallocation:
    """The new widths, which items get a grant, the rows' targets, and the items' burdens."""

    widths: Floats
    granted: Flags
    targets: Floats
    burdens: Floats


def reallocate(  # noqa: PLR0913
    rows: WidthConstraints,
    widths: Floats,
    counts: Integers,
    costs: Floats,
    *,
    period: float,
    shrink: float,
    targets: Floats | None,
    key: np.uint64,
    shrunk: Floats | None = None,
    believed: Floats | None = None,
    eligible: Flags | None = None,
    share: int = 1,
) -> Reallocation:
    """Steps 1 to 5 of a period's end. All arrays have one entry per item, but `targets` has one per row.

    widths, counts, costs: the width in force during the period, the updates received in it, the cost of one message.
    period: its length in ticks. shrink: the fraction of its width that an adaptable item loses.
    targets: those of the last period's end, None if the rows have changed since.
    key: of the random order of ties, made by `kernels.random.key_of(seed, shard, number of the period)`.
    shrunk: the widths after the shrink, if the caller has them (to the bit, as the sources compute them).
    believed: the widths that the sources may have after the shrink, ≥ shrunk; infinite where unknown: then nothing is
    free in the item's rows.
    eligible: the items that may grow.
    share: number of the most deviating items that split what is free (§5.2); 1, as in [OJW03], gives it to the first.

    A grant gives the widest width for which every row still has Σ a·believed ≤ β.
    """
    if shrunk is None:
        shrunk = np.where(rows.adaptable, widths * (1.0 - shrink), widths)
    new = np.array(shrunk, np.float64)
    old = np.ascontiguousarray(widths, np.float64)
    may = rows.adaptable if eligible is None else np.ascontiguousarray(eligible, np.bool_)
    check_share(share)
    solved = np.zeros(len(rows)) if targets is None else np.array(targets, np.float64)
    if len(solved) != len(rows):
        raise ValueError(f"targets must have one entry for each of the {len(rows)} rows, got {len(solved)}")
    burdens, deviations = np.empty(rows.n_items), np.empty(rows.n_items)
    granted = np.zeros(rows.n_items, np.bool_)
    arrays = rows.arrays
    burden(arrays, old, np.asarray(counts, np.int64), np.asarray(costs, np.float64), float(period), burdens)
    improve(arrays, burdens, solved)
    deviate(arrays, burdens, solved, deviations)
    assumed = new.copy() if believed is None else np.maximum(believed, new)
    grow(arrays, new, assumed, deviations, may, key, granted, int(share))
    return Reallocation(new, granted, solved, burdens)


def check_share(share: int) -> None:
    """Raise `ValueError` unless `share` is a number of items."""
    if not (share >= 1 and share == int(share)):
        raise ValueError(f"share must be a whole number of items, at least 1, got {share}")


@compiled_no_refcount
def burden(rows: ConstraintArrays, widths: Floats, counts: Integers, costs: Floats, period: float, out: Floats) -> None:
    """B = c·N / (T·W) of the adaptable items into `out`, 0 for others; for compiled code."""
    for item in range(out.size):
        out[item] = 0.0
        if rows.adaptable[item] and counts[item] > 0:
            width = max(widths[item], _LEAST * rows.caps[item])
            out[item] = min(costs[item] * counts[item] / (period * width), _HEAVIEST)


@compiled
def grow(
    rows: ConstraintArrays,
    widths: Floats,
    believed: Floats,
    deviations: Floats,
    eligible: Flags,
    key: np.uint64,
    granted: Flags,
    share: int,
) -> None:
    """Grant what is free, by decreasing deviation; changes widths, believed and granted. For compiled code.

    The k-th of the `share` most deviating items, from 0, takes 1/(share − k) of what it can get; later ones all.
    """
    free, live = _free(rows, believed)
    tie = _TIE * deviations.max() if deviations.size else 0.0
    leading, rest = _candidates(rows, free, deviations, eligible, tie)
    parts = min(share, leading.size)
    ranks, order = -deviations[leading], np.empty(max(leading.size, rest.size), np.uint64)
    tries = _tries(leading.size, live, parts)
    first = 0
    while first < leading.size and live > 0:
        if tries > 0:
            last = _brought_forward(leading, ranks, first, leading.size, tie)
        else:
            if tries == 0:
                _sort(leading, ranks, first, leading.size)
            last = _tied(ranks, first, tie)
        tries -= 1
        live, parts = _grow_tied(rows, leading, order, first, last, widths, believed, free, key, granted, live, parts)
        first = last
    if live > 0:
        _grow_tied(rows, rest, order, 0, rest.size, widths, believed, free, key, granted, live, 1)


@compiled
def _free(rows: ConstraintArrays, believed: Floats) -> tuple[Floats, int]:
    """What is free of each busy row's β, and the number of rows with something free."""
    free = np.full(rows.beta.size, np.inf)
    live = 0
    for busy in (rows.alone, rows.coupled):
        for row in busy:
            used = 0.0
            for entry in range(rows.indptr[row], rows.indptr[row + 1]):
                used += rows.coefficients[entry] * believed[rows.items[entry]]
            free[row] = rows.beta[row] - used
            live += free[row] > 0
    return free, live


@compiled
def _candidates(
    rows: ConstraintArrays, free: Floats, deviations: Floats, eligible: Flags, tie: float
) -> tuple[Integers, Integers]:
    """The items that can grow: those with a deviation, and those without."""
    leading, rest = np.empty(deviations.size, np.int64), np.empty(deviations.size, np.int64)
    n, m = 0, 0
    for item in range(deviations.size):
        if rows.adaptable[item] and eligible[item] and _room(rows, item, free)[0] > 0:
            # Written to both, kept in one: the branch is unpredictable, and a misprediction costs more than a write.
            leading[n] = rest[m] = item
            leads = deviations[item] > tie
            n += leads
            m += not leads
    return leading[:n], rest[:m]


@compiled_no_refcount
def _room(rows: ConstraintArrays, item: int, free: Floats) -> tuple[float, int]:
    """How much wider the item can be, and the row that limits it."""
    room, binding = np.inf, -1
    for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
        row = rows.item_rows[entry]
        if free[row] / rows.item_coefficients[entry] < room:
            room, binding = free[row] / rows.item_coefficients[entry], row
    return room, binding


@compiled_no_refcount
def _tries(size: int, live: int, parts: int) -> int:
    """How many of `size` items to select one by one before sorting: where few grow, sorting is unnecessary.

    About as many grow as there are rows with something free, or items that share it.
    """
    return _FEW if size <= _FEW or max(live, parts) <= _FEW else 0


@compiled_no_refcount
def _brought_forward(items: Integers, ranks: _Ranks, first: int, last: int, tie: _Rank) -> int:
    """Move those of items[first:last] with the lowest rank, or a tie with it, to the front; returns their end."""
    lowest = ranks[first]
    for k in range(first + 1, last):
        lowest = min(lowest, ranks[k])
    end = first
    for k in range(first, last):
        if ranks[k] - lowest <= tie:
            items[end], items[k] = items[k], items[end]
            ranks[end], ranks[k] = ranks[k], ranks[end]
            end += 1
    return end


@compiled
def _sort(items: Integers, ranks: _Ranks, first: int, last: int) -> None:
    """Sort items[first:last] and their ranks by rank."""
    order = np.argsort(ranks[first:last])
    items[first:last] = items[first:last][order]
    ranks[first:last] = ranks[first:last][order]


@compiled_no_refcount
def _tied(ranks: Floats, first: int, tie: float) -> int:
    """The end of the ranks that tie with the first; ranks are sorted from `first` on."""
    last = first + 1
    while last < ranks.size and ranks[last] - ranks[first] <= tie:
        last += 1
    return last


@compiled
def _grow_tied(  # noqa: PLR0913
    rows: ConstraintArrays,
    items: Integers,
    order: _Ranks,
    first: int,
    last: int,
    widths: Floats,
    believed: Floats,
    free: Floats,
    key: np.uint64,
    granted: Flags,
    live: int,
    parts: int,
) -> tuple[int, int]:
    """Grow items[first:last] in random order; returns the number of rows with something free, and of items that still
    share it.

    order: workspace for their random ranks.
    """
    if last - first > 1:
        for k in range(first, last):
            order[k] = bits_at(key, np.uint64(items[k]))
    tries = _tries(last - first, live, parts)
    for k in range(first, last):
        if live == 0:
            break
        if k - first == tries:
            _sort(items, order, k, last)
        elif k - first < tries and k < last - 1:
            _brought_forward(items, order, k, last, np.uint64(0))
        item = items[k]
        room, binding = _room(rows, item, free)
        whole = parts <= 1
        room, parts = room / max(parts, 1), parts - 1
        if room <= 0 or believed[item] + room - widths[item] <= _LEAST * rows.caps[item]:
            continue
        widths[item] = believed[item] = believed[item] + room
        granted[item] = True
        for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
            row = rows.item_rows[entry]
            # Exactly 0 where the item took all: rounding must not make a full row look free.
            left = 0.0 if row == binding and whole else free[row] - rows.item_coefficients[entry] * room
            live -= free[row] > 0 >= left
            free[row] = left
    return live, parts
