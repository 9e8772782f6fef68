"""Estimates the fidelity that was delivered in a window, from values between pulls (`docs/design/polling.md` §2.9,
§5.5).
"""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.choice.risk import variance_after
from tolerant.polling.poller_arrays import Floats, HonestEstimate, Indices, Integers, Links, Record, Records, Window


@compiled
def first_tick(tick: int, window: int) -> int:
    """Return the first tick of the window that `tick` is in: windows are 1 … window, window + 1 … 2·window, …"""
    return (tick - 1) // window * window + 1


@compiled_no_refcount
def add_within(
    queries: Records, links: Links, apart: Floats, used: Floats, ticks: int, sums: Floats, good: Floats
) -> None:
    """Add to `good` the number of the first `ticks` columns in which each query's error is within its bound.

    apart: errors of the items. used: their values in use, for min and max. sums: workspace, float64[ticks].
    """
    for q in range(len(queries)):
        query = queries[q]
        if query.kind == 0:
            good[q] += _count_linear(query, links.items, links.weights, apart, ticks, sums)
        elif query.kind == 3:
            good[q] += ticks
        else:
            for t in range(ticks):
                good[q] += extreme_apart(query, links, used, apart, t)[0] <= query.bound


@compiled_no_refcount
def _count_linear(query: Record, items: Indices, weights: Floats, apart: Floats, ticks: int, sums: Floats) -> int:
    """Count the columns of one linear query: sums over its few items, for many ticks at once, which is vectorised.

    Two items per pass: loading and storing the sums is as much work as adding to them.
    """
    k, stop, one = np.uint64(query.start), np.uint64(query.stop), np.uint64(1)  # unsigned as `Indices` are
    for t in range(ticks):
        sums[t] = 0.0
    while k + one < stop:
        weight, i, other, j = weights[k], items[k], weights[k + one], items[k + one]
        for t in range(ticks):
            sums[t] = sums[t] + weight * apart[i, t] + other * apart[j, t]
        k += one + one
    if k < stop:
        weight, i = weights[k], items[k]
        for t in range(ticks):
            sums[t] += weight * apart[i, t]
    good = 0
    for t in range(ticks):
        good += abs(sums[t]) <= query.bound
    return good


@compiled_no_refcount
def extreme_apart(query: Record, links: Links, used: Floats, apart: Floats, t: int) -> tuple[float, int]:
    """Return the error of a min or max of the values in use, and the item that is the true one (−1: no items)."""
    sign = -1.0 if query.kind == 1 else 1.0
    best, true, who = -np.inf, -np.inf, -1
    for k in range(query.start, query.stop):
        i = links.items[k]
        best = max(best, sign * used[i, t])
        moved = sign * (used[i, t] + apart[i, t])
        if moved > true:
            true, who = moved, i
    return abs(true - best) if who >= 0 else 0.0, who


@compiled
def delivered_interpolated(queries: Records, links: Links, window: Window, ticks: int, good: Floats) -> None:
    """Count the window's ticks at which each query was within its bound, with values between pulls on a line."""
    good[:] = 0.0
    add_within(queries, links, window.apart, window.held, ticks, np.empty(ticks), good)


@compiled
def inside(off: float, variance: float, bound: float) -> float:
    """Return the probability that a normal value around `off` is at most `bound` from 0."""
    if variance <= 0.0:
        return 1.0 if abs(off) <= bound else 0.0
    scale = 1.0 / math.sqrt(2.0 * variance)
    return 0.5 * (math.erf((bound - off) * scale) + math.erf((bound + off) * scale))


@compiled
def delivered_honest(
    queries: Records, links: Links, window: Window, ticks: int, seen: Integers, estimate: HonestEstimate
) -> None:
    """Estimate the same with values between pulls normal around the line (§5.5); for a min, those of its least item.

    seen: the first column in which each query counts.
    """
    within, off, doubt = np.empty(ticks), np.empty(ticks), np.empty(ticks)
    for q in range(len(queries)):
        query = queries[q]
        if query.kind == 3:
            within[:] = 1.0
        elif query.kind == 1 or query.kind == 2:
            for t in range(ticks):
                apart, who = extreme_apart(query, links, window.held, window.apart, t)
                within[t] = inside(apart, window.doubt[who, t] if who >= 0 else 0.0, query.bound)
        else:
            _linear_within(query, links, window, ticks, off, doubt, within)
        _add_query(q, window, within, seen[q], ticks, estimate)


@compiled_no_refcount
def _linear_within(
    query: Record, links: Links, window: Window, ticks: int, off: Floats, doubt: Floats, within: Floats
) -> None:
    """Compute the probability at each tick that a linear query is within its bound. off, doubt: workspace."""
    for t in range(ticks):
        off[t], doubt[t] = 0.0, 0.0
    for k in range(query.start, query.stop):
        i, weight = links.items[k], links.weights[k]
        for t in range(ticks):
            off[t] += weight * window.apart[i, t]
            doubt[t] += weight * weight * window.doubt[i, t]
    for t in range(ticks):
        within[t] = inside(off[t], doubt[t], query.bound)


@compiled_no_refcount
def _add_query(q: int, window: Window, within: Floats, first: int, ticks: int, estimate: HonestEstimate) -> None:
    """Sum over the ticks what was delivered where something was promised, and what the model is judged by."""
    good, counted, undisturbed, judged = 0.0, 0.0, 0.0, 0.0
    for t in range(first, ticks):
        state = window.excused[q, t] if window.excused.size > 0 else 0
        if state < 3:
            good += within[t]
            counted += 1.0
        if state < 2:
            undisturbed += within[t]
            judged += 1.0
    estimate.good[q], estimate.counted[q] = good, counted
    estimate.missed[q], estimate.judged[q] = judged - undisturbed, judged


@compiled_no_refcount
def doubt_open_ends(window: Window, items: Records, tick: int, size: int) -> None:
    """Set the uncertainty of each item since its last pull, up to `tick`, the last of the window so far."""
    first = first_tick(tick, size)
    for i in range(len(items)):
        for t in range(max(items[i].last + 1, first), tick + 1):
            window.doubt[i, t - first] = variance_after(items[i], t - items[i].last)


@compiled_no_refcount
def clear_window(window: Window) -> None:
    """Begin a new window."""
    window.apart[:] = 0.0
    window.doubt[:] = 0.0


@compiled
def bridge_moments(item: Record, k: int, ticks: int) -> tuple[float, float]:
    """Return the fraction of an item's change between pulls `ticks` apart that it has made k ticks after the first one,
    and the variance around it.

    For normal changes whose variance after a ticks is ρ·a^h: on the line for a random walk (h = 1), half of the change
    all the time for values that are independent of each other (h = 0).
    """
    here, whole = variance_after(item, k), variance_after(item, ticks)
    both = (here + whole - variance_after(item, ticks - k)) / 2.0
    if whole <= 0.0:
        return k / ticks, 0.0
    return both / whole, max(here - both * both / whole, 0.0)


@compiled_no_refcount
def doubt_between(
    window: Window, record: Record, item: int, missed: float, ticks: int, at: int, now: int, size: int
) -> None:
    """Set the uncertainty of an item between its last pull, `ticks` ticks before `at`, and `at`, known at `now`.

    record: the item, after it learned from the pull; missed: the error of the value in use at `at`. Where changes are
    no random walk, what was missed in between is not on the line either.
    """
    first, last = first_tick(now, size), at - ticks
    for t in range(max(last + 1, first), now):
        k = t - last
        if k >= ticks:
            window.doubt[item, t - first] = 0.0
        elif record.growth == 1.0:
            window.doubt[item, t - first] = record.variance * k * (ticks - k) / ticks
        else:
            share, doubt = bridge_moments(record, k, ticks)
            window.doubt[item, t - first] = doubt
            if record.predictor == 0:
                window.apart[item, t - first] = missed * share
    window.doubt[item, now - first] = 0.0
