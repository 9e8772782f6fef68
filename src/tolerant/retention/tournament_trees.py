"""Keeps tournament trees of groups, whose winner is discarded next, in O(log groups) per change.

A tree has one leaf per slot; a node holds the winner of its two children. Where scores shrink as windows close, a node
also knows until when its winner is valid: of two rows of one stream the one with the shorter life loses score faster,
so they change places at most once (the growth of a score in the remaining life is log-concave).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount, inlined_no_refcount
from tolerant.retention.held_rows import (
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
from tolerant.retention.value_arrays import Floats, Integers, i64

NO_ORDER, BY_KEY, BY_WORTH, LOWEST, HIGHEST = range(5)
"""BY_KEY: least score. BY_WORTH: least score of those that shrink. LOWEST: dead rows, oldest first, then the value that
the trend passes first. HIGHEST: the value farthest ahead.
"""

NEVER = 2**62

_STEPS = 3


@inlined_no_refcount
def worth(wide: Integers, real: Floats, k: int, slot: int, life: int) -> float:
    """Return the score of a row with this remaining life; rows carry keys."""
    slots, numbers = wide[SLOTS], wide[NUMBERS]
    if numbers:
        return real[k * slots + slot] * real[2 * slots + k * numbers + max(min(life, numbers - 1), 0)]
    return real[k * slots + slot] * life


@inlined_no_refcount
def is_dead(small: Small, wide: Integers, real: Floats, k: int, slot: int, window: int) -> bool:
    """Return whether the partner's trend has passed the value, or will not reach it within the oldest row's window."""
    sign = wide[STREAM * k + SIGN]
    value = sign * wide[HEADER + k * wide[SLOTS] + slot]
    if value < wide[STREAM * k + DEAD_BELOW]:
        return True
    if window < 0:
        return False
    last = arrival_of(wide, oldest(small, wide, k, slot)) + window
    line = 2 * wide[SLOTS] * wide[KEYED] + k * wide[NUMBERS]
    return value > sign * centre_of(real[line], real[line + 1], last) + real[line + 2]


@compiled_no_refcount
def _goes_first(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, k: int, order: int, a: int, b: int, tick: int, window: int
) -> bool:
    """Return whether the oldest row of group a is discarded before that of group b; ties: the older, then the lesser
    value.
    """
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


@inlined_no_refcount
def _until(wide: Integers, k: int) -> int:
    """Return the offset of the nodes' validity ticks."""
    return HEADER + (2 + 2 * k) * wide[SLOTS] + wide[ROOM] * (1 + wide[IDS])


@inlined_no_refcount
def _lead(small: Small, wide: Integers, real: Floats, k: int, a: int, b: int, tick: int, window: int) -> float:
    """Return the lead of group a's oldest row over group b's in score."""
    born, other = arrival_of(wide, oldest(small, wide, k, a)), arrival_of(wide, oldest(small, wide, k, b))
    return worth(wide, real, k, a, born + window - tick) - worth(wide, real, k, b, other + window - tick)


@compiled_no_refcount
def _stands_until(
    small: Small, wide: Integers, real: Floats, k: int, winner: int, loser: int, tick: int, window: int
) -> int:
    """Return a tick up to which the winner stays first, if only time changes; then the node must be decided again."""
    life = arrival_of(wide, oldest(small, wide, k, loser)) + window - tick
    if arrival_of(wide, oldest(small, wide, k, winner)) + window - tick <= life:
        return i64(NEVER)
    # The loser's lead falls with time. A few steps of interpolation, on the side where it is positive, find a tick
    # close enough to its end.
    low, high = i64(0), life
    lead = _lead(small, wide, real, k, loser, winner, tick, window)
    trail = _lead(small, wide, real, k, loser, winner, tick + life - 1, window)
    if trail > 0.0:
        return tick + life
    for _ in range(_STEPS):
        middle = low + min(max(i64((high - low) * lead / (lead - trail + 1e-300)), 1), high - low - 1)
        if middle <= low or lead <= 0.0:
            break
        between = _lead(small, wide, real, k, loser, winner, tick + middle, window)
        if between > 0.0:
            low, lead = middle, between
        else:
            high, trail = middle, between
    return tick + low + 1


@compiled_no_refcount
def _play(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, k: int, order: int, tree: int, node: int, tick: int, window: int
) -> int:
    """Decide a node again; with scores that shrink, also until when its winner is valid."""
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


@inlined_no_refcount
def _tree(wide: Integers, k: int, which: int) -> int:
    """Return the offset of a tree."""
    return k * wide[SPAN] + wide[TABLE] + wide[MASK] + 1 + which * 2 * wide[SLOTS]


@inlined_no_refcount
def first_of(small: Small, wide: Integers, k: int, which: int) -> int:
    """Return the slot that wins a tree."""
    return i64(small[_tree(wide, k, which) + 1])


@compiled_no_refcount
def settle(small: Small, wide: Integers, real: Floats, k: int, slot: int, tick: int, window: int) -> None:
    """Update the trees after a group was added, removed or changed."""
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


@inlined_no_refcount
def _climb(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, k: int, order: int, tree: int, node: int, slot: int, window: int
) -> None:
    """Decide the nodes above a leaf again. Time does not matter here, and the common case is inlined."""
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
        # A node whose winner is another slot, unchanged, needs no update above.
        if winner == before and winner != slot:
            return
        node //= 2


@compiled_no_refcount
def rebuild(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """Rebuild all trees of a stream, in O(slots)."""
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


@compiled_no_refcount
def catch_up(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """Decide again every node that is no longer valid at this tick; only where scores shrink."""
    if wide[STREAM * k + FIRST_ORDER] == BY_WORTH and wide[_until(wide, k) + 1] <= tick:
        _play_again(small, wide, real, k, tick, window)


@compiled
def _play_again(small: Small, wide: Integers, real: Floats, k: int, tick: int, window: int) -> None:
    """Decide again the nodes that are no longer valid, bottom-up; the root is one of them."""
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
