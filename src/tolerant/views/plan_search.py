"""Searches the best lazy, greedy and minimal plan: a shortest path by A* with dominance (`docs/design/views.md` §2.4).

A label is a path to a tick at which the limit is broken: the rows pushed so far, table by table (`base`), the cost
so far, and the label and set of tables it comes from. Labels are rows of growing arrays, under 200 bytes each in all.

A label is dropped where another one has pushed at least as much of every table at no higher cost, counting only costs
beyond the slope that every row pays eventually: having fewer rows to push saves a plan at least that. Among labels
of one tick this is the dominance of §2.4. For linear costs labels of later ticks are compared as well (`span`): a label
that has pushed more is forced later, can then push at once what the other pushed meanwhile, and pays no more setups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.views.cost_curves import PackedCurves
from tolerant.views.cost_floors import Floors, floor_of
from tolerant.views.rule_plan import next_broken
from tolerant.views.table_sets import everything, minimal_sets, price_of

_SAME = 1e-13
"""Costs this close, relatively, are one cost added up in another order."""

TICK, PARENT, MASK, LINK, DEAD = range(5)
"""Columns of `Labels.links`; LINK is the next label of the same tick."""

PAID, BEYOND, LEAST = range(3)
"""Columns of `Labels.costs`: paid; paid beyond the slopes of the rows pushed; paid and the floor of the rest."""

COUNT, WAITING, AT, TAKEN, FOUND = range(5)
"""Entries of `Labels.numbers`: labels; those in the heap; the tick expanded last, and how many of its labels; the
best plan's label, −1 while there is none."""


class Labels(NamedTuple):
    """Labels by number, and the heap of those not yet expanded."""

    links: NDArray[np.int32]  # [labels, 5]
    costs: NDArray[np.float64]  # [labels, 3]
    base: NDArray[np.int64]  # [labels, tables]
    heap: NDArray[np.int32]  # [labels]
    head: NDArray[np.int32]  # [ticks] the first label of each tick
    numbers: NDArray[np.int64]


def first_label(ticks: int, tables: int, tick: int, room: int) -> Labels:
    """Return the label without actions, at the first tick that breaks the limit."""
    labels = Labels(
        np.zeros((room, 5), np.int32),
        np.zeros((room, 3)),
        np.zeros((room, tables), np.int64),
        np.zeros(room, np.int32),
        np.full(ticks, -1, np.int32),
        np.array([1, 1, -1, 0, -1], np.int64),
    )
    labels.links[0] = tick, -1, 0, -1, 0
    return labels


def grown(labels: Labels, room: int) -> Labels:
    """Return the same labels with room for more."""
    parts = {name: getattr(labels, name) for name in ("links", "costs", "base", "heap")}
    more = room - len(labels.heap)
    return labels._replace(
        **{name: np.concatenate([part, np.zeros((more, *part.shape[1:]), part.dtype)]) for name, part in parts.items()}
    )


@compiled_no_refcount
def _before(labels: Labels, label: int, other: int, by_tick: bool) -> bool:
    """Return whether a label is expanded before another: by tick, or by the smallest sum and then the later tick."""
    if by_tick and labels.links[label, TICK] != labels.links[other, TICK]:
        return labels.links[label, TICK] < labels.links[other, TICK]
    if labels.costs[label, LEAST] != labels.costs[other, LEAST]:
        return labels.costs[label, LEAST] < labels.costs[other, LEAST]
    return labels.links[label, TICK] > labels.links[other, TICK]


@compiled_no_refcount
def _push(labels: Labels, label: int, by_tick: bool) -> None:
    heap, place = labels.heap, labels.numbers[WAITING]
    labels.numbers[WAITING] += 1
    while place > 0:
        above = (place - 1) // 2
        if not _before(labels, label, int(heap[above]), by_tick):
            break
        heap[place] = heap[above]
        place = above
    heap[place] = label


@compiled_no_refcount
def _pop(labels: Labels, by_tick: bool) -> int:
    heap = labels.heap
    labels.numbers[WAITING] -= 1
    size = labels.numbers[WAITING]
    first, moved, place = int(heap[0]), int(heap[size]), 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and _before(labels, int(heap[below + 1]), int(heap[below]), by_tick):
            below += 1
        if not _before(labels, int(heap[below]), moved, by_tick):
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moved
    return first


@compiled_no_refcount
def _is_dominated(labels: Labels, tick: int, span: int, base: NDArray[np.int64], beyond: float) -> bool:
    """Return whether a label of the next `span` ticks dominates a new one of `tick`; drop those that the new one
    dominates.
    """
    most = beyond + _SAME * (1.0 + abs(beyond))
    for later in range(tick, min(tick + span, len(labels.head))):
        before, label = -1, labels.head[later]
        while label >= 0:
            no_less, no_more = labels.costs[label, BEYOND] <= most, labels.costs[label, BEYOND] >= beyond
            for i in range(len(base)):
                no_less &= labels.base[label, i] >= base[i]
                no_more &= labels.base[label, i] <= base[i]
            if no_less:
                return True
            after = labels.links[label, LINK]
            if no_more and later == tick:
                labels.links[label, DEAD] = 1
                if before < 0:
                    labels.head[later] = after
                else:
                    labels.links[before, LINK] = after
            else:
                before = label
            label = after
    return False


@compiled
def search(  # noqa: C901, PLR0913
    labels: Labels,
    total: NDArray[np.int64],
    look: NDArray[np.int64],
    curves: PackedCurves,
    floors: Floors,
    bound: float,
    recompute: float,
    span: int,
    width: int,
) -> bool:
    """Search until the best plan is found, True, or the labels of one more step do not fit, False.

    `width` 0: A*. Otherwise beam search: tick by tick, the `width` most promising labels of each.
    """
    last, n = len(total) - 1, total.shape[1]
    numbers, by_tick = labels.numbers, width > 0
    base, counts, extra = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    best_so_far = np.inf
    while numbers[WAITING] > 0:
        if numbers[COUNT] + (1 << n) > len(labels.heap):
            return False
        label = _pop(labels, by_tick)
        tick = int(labels.links[label, TICK])
        if tick == last:
            numbers[FOUND] = label
            return True
        if tick != numbers[AT]:
            numbers[AT], numbers[TAKEN] = tick, 0
        numbers[TAKEN] += 1
        if labels.links[label, DEAD] or (by_tick and numbers[TAKEN] > width):
            continue
        for i in range(n):
            counts[i] = total[tick, i] - labels.base[label, i]
            extra[i] = look[tick, i] - total[tick, i]
        masks, prices, sets = minimal_sets(curves, counts, extra, bound, recompute)
        for which in range(max(1, sets)):
            # Without a set nothing is pending: only expected rows break the limit.
            mask, paid = (masks[which] if sets else 0), labels.costs[label, PAID] + (prices[which] if sets else 0.0)
            for i in range(n):
                base[i] = total[tick, i] if mask >> i & 1 else labels.base[label, i]
            after = next_broken(look, base, curves, bound, tick + 1)
            if after == last:
                for i in range(n):
                    counts[i] = total[last, i] - base[i]
                paid += min(price_of(curves, counts, everything(counts)), recompute)
            least = beyond = paid
            if after < last:
                for i in range(n):
                    least += floor_of(floors, curves, i, total[last, i] - base[i])
                    beyond -= floors.slope[i] * base[i]
            if best_so_far <= least or (after < last and _is_dominated(labels, after, span, base, beyond)):
                continue
            if after == last:
                best_so_far = paid
            new = numbers[COUNT]
            numbers[COUNT] += 1
            labels.links[new, TICK], labels.links[new, PARENT], labels.links[new, MASK] = after, label, mask
            labels.links[new, LINK] = labels.head[after]
            labels.head[after] = new
            labels.costs[new, PAID], labels.costs[new, BEYOND], labels.costs[new, LEAST] = paid, beyond, least
            for i in range(n):
                labels.base[new, i] = base[i]
            _push(labels, new, by_tick)
    return True  # not reached: a plan always exists


def path(labels: Labels) -> list[tuple[int, int]]:
    """Return the (tick, set) of the actions of the plan found, without the one at the last tick."""
    steps, label = [], int(labels.numbers[FOUND])
    while labels.links[label, PARENT] >= 0:
        mask, label = int(labels.links[label, MASK]), int(labels.links[label, PARENT])
        steps.append((int(labels.links[label, TICK]), mask))
    return steps[::-1]
