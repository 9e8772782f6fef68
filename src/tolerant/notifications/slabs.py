"""Indexes subscriptions: points (x1, x2), divided by x1 into slabs that are sorted by x2 (§5).

A rectangle costs one binary search per slab that it intersects; only the slabs at its two sides need a test of x1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.notifications.range_arguments import Floats, Integers

SMALLEST = 32
"""Points of a slab, at least."""


class Slabs(NamedTuple):
    """The arrays. The k-th slab is row `order[k]` and holds points with low[k] ≤ x1 ≤ high[k] ≤ low[k + 1]."""

    x1: Floats  # [slabs, places]
    x2: Floats  # [slabs, places]
    who: Integers  # [slabs, places]: the point's owner; points are sorted by (x2, who)
    counts: Integers  # points in each row
    order: Integers  # the first `used[0]` are in use, the rest is free
    low: Floats
    high: Floats
    used: Integers  # [1]


def built(x1: Floats, x2: Floats, who: Integers) -> Slabs:
    """Return slabs of about 2√n points each, with a quarter of each slab and some slabs free."""
    n = len(x1)
    size = max(SMALLEST, math.ceil(2 * math.sqrt(n)))
    count = max(1, math.ceil(n / size))
    room, places = count + count // 4 + 2, size * 4 // 3
    slabs = Slabs(
        np.zeros((room, places)), np.zeros((room, places)), np.zeros((room, places), np.int64),
        np.zeros(room, np.int64), np.arange(room), np.zeros(room), np.zeros(room), np.array([count]),
    )  # fmt: skip
    by_x1 = np.argsort(x1)
    ends = np.linspace(0, n, count + 1).astype(np.int64).tolist()
    for k in range(count):
        _put(slabs, k, by_x1[ends[k] : ends[k + 1]], x1, x2, who)
    if n == 0:
        slabs.low[0], slabs.high[0] = -np.inf, -np.inf
    return slabs


def split(slabs: Slabs, k: int) -> Slabs:
    """Return the same points with the k-th slab cut in two."""
    used = int(slabs.used[0])
    if used == len(slabs.order):
        slabs = _with_room(slabs, used + used // 4 + 2)
    row, free = int(slabs.order[k]), int(slabs.order[used])
    size = int(slabs.counts[row])
    x1, x2, who = slabs.x1[row, :size].copy(), slabs.x2[row, :size].copy(), slabs.who[row, :size].copy()
    by_x1 = np.argsort(x1)
    for part in (slabs.order, slabs.low, slabs.high):
        part[k + 2 : used + 1] = part[k + 1 : used].copy()
    slabs.order[k + 1] = free
    slabs.used[0] = used + 1
    _put(slabs, k, by_x1[: size // 2], x1, x2, who)
    _put(slabs, k + 1, by_x1[size // 2 :], x1, x2, who)
    return slabs


def _put(slabs: Slabs, k: int, which: Integers, x1: Floats, x2: Floats, who: Integers) -> None:
    """Make these points the k-th slab."""
    which = which[np.argsort(who[which])]
    which = which[np.argsort(x2[which], kind="stable")]
    row, size = slabs.order[k], len(which)
    slabs.x1[row, :size], slabs.x2[row, :size], slabs.who[row, :size] = x1[which], x2[which], who[which]
    slabs.counts[row] = size
    if size:
        slabs.low[k], slabs.high[k] = x1[which].min(), x1[which].max()


def _with_room(slabs: Slabs, room: int) -> Slabs:
    more = room - len(slabs.order)
    grown = [np.concatenate([part, np.zeros((more, *part.shape[1:]), part.dtype)]) for part in slabs[:-1]]
    larger = Slabs._make([*grown, slabs.used])
    larger.order[-more:] = np.arange(room - more, room)
    return larger


@compiled_no_refcount
def _first_x2(s: Slabs, row: int, x2: float, who: int) -> int:
    """Return the first place in a row whose (x2, who) is at least this."""
    low, high = 0, s.counts[row]
    while low < high:
        middle = (low + high) >> 1
        if s.x2[row, middle] < x2 or (s.x2[row, middle] == x2 and s.who[row, middle] < who):
            low = middle + 1
        else:
            high = middle
    return low


@compiled_no_refcount
def _last_from(low: Floats, used: int, x1: float) -> int:
    """Return the last slab that begins at x1 or before; 0 if none does."""
    begin, end = 0, used
    while begin < end:
        middle = (begin + end) >> 1
        if low[middle] <= x1:
            begin = middle + 1
        else:
            end = middle
    return max(begin - 1, 0)


@compiled_no_refcount
def insert(s: Slabs, x1s: Floats, x2s: Floats, whos: Integers, begin: int) -> tuple[int, int]:
    """Add points from `begin` on, until one finds its slab full; return how many were added, and that slab (or −1)."""
    for n in range(begin, len(whos)):
        x1, x2, who = x1s[n], x2s[n], whos[n]
        k = _last_from(s.low, s.used[0], x1)
        row = s.order[k]
        if s.counts[row] == s.x1.shape[1]:
            return n, k
        at = _first_x2(s, row, x2, who)
        for i in range(s.counts[row], at, -1):
            s.x1[row, i], s.x2[row, i], s.who[row, i] = s.x1[row, i - 1], s.x2[row, i - 1], s.who[row, i - 1]
        s.x1[row, at], s.x2[row, at], s.who[row, at] = x1, x2, who
        s.counts[row] += 1
        s.low[k], s.high[k] = min(s.low[k], x1), max(s.high[k], x1)
    return len(whos), -1


@compiled_no_refcount
def remove(s: Slabs, x1s: Floats, x2s: Floats, whos: Integers) -> None:
    """Remove these points, which must be present."""
    for n in range(len(whos)):
        k = _last_from(s.low, s.used[0], x1s[n])
        while k >= 0:  # points of one x1 may lie in several slabs
            row = s.order[k]
            at = _first_x2(s, row, x2s[n], whos[n])
            if at < s.counts[row] and s.who[row, at] == whos[n]:
                s.counts[row] -= 1
                for i in range(at, s.counts[row]):
                    s.x1[row, i], s.x2[row, i], s.who[row, i] = s.x1[row, i + 1], s.x2[row, i + 1], s.who[row, i + 1]
                break
            k -= 1


@compiled
def match(s: Slabs, lines: Floats, any_will_do: bool) -> Integers:
    """Return how many points lie in each rectangle; with `any_will_do` 1 if one does. `lines`:
    float64[n, 5], messages.
    """
    matches = np.empty(len(lines), np.int64)
    for m in range(len(lines)):
        inner_low, inner_high, outer_low, outer_high = lines[m, 1], lines[m, 2], lines[m, 3], lines[m, 4]
        total = 0
        # A slab before this one ends at or before outer_low.
        k = _last_from(s.high, s.used[0], outer_low)
        while k < s.used[0] and s.low[k] <= inner_low and not (any_will_do and total):
            row = s.order[k]
            inside = s.low[k] > outer_low and s.high[k] <= inner_low
            k += 1
            i = _first_x2(s, row, inner_high, -1)
            if inside and not any_will_do:
                total += _first_x2(s, row, outer_high, -1) - i
                continue
            while i < s.counts[row] and s.x2[row, i] < outer_high and not (any_will_do and total):
                total += inside or outer_low < s.x1[row, i] <= inner_low
                i += 1
        matches[m] = total
    return matches


@compiled
def collect(s: Slabs, lines: Floats, total: int) -> Integers:
    """Return whose points lie in each rectangle, one rectangle after the other; `match` says how many."""
    out, n = np.empty(total, np.int64), 0
    for m in range(len(lines)):
        inner_low, inner_high, outer_low, outer_high = lines[m, 1], lines[m, 2], lines[m, 3], lines[m, 4]
        k = _last_from(s.high, s.used[0], outer_low)
        while k < s.used[0] and s.low[k] <= inner_low:
            row = s.order[k]
            inside = s.low[k] > outer_low and s.high[k] <= inner_low
            k += 1
            i = _first_x2(s, row, inner_high, -1)
            if inside:
                for j in range(i, _first_x2(s, row, outer_high, -1)):
                    out[n] = s.who[row, j]
                    n += 1
                continue
            while i < s.counts[row] and s.x2[row, i] < outer_high:
                if outer_low < s.x1[row, i] <= inner_low:
                    out[n] = s.who[row, i]
                    n += 1
                i += 1
    return out
