"""Processes one tick of a store in compiled code: match, expire, insert, discard (`docs/design/retention.md` §2.1)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount, inlined, inlined_no_refcount
from tolerant.kernels.random import absorbed, bits_at
from tolerant.retention.held_rows import (
    DEAD_BELOW,
    FIRST_ORDER,
    FRESH,
    GROUPS,
    HEADER,
    KEYED,
    LIVE,
    OLDEST,
    ROOM,
    ROW_FRESH,
    SECOND_ORDER,
    SIGN,
    SLOTS,
    SPAN,
    STREAM,
    Small,
    add_group,
    arrival_of,
    find,
    oldest,
    put_row,
    remove_group,
    take_row,
)
from tolerant.retention.scorer import ENDLESS, KEYS, Scorer, dead_below, score
from tolerant.retention.tournament_trees import BY_WORTH, NO_ORDER, catch_up, first_of, is_dead, rebuild, settle, worth
from tolerant.retention.value_arrays import Floats, Integers, i64

NO_WINDOW = -1


@inlined_no_refcount
def count_of(small: Small, wide: Integers, k: int, value: int) -> int:
    """Return how many rows of this value are held; where counts are kept."""
    slot = find(small, wide, k, value)
    return i64(small[k * wide[SPAN] + wide[SLOTS] + slot]) if slot >= 0 else i64(0)


@compiled_no_refcount
def insert(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, k: int, value: int, key: float, arrival: int, identity: int, window: int
) -> None:
    """Insert a row."""
    slot = find(small, wide, k, value)
    changed = slot < 0
    if changed:
        slot = add_group(small, wide, k, value)
    put_row(small, wide, k, slot, arrival, identity)
    if wide[KEYED] and (changed or real[k * wide[SLOTS] + slot] != key):
        real[k * wide[SLOTS] + slot] = key
        changed = True
    if changed:
        settle(small, wide, real, k, slot, arrival, window)


@compiled_no_refcount
def set_key(small: Small, wide: Integers, real: Floats, k: int, value: int, key: float, tick: int, window: int) -> None:
    """Set the score of a value, if rows of it are held."""
    slot = find(small, wide, k, value)
    if slot >= 0 and real[k * wide[SLOTS] + slot] != key:
        real[k * wide[SLOTS] + slot] = key
        settle(small, wide, real, k, slot, tick, window)


@compiled_no_refcount
def remove(small: Small, wide: Integers, real: Floats, k: int, slot: int, row: int, tick: int, window: int) -> None:
    """Remove a row."""
    take_row(small, wide, k, slot, row)
    settle(small, wide, real, k, slot, tick, window)
    if small[k * wide[SPAN] + slot] < 0:
        remove_group(small, wide, k, slot)


@compiled_no_refcount
def advance(small: Small, wide: Integers, real: Floats, k: int, scorer: Scorer, tick: int, window: int) -> None:
    """Advance the trees to a new tick: mark rows that the trend passed, and reorder where windows closed."""
    marks = STREAM * k
    if wide[marks + SIGN] == 0:
        catch_up(small, wide, real, k, tick, window)
        return
    before, now = wide[marks + DEAD_BELOW], dead_below(scorer, tick)
    wide[marks + DEAD_BELOW] = now
    if now < before or now - before > wide[marks + GROUPS]:
        rebuild(small, wide, real, k, tick, window)
        return
    for passed in range(before, now):
        slot = find(small, wide, k, wide[marks + SIGN] * passed)
        if slot >= 0:
            settle(small, wide, real, k, slot, tick, window)


@compiled_no_refcount
def expire(small: Small, wide: Integers, real: Floats, tick: int, window: int) -> None:
    """Remove rows whose window has closed."""
    if window < 0:
        return
    row = wide[OLDEST]
    while row >= 0 and arrival_of(wide, row) + window <= tick:
        owner = i64(small[2 * wide[SPAN] + wide[ROOM] + row])
        remove(small, wide, real, owner % 2, owner // 2, row, tick, window)
        row = wide[OLDEST]


@inlined_no_refcount
def _is_older(small: Small, wide: Integers, k: int, a: int, b: int) -> bool:
    born, other = arrival_of(wide, oldest(small, wide, k, a)), arrival_of(wide, oldest(small, wide, k, b))
    values = HEADER + k * wide[SLOTS]
    return born < other or (born == other and wide[values + a] < wide[values + b])


@compiled_no_refcount
def nominee(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, k: int, scorer: Scorer, layer: int, tick: int, last: int, window: int
) -> tuple[int, float, float]:
    """Return the group of this stream whose oldest row is discarded next, its score, and the tie-breaker."""
    marks = STREAM * k
    best, least, least_second = i64(-1), np.inf, np.inf
    if wide[marks + GROUPS] == 0:
        return best, least, least_second
    begin, end, step = i64(0), wide[marks + FRESH], i64(1)
    if wide[marks + FIRST_ORDER] != NO_ORDER:
        slot = first_of(small, wide, k, i64(0))
        if scorer.kind == KEYS:
            if wide[marks + FIRST_ORDER] == BY_WORTH:
                life = arrival_of(wide, oldest(small, wide, k, slot)) + window - tick
                return slot, worth(wide, real, k, slot, life), 0.0
            return slot, real[k * wide[SLOTS] + slot], 0.0
        if wide[marks + SIGN] != 0 and is_dead(small, wide, real, k, slot, window):
            return slot, -np.inf, -np.inf
        if wide[marks + SECOND_ORDER] != NO_ORDER:
            # Only the two ends of the values need to be compared.
            other = first_of(small, wide, k, i64(1))
            begin, end, step = min(slot, other), max(slot, other) + 1, max(abs(other - slot), 1)
    for slot in range(begin, end, step):
        if small[k * wide[SPAN] + slot] < 0:
            continue
        life = ENDLESS if window < 0 else arrival_of(wide, oldest(small, wide, k, slot)) + window - tick
        first, second = score(scorer, layer, wide[HEADER + k * wide[SLOTS] + slot], life, tick, last)
        lower = best < 0 or first < least or (first == least and second < least_second)
        if lower or (first == least and second == least_second and _is_older(small, wide, k, slot, best)):
            best, least, least_second = slot, first, second
    return best, least, least_second


@inlined
def _weighed(kind: int, plain: bool, value: float, rate: float) -> float:
    """Return the score of a nominee in the form that is compared with the other stream's: unchanged, or
    its logarithm.
    """
    if plain:
        return value * rate
    if kind == KEYS:
        value = math.log(value) if value > 0.0 else -np.inf
    return value + math.log(rate) if rate > 0.0 else -np.inf


@compiled_no_refcount
def _worst(
    small: Small, wide: Integers, real: Floats, scorers: tuple[Scorer, Scorer], rates: Floats, tick: int,
    lasts: tuple[int, int], window: int,
) -> tuple[int, int]:  # fmt: skip
    """Return the stream and the group of the row with the least score: of equal ones the older, then the one of s."""
    zero, one = i64(0), i64(1)
    a, mine, second = nominee(small, wide, real, zero, scorers[0], zero, tick, lasts[0], window)
    b, others, other_second = nominee(small, wide, real, one, scorers[1], zero, tick, lasts[1], window)
    if a < 0 or b < 0:
        return (zero, a) if b < 0 else (one, b)
    plain = scorers[0].kind == KEYS and scorers[1].kind == KEYS
    mine, others = _weighed(scorers[0].kind, plain, mine, rates[0]), _weighed(scorers[1].kind, plain, others, rates[1])
    if mine != others:
        return (zero, a) if mine < others else (one, b)
    if second != other_second:
        return (zero, a) if second < other_second else (one, b)
    born, other_born = arrival_of(wide, oldest(small, wide, zero, a)), arrival_of(wide, oldest(small, wide, one, b))
    return (zero, a) if born < other_born else (one, b)


@compiled_no_refcount
def discard_down(  # noqa: PLR0913
    small: Small, wide: Integers, real: Floats, scorers: tuple[Scorer, Scorer], rates: Floats, memory: int,
    random: bool, key: np.uint64, tick: int, lasts: tuple[int, int], window: int,
) -> None:  # fmt: skip
    """Discard until at most `memory` rows are held.

    scorers: of rows of r, of rows of s. rates: rows per tick of the stream that each is matched with. lasts: the newest
    values of those streams.
    """
    draw = i64(0)
    while wide[LIVE] > memory:
        if random:
            draw, row = any_row(small, wide, absorbed(key, np.uint64(tick)), draw)
            owner = i64(small[2 * wide[SPAN] + wide[ROOM] + row])
            k, slot = owner % 2, owner // 2
        else:
            k, slot = _worst(small, wide, real, scorers, rates, tick, lasts, window)
            row = oldest(small, wide, k, slot)
        remove(small, wide, real, k, slot, row, tick, window)


@inlined_no_refcount
def any_row(small: Small, wide: Integers, key: np.uint64, draw: int) -> tuple[int, int]:
    """Return a random row, and how many numbers have been drawn."""
    owners = 2 * wide[SPAN] + wide[ROOM]
    while True:
        row = i64(bits_at(key, np.uint64(draw)) % np.uint64(wide[ROW_FRESH]))
        draw += 1
        if small[owners + row] >= 0:
            return draw, row
