"""Computes expected cumulative benefit and dominance ([DISS] 3.4.1, 3.4.2; `docs/design/retention.md` §2.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.retention.models import AR1, StreamModel
from tolerant.retention.survival import Survival, weights_of
from tolerant.retention.value_arrays import Floats, Integers, whole_number, whole_numbers


def ecb(
    model: StreamModel,
    values: ArrayLike,
    history: ArrayLike,
    steps: int,
    cached: bool = False,
    lives: ArrayLike | None = None,
) -> Floats:
    """Return the expected benefit of keeping each value for 1…steps ticks, float64[values, steps].

    `model` describes the stream that the values are matched with, `history` its values up to now. cached: the
    probability of at least one reference, instead of the number of results. lives: ticks after which a row's window
    closes.

    >>> from tolerant.retention import Trend, UniformNoise
    >>> ecb(Trend(1, 0, UniformNoise(2)), [0, 3], history=[0], steps=3).round(6).tolist()
    [[0.2, 0.4, 0.4], [0.2, 0.4, 0.6]]
    """
    steps = whole_number("steps", steps, 1)
    wanted, past = whole_numbers("values", values), whole_numbers("history", history)
    if cached:
        chances = first_chances(model, wanted, past, steps)
    else:
        chances = model.chances(wanted, len(past) - 1, int(past[-1]) if past.size else None, steps)
    if lives is not None:
        chances = np.where(np.arange(1, steps + 1) <= whole_numbers("lives", lives)[:, None], chances, 0.0)
    return np.cumsum(chances, axis=1)


def heeb(
    model: StreamModel,
    values: ArrayLike,
    history: ArrayLike,
    survival: Survival,
    steps: int,
    cached: bool = False,
    lives: ArrayLike | None = None,
) -> Floats:
    """Return H of each value by its definition, the sum cut after `steps` ticks, float64[values] (§2.7).

    Slow and plain: the tables of the policies are checked against it.
    """
    benefit = ecb(model, values, history, steps, cached, lives)
    gains = np.diff(benefit, axis=1, prepend=0.0)
    return gains @ weights_of(survival, steps)


def first_chances(model: StreamModel, values: Integers, history: Integers, steps: int) -> Floats:
    """Return the probability that the first reference of each value is d ticks ahead, d = 1…steps.

    Ticks of an AR(1) stream depend on each other: there the renewal equation u_d = Σ_k f_k·u°_{d−k} is solved, where
    u° are the chances of a return to the value from the value.
    """
    at, last = len(history) - 1, int(history[-1]) if history.size else None
    chances = model.chances(values, at, last, steps)
    if not isinstance(model, AR1):
        misses = np.cumprod(1.0 - chances, axis=1)
        return chances * np.hstack([np.ones((len(values), 1)), misses[:, :-1]])
    returns = np.vstack([model.chances(values[k : k + 1], at, int(values[k]), steps) for k in range(len(values))])
    first = np.zeros_like(chances)
    for d in range(steps):
        first[:, d] = chances[:, d] - (first[:, :d] * returns[:, :d][:, ::-1]).sum(axis=1)
    return np.maximum(first, 0.0)


def dominates(benefit: Floats, other: Floats) -> bool:
    """Return whether the first is at least the second at every step."""
    return bool((benefit >= other).all())


def dominated(ecbs: Floats, discard: int) -> Integers:
    """Return the largest dominated subset of at most `discard` rows, as indices in order (Corollary 2).

    Every row outside dominates every row inside. Discarding it is optimal if the streams are independent over time.

    >>> dominated(np.array([[0.1, 0.2], [0.3, 0.3], [0.2, 0.5]]), 2).tolist()
    [0]
    """
    table = np.asarray(ecbs, np.float64)
    if table.ndim != 2:
        raise ValueError(f"ecbs must be float[rows, steps], got {table.ndim} dimensions")
    discard = min(whole_number("discard", discard, 0), len(table))
    if not table.size:
        return np.arange(discard)
    order = np.lexsort((table.sum(axis=1), table[:, 0]))
    ranked = table[order]
    highest = np.maximum.accumulate(ranked, axis=0)
    lowest = np.minimum.accumulate(ranked[::-1], axis=0)[::-1]
    for size in range(discard, 0, -1):
        if size == len(table) or (highest[size - 1] <= lowest[size]).all():
            return np.sort(order[:size])
    return np.zeros(0, np.int64)
