"""Tournaments among groups: who goes next, kept up to date in O(log groups) a change.

A tree has a leaf a slot; a node holds the slot of the two below that goes first. Where scores shrink as windows close,
a node also knows until when its answer stands: of two rows of the same stream the one with the shorter life loses
ground for ever, so they change places at most once (the growth of a score in the remaining life is log-concave).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled, inlined_borrowing
from tolerant.retention.arrays import Floats, Integers, i64
from tolerant.retention.groups import (
    DEAD_BELOW,
    FIRST_ORDER,
    FRESH,
    HEADER,
    IDS,
    KEYED,
    MASK,
    NUMBERS,
    ROOM,
    SIGN,
    SLOTS,
    SPAN,
    STREAM,
    TABLE,
    TREES,
    Small,
    arrival_of,
    oldest,
)
from tolerant.retention.scorer import centre_of

NO_ORDER, BY_KEY, BY_WORTH, LOWEST, HIGHEST = range(5)
"""BY_KEY: least score. BY_WORTH: least score of those that shrink. LOWEST: dead rows, oldest first, then the value that
the trend leaves first. HIGHEST: the value farthest ahead.
"""

NEVER = 2**62

_STEPS = 3


@inlined_borrowing
def worth(wide: Integers, real: Floats, k: int, slot: int, life: int) -> float:
    """The score of a row with this remaining life; rows come with keys."""
    slots, numbers = wide[SLOTS], wide[NUMBERS]
    if numbers:
        return real[k * slots + slot] * real[2 * slots + k * numbers + max(min(life, numbers - 1), 0)]
    return real[k * slots + slot] * life


@inlined_borrowing
def is_dead(small: Small, wide: Integers, real: Floats, k: int, slot: int, window: int) -> bool:
    """Whether the partner's trend has passed the value, or will not reach it within the oldest row's window."""
    sign = wide[STREAM * k + SIGN]
    value = sign * wide[HEADER + k * wide[SLOTS] + slot]
    if value < wide[STREAM * k + DEAD_BELOW]:
        return True
    if window < 0:
        return False
    last = arrival_of(wide, oldest(small, wide, k, slot)) + window
    line = 2 * wide[SLOTS] * wide[KEYED] + k * wide[NUMBERS]
    return value > sign * centre_of(real[line], real[line + 1], last) + real[line + 2]


@borrowing
def _goes_first(
    small: Small, wide: Integers, real: Floats, k: int, order: int, a: int, b: int, tick: int, window: int
) -> bool:
    """Whether the oldest row of group a goes before that of group b; equal ones: the older, then the lesser value."""
    slots = wide[SLOTS]
    if order == BY_KEY:
        mine, others = real[k * slots + a], real[k * slots + b]
        if mine != others:
            return mine < others
    x, y = wide[HEADER + k * slots + a], wide[HEADER + k * slots + b]
    if order >= LOWEST:
        sign = wide[STREAM * k + SIGN]
        if sign < 0:
            x, y = -x, -y
        if order == HIGHEST:
            return x > y
        if sign == 0:
            return x < y
        gone = is_dead(small, wide, real, k, a, window)
        if gone != is_dead(small, wide, real, k, b, window):
            return gone
        if not gone:
            return x < y
    born, other = arrival_of(wide, oldest(small, wide, k, a)), arrival_of(wide, oldest(small, wide, k, b))
    if order == BY_WORTH:
        now, then = worth(wide, real, k, a, born + window - tick), worth(wide, real, k, b, other + window - tick)
        if now != then:
            return now < then
    if born != other:
        return born < other
    return x < y


@inlined_borrowing
def _until(wide: Integers, k: int) -> int:
    """Where the nodes' terms stand."""
    return HEADER + (2 + 2 * k) * wide[SLOTS] + wide[ROOM] * (1 + wide[IDS])


@inlined_borrowing
def _lead(small: Small, wide: Integers, real: Floats, k: int, a: int, b: int, tick: int, window: int) -> float:
    """By how much group a's oldest row will be worth more than group b's."""
    born, other = arrival_of(wide, oldest(small, wide, k, a)), arrival_of(wide, oldest(small, wide, k, b))
    return worth(wide, real, k, a, born + window - tick) - worth(wide, real, k, b, other + window - tick)


@borrowing
def _stands_until(
    small: Small, wide: Integers, real: Floats, k: int, winner: int, loser: int, tick: int, window: int
) -> int:
    """A tick up to which the winner goes first, if nothing but time changes; then it has to be looked at again."""
    life = arrival_of(wide, oldest(small, wide, k, loser)) + window - tick
    if arrival_of(wide, oldest(small, wide, k, winner)) + window - tick <= life:
        return i64(NEVER)
    # By how much the loser is worth more falls with time. A few steps of interpolation, on the side where it still is,
    # come near enough to where it ends.
    low, high = i64(0), life
    lead = _lead(small, wide, real, k, loser, winner, tick, window)
    trail = _lead(small, wide, real, k, loser, winner, tick + life - 1, window)
    if trail > 0.0:
        return tick + life
    for _ in range(_STEPS):
        middle = low + min(max(i64((high - low) * lead / (lead - trail + 1e-300)), 1), high - low - 1)
        if middle <= low or lead <= 0.0:
            break
        found = _lead(small, wide, real, k, loser, winner, tick + middle, window)
        if found > 0.0:
            low, lead = middle, found
        else:
            high, trail = middle, found
    return tick + low + 1


@borrowing
def _play(
    small: Small, wide: Integers, real: Floats, k: int, order: int, tree: int, node: int, tick: int, window: int
) -> int:
    """Decide a node anew: who wins it. With scores that shrink, also until when that stands."""
    a, b = i64(small[tree + 2 * node]), i64(small[tree + 2 * node + 1])
    winner = max(a, b)
    if a >= 0 and b >= 0:
        winner = a if _goes_first(small, wide, real, k, order, a, b, tick, window) else b
    if order == BY_WORTH:
        until = _until(wide, k)
        stands = min(wide[until + 2 * node], wide[until + 2 * node + 1])
        if a >= 0 and b >= 0:
            stands = min(stands, _stands_until(small, wide, real, k, winner, a + b - winner, tick, window))
        wide[until + node] = stands
    small[tree + node] = winner
    return winner


@inlined_borrowing
def _tree(wide: Integers, k: int, which: int) -> int:
    """Where a tree begins."""
    return k * wide[SPAN] + wide[TABLE] + wide[MASK] + 1 + which * 2 * wide[SLOTS]


@inlined_borrowing
def first_of(small: Small, wide: Integers, k: int, which: int) -> int:
    """The slot that wins a tree."""
    return i64(small[_tree(wide, k, which) + 1])


@borrowing
def settle(small: Small, wide: Integers, real: Floats, k: int, slot: int, tick: int, window: int) -> None:
    """A group came, went, or changed: bring the trees up to date."""
    leaves = wide[SLOTS]
    present = slot if small[k * wide[SPAN] + slot] >= 0 else -1
    for which in range(wide[TREES]):
        order = wide[STREAM * k + FIRST_ORDER + which]
        if order == NO_ORDER:
            continue
        tree = _tree(wide, k, which)
        small[tree + leaves + slot] = present
        node = (leaves + slot) // 2
        if order == BY_WORTH:
            until = _until(wide, k)
            while node >= 1:
                before, stood = i64(small[tree + node]), wide[until + node]
                after = _play(small, wide, real, k, order, tree, node, tick, window)
                if after == before and after != slot and stood == wide[until + node]:
                    break
                node //= 2
        else:
            _climb(small, wide, real, k, order, tree, node, slot, window)


@inlined_borrowing
def _climb(
    small: Small, wide: Integers, real: Floats, k: int, order: int, tree: int, node: int, slot: int, window: int
) -> None:
    """Decide the nodes above a leaf anew. Time does not matter here, and what is usual is decided on the spot."""
    keys, values = k * wide[SLOTS], HEADER + k * wide[SLOTS]
    sign, dead_below = wide[STREAM * k + SIGN], wide[STREAM * k + DEAD_BELOW]
    plain = order == HIGHEST or (order == LOWEST and (sign == 0 or window < 0))
    while node >= 1:
        a, b = i64(small[tree + 2 * node]), i64(small[tree + 2 * node + 1])
        winner = max(a, b)
        if a >= 0 and b >= 0:
            x, y = wide[values + a], wide[values + b]
            if sign < 0:
                x, y = -x, -y
            if order == BY_KEY and real[keys + a] != real[keys + b]:
                winner = a if real[keys + a] < real[keys + b] else b
            elif plain and (order == HIGHEST or sign == 0 or x >= dead_below or y >= dead_below):
                winner = a if (x < y) == (order == LOWEST) else b
            else:
                winner = a if _goes_first(small, wide, real, k, order, a, b, i64(0), window) else b
        before = i64(small[tree + node])
        small[tree + node] = winner
        # Who won before, is another, and wins still has met everybody above already.
        if winner == before and winner != slot:
            return
        node //= 2


@borrowing
def rebuild(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """All trees of a stream from nothing, in O(slots)."""
    leaves = wide[SLOTS]
    for which in range(wide[TREES]):
        order = wide[STREAM * k + FIRST_ORDER + which]
        if order == NO_ORDER:
            continue
        tree = _tree(wide, k, which)
        for slot in range(leaves):
            used = slot < wide[STREAM * k + FRESH] and small[k * wide[SPAN] + slot] >= 0
            small[tree + leaves + slot] = slot if used else -1
            if order == BY_WORTH:
                wide[_until(wide, k) + leaves + slot] = NEVER
        for node in range(leaves - 1, 0, -1):
            _play(small, wide, real, k, order, tree, node, tick, window)


@borrowing
def catch_up(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """Decide anew whatever no longer stands at this tick; only where scores shrink."""
    if wide[STREAM * k + FIRST_ORDER] == BY_WORTH and wide[_until(wide, k) + 1] <= tick:
        _play_again(small, wide, real, k, tick, window)


@compiled
def _play_again(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """Decide anew the nodes that no longer stand, from below; the root is one of them."""
    order = wide[STREAM * k + FIRST_ORDER]
    until, leaves, tree = _until(wide, k), wide[SLOTS], _tree(wide, k, i64(0))
    stack = np.empty(128, np.int64)
    stack[0] = 1
    depth = 1
    while depth:
        node = stack[depth - 1]
        if node < 0:
            depth -= 1
            _play(small, wide, real, k, order, tree, -node, tick, window)
            continue
        stack[depth - 1] = -node
        for child in range(2 * node, 2 * node + 2):
            if child < leaves and wide[until + child] <= tick:
                stack[depth] = child
                depth += 1
