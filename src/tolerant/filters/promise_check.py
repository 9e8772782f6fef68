"""Checks the promise: every answer contains the truth and is at most 2·within wide (`docs/design/filters.md` §2.5).

A sum is checked as |Σ K·(v − c)| ≤ Σ |K|·W/2, which is equivalent to low ≤ truth ≤ high without the cancellation of
large values: each term is at most its bound, both are added up in the same order, and rounding is monotonic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import Terms
from tolerant.filters.state import AVG, CODES, COUNT, MAX, MIN, Codes, Flags, Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

_OF_WITHIN = 1e-9
_OF_VALUES = 1e-11


class Promises(NamedTuple):
    """What each query promises, as arrays for compiled code; `items` omits items of weight 0."""

    fn: Codes
    indptr: Integers
    items: Integers
    weights: Floats
    divisor: Floats  # the n of an avg, else 1
    within: Floats
    since: Integers  # the first tick at which all its items have a reading


class AnswerSpread(NamedTuple):
    """Width of each query's answer: the undivided half-width of a sum, and whether it is within the tolerance."""

    half: Floats
    fits: Flags


def promises_of(queries: Sequence[Terms], first: Integers) -> Promises:
    """The promises of `queries`; `first` is the tick of each item's first reading."""
    kept = [query.weights != 0 for query in queries]
    sizes = [int(mask.sum()) for mask in kept]
    return Promises(
        np.array([CODES[query.fn] for query in queries], np.int8),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)]),
        np.concatenate(
            [np.zeros(0, np.int64), *(query.items[mask] for query, mask in zip(queries, kept, strict=True))]
        ),
        np.concatenate([np.zeros(0), *(query.weights[mask] for query, mask in zip(queries, kept, strict=True))]),
        np.array([len(query.items) if CODES[query.fn] == AVG else 1 for query in queries], np.float64),
        np.array([query.within for query in queries], np.float64),
        np.array([first[query.items].max(initial=0) for query in queries], np.int64),
    )


@compiled_no_refcount
def update_spread(promises: Promises, widths: Floats, spread: AnswerSpread) -> None:
    """Recompute `spread` after a change of widths."""
    for query in range(promises.fn.size):
        half = 0.0
        if promises.fn[query] < MIN:
            for entry in range(promises.indptr[query], promises.indptr[query + 1]):
                half += abs(promises.weights[entry]) * (widths[promises.items[entry]] / 2)
        spread.half[query] = half
        spread.fits[query] = half <= promises.within[query] * promises.divisor[query] * (1 + _OF_WITHIN / 2)


@compiled_no_refcount
def violations_at(
    promises: Promises, spread: AnswerSpread, tick: int, values: Floats, centres: Floats, widths: Floats
) -> int:
    """Count the queries answered at `tick` whose promise is broken."""
    broken = 0
    for query in range(promises.fn.size):
        fn = promises.fn[query]
        if tick < promises.since[query] or fn == COUNT:
            continue
        if fn in (MIN, MAX):
            broken += _breaks_extreme(promises, query, values, centres, widths, 1.0 if fn == MIN else -1.0)
        else:
            broken += _breaks_sum(promises, spread, query, values, centres)
    return broken


@compiled_no_refcount
def _breaks_sum(promises: Promises, spread: AnswerSpread, query: int, values: Floats, centres: Floats) -> bool:
    error = 0.0
    for entry in range(promises.indptr[query], promises.indptr[query + 1]):
        item = promises.items[entry]
        error += promises.weights[entry] * (values[item] - centres[item])
    if spread.fits[query] and abs(error) <= spread.half[query]:
        return False
    truth, value = 0.0, 0.0
    for entry in range(promises.indptr[query], promises.indptr[query + 1]):
        item = promises.items[entry]
        truth += promises.weights[entry] * values[item]
        value += promises.weights[entry] * centres[item]
    n = promises.divisor[query]
    half = spread.half[query] / n
    slack = _slack(promises.within[query], truth / n, value / n - half, value / n + half)
    return not (abs(error) / n <= half + slack and 2 * half <= 2 * promises.within[query] + slack)


@compiled_no_refcount
def _breaks_extreme(
    promises: Promises, query: int, values: Floats, centres: Floats, widths: Floats, sign: float
) -> bool:
    """Whether a min (sign 1) breaks its promise; a max (sign −1) is the min of the negated values."""
    truth, low, high = np.inf, np.inf, np.inf
    for entry in range(promises.indptr[query], promises.indptr[query + 1]):
        item = promises.items[entry]
        truth = min(truth, sign * values[item])
        low = min(low, sign * centres[item] - widths[item] / 2)
        high = min(high, sign * centres[item] + widths[item] / 2)
    if promises.indptr[query] == promises.indptr[query + 1]:
        return False
    slack = _slack(promises.within[query], truth, low, high)
    return not (low - slack <= truth <= high + slack and high - low <= 2 * promises.within[query] + slack)


@compiled
def _slack(within: float, truth: float, low: float, high: float) -> float:
    return _OF_WITHIN * within + _OF_VALUES * max(abs(truth), abs(low), abs(high))
