"""Slow and obvious: what the joins must agree with."""

import numpy as np


def band_pairs(queries, rows, b):
    """queries: id → (low, high); rows: id → b."""
    return {
        (query, row)
        for query, (low, high) in queries.items()
        for row, stored in rows.items()
        if low <= np.float64(stored) - np.float64(b) <= high
    }


def select_pairs(queries, rows, a, b):
    """queries: id → (a_low, a_high, c_low, c_high); rows: id → (b, c)."""
    return {
        (query, row)
        for query, (a_low, a_high, c_low, c_high) in queries.items()
        for row, (stored, c) in rows.items()
        if a_low <= a <= a_high and stored == b and c_low <= c <= c_high
    }


def rectangle_pairs(queries, rows, b):
    """queries: id → (low, high, c_low, c_high); rows: id → (b, c)."""
    return {
        (query, row)
        for query, (low, high, c_low, c_high) in queries.items()
        for row, (stored, c) in rows.items()
        if low <= np.float64(stored) - np.float64(b) <= high and c_low <= c <= c_high
    }


def fewest_groups(intervals):
    """τ by the textbook: always stab at the smallest high that is not stabbed yet."""
    count, last = 0, -np.inf
    first = True
    for low, high in sorted(intervals, key=lambda one: one[1]):
        if first or low > last:
            count, last, first = count + 1, high, False
    return count


def stabbed(intervals, x):
    return sum(low <= x <= high for low, high in intervals)


def pairs(found):
    queries, rows = found[-2:]
    listed = list(zip(queries.tolist(), rows.tolist(), strict=True))
    assert len(listed) == len(set(listed)), "a pair was told twice"
    return set(listed)
