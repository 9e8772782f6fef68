"""The best plan that is lazy, greedy and minimal: a shortest path by A* with dominance (`specs/7-views.md` §2.4).

A label is a way to reach a tick at which the limit is broken: the rows pushed so far, table by table (`base`), the cost
so far, and the label and set of tables it comes from. A label is dropped where another one of the same tick has pushed
at least as much of every table for no more, counting only what was paid beyond the slope that every row pays sooner or
later: what a plan still saves by having fewer rows to push is at least that. Labels are rows of growing arrays, under
200 bytes each in all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled
from tolerant.views.curves import Packed
from tolerant.views.floors import Floors, floor_of
from tolerant.views.runs import next_broken
from tolerant.views.sets import everything, minimal_sets, price_of

_SAME = 1e-13
"""Costs this close, relatively, are one cost added up in another order."""


class Labels(NamedTuple):
    """Labels by number, and the heap of those that wait. Links join the labels of one tick."""

    tick: NDArray[np.int32]
    parent: NDArray[np.int32]
    mask: NDArray[np.int32]
    link: NDArray[np.int32]
    dead: NDArray[np.bool_]
    paid: NDArray[np.float64]
    beyond: NDArray[np.float64]  # paid beyond the slopes of the rows pushed
    least: NDArray[np.float64]  # paid and the floor of the rest
    base: NDArray[np.int64]  # [labels, tables]
    heap: NDArray[np.int32]


@compiled
def room_for(labels: int, tables: int) -> Labels:
    """Empty places."""
    return Labels(
        np.empty(labels, np.int32),
        np.empty(labels, np.int32),
        np.empty(labels, np.int32),
        np.empty(labels, np.int32),
        np.zeros(labels, np.bool_),
        np.empty(labels, np.float64),
        np.empty(labels, np.float64),
        np.empty(labels, np.float64),
        np.empty((labels, tables), np.int64),
        np.empty(labels, np.int32),
    )


@compiled
def _grown(labels: Labels, size: int) -> Labels:
    more = room_for(size, labels.base.shape[1])
    old = len(labels.tick)
    more.tick[:old] = labels.tick
    more.parent[:old] = labels.parent
    more.mask[:old] = labels.mask
    more.link[:old] = labels.link
    more.dead[:old] = labels.dead
    more.paid[:old] = labels.paid
    more.beyond[:old] = labels.beyond
    more.least[:old] = labels.least
    more.base[:old] = labels.base
    more.heap[:old] = labels.heap
    return more


@compiled
def _before(labels: Labels, one: int, other: int, by_tick: bool) -> bool:
    """Whether a label is taken up before another: tick by tick, or the smallest sum first and then the later tick."""
    if by_tick and labels.tick[one] != labels.tick[other]:
        return labels.tick[one] < labels.tick[other]
    if labels.least[one] != labels.least[other]:
        return labels.least[one] < labels.least[other]
    return labels.tick[one] > labels.tick[other]


@compiled
def _push(labels: Labels, size: int, label: int, by_tick: bool) -> None:
    heap, place = labels.heap, size
    while place > 0:
        above = (place - 1) // 2
        if not _before(labels, label, heap[above], by_tick):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = label


@compiled
def _pop(labels: Labels, size: int, by_tick: bool) -> int:
    heap = labels.heap
    first, moved, place = heap[0], heap[size - 1], 0
    while True:
        below = 2 * place + 1
        if below >= size - 1:
            break
        if below + 1 < size - 1 and _before(labels, heap[below + 1], heap[below], by_tick):
            below += 1
        if not _before(labels, heap[below], moved, by_tick):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moved
    return first


@compiled
def _is_dominated(labels: Labels, head: NDArray[np.int32], tick: int, base: NDArray[np.int64], beyond: float) -> bool:
    """Whether a label of this tick has pushed as much for no more; those that the new one outdoes die."""
    before, label = -1, head[tick]
    slack = _SAME * (1.0 + beyond)
    while label >= 0:
        no_less, no_more = True, True
        for i in range(len(base)):
            no_less &= labels.base[label, i] >= base[i]
            no_more &= labels.base[label, i] <= base[i]
        if no_less and labels.beyond[label] <= beyond + slack:
            return True
        if no_more and labels.beyond[label] >= beyond:
            labels.dead[label] = True
            if before < 0:
                head[tick] = labels.link[label]
            else:
                labels.link[before] = labels.link[label]
        else:
            before = label
        label = labels.link[label]
    return False


@compiled
def search(
    total: NDArray[np.int64],
    look: NDArray[np.int64],
    curves: Packed,
    floors: Floors,
    bound: float,
    recompute: float,
    budget: int,
    width: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
    """Ticks, sets and cost of the best plan, and how many labels it took; cost is infinite where `budget` is too small.

    `width` 0: A*. Otherwise beam search: tick by tick, the `width` most promising labels of each; always finds a plan.
    """
    last, n = len(total) - 1, total.shape[1]
    by_tick = width > 0
    labels = room_for(min(budget, 1024), n)
    head = np.full(last + 1, -1, np.int32)
    base, counts, extra = np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    count, waiting = 1, 1
    labels.tick[0] = next_broken(look, base, curves, bound, 0)
    labels.parent[0], labels.mask[0], labels.link[0] = -1, 0, -1
    labels.paid[0] = labels.beyond[0] = labels.least[0] = 0.0
    labels.base[0] = base
    labels.heap[0] = 0
    if labels.tick[0] == last:
        labels.paid[0] = min(price_of(curves, total[last], everything(total[last])), recompute)
    best, at_tick, taken = np.inf, -1, 0
    while waiting > 0:
        label = _pop(labels, waiting, by_tick)
        waiting -= 1
        if labels.dead[label]:
            continue
        tick = labels.tick[label]
        if tick == last:
            return _path(labels, label, total, count)
        if tick != at_tick:
            at_tick, taken = tick, 0
        taken += 1
        if by_tick and taken > width:
            continue
        for i in range(n):
            counts[i] = total[tick, i] - labels.base[label, i]
            extra[i] = look[tick, i] - total[tick, i]
        masks, prices = minimal_sets(curves, counts, extra, bound, recompute)
        for which in range(max(1, len(masks))):
            # Without a set nothing is pending: what breaks the limit is expected, not there.
            mask, price = (masks[which], prices[which]) if len(masks) else (0, 0.0)
            for i in range(n):
                base[i] = total[tick, i] if mask >> i & 1 else labels.base[label, i]
            after = next_broken(look, base, curves, bound, tick + 1)
            paid = labels.paid[label] + price
            least = beyond = paid
            if after == last:
                for i in range(n):
                    counts[i] = total[last, i] - base[i]
                paid += min(price_of(curves, counts, everything(counts)), recompute)
                least = paid
                if paid >= best:
                    continue
                best = paid
            else:
                for i in range(n):
                    least += floor_of(floors, curves, i, total[last, i] - base[i])
                    beyond -= floors.slope[i] * base[i]
                if least >= best or _is_dominated(labels, head, after, base, beyond):
                    continue
            if count == len(labels.tick):
                if count >= budget and not by_tick:
                    return np.empty(0, np.int64), np.empty(0, np.int64), np.inf, count
                labels = _grown(labels, 2 * count if by_tick else min(budget, 2 * count))
            labels.tick[count], labels.parent[count], labels.mask[count] = after, label, mask
            labels.paid[count], labels.beyond[count], labels.least[count] = paid, beyond, least
            labels.base[count] = base
            labels.link[count] = head[after]
            head[after] = count
            _push(labels, waiting, count, by_tick)
            count += 1
            waiting += 1
    return np.empty(0, np.int64), np.empty(0, np.int64), np.inf, count  # not reached: a plan always exists


@compiled
def _path(
    labels: Labels, label: int, total: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], float, int]:
    """The actions that lead to a label of the last tick, the last one included."""
    cost, steps, at = labels.paid[label], 1, label
    while labels.parent[at] >= 0:
        steps += 1
        at = labels.parent[at]
    ticks, masks = np.empty(steps, np.int64), np.empty(steps, np.int64)
    ticks[-1], masks[-1] = len(total) - 1, everything(total[-1] - labels.base[label])
    at = label
    for step in range(steps - 2, -1, -1):
        masks[step] = labels.mask[at]
        at = labels.parent[at]
        ticks[step] = labels.tick[at]
    acts = masks != 0
    return ticks[acts], masks[acts], cost, count
