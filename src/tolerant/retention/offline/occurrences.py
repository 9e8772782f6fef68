"""Counts occurrences of values, as arrays over ticks."""

from __future__ import annotations

import numpy as np

from tolerant.retention.value_arrays import Integers


def so_far(values: Integers) -> Integers:
    """Return how often the value of each tick has occurred up to and including that tick.

    >>> so_far(np.array([7, 8, 7])).tolist()
    [1, 1, 2]
    """
    order, starts = _sorted(values)
    count = np.empty(len(values), np.int64)
    count[order] = np.arange(len(values)) - starts + 1
    return count


def in_partner(values: Integers, partner: Integers) -> Integers:
    """Return how often the value of each tick has occurred in `partner` up to and including that tick."""
    if not len(values):
        return np.zeros(0, np.int64)
    _, codes = np.unique(np.concatenate([values, partner]), return_inverse=True)
    n = len(partner)
    ranked = np.sort(codes[len(values) :] * n + np.arange(n))
    upto = np.searchsorted(ranked, codes[: len(values)] * n + np.arange(len(values)), side="right")
    return upto - np.searchsorted(ranked, codes[: len(values)] * n)


def next_time(values: Integers) -> Integers:
    """Return the next tick at which the value of each tick occurs again; 2^62 if never."""
    order, _ = _sorted(values)
    following = np.full(len(values), 2**62)
    same = values[order][1:] == values[order][:-1]
    following[order[:-1][same]] = order[1:][same]
    return following


def _sorted(values: Integers) -> tuple[Integers, Integers]:
    """Return the ticks ordered by value, and for each the first place of its value in that order."""
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    new = np.append(True, ranked[1:] != ranked[:-1])[: len(values)]
    return order, np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))


def reduced(references: Integers) -> tuple[Integers, Integers]:
    """Return the streams of the join whose optimum is that of a cache (Theorem 7): (v, i−1) and (v, i), coded.

    >>> [stream.tolist() for stream in reduced(np.array([7, 8, 7]))]
    [[0, 3, 1], [1, 4, 2]]
    """
    count = so_far(references)
    pairs = np.stack([np.concatenate([references, references]), np.concatenate([count - 1, count])])
    _, codes = np.unique(pairs, axis=1, return_inverse=True)
    codes = codes.ravel()
    return codes[: len(references)], codes[len(references) :]
