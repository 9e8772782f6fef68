"""What a live store does with many rows at a time, in compiled code."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing
from tolerant.retention.arrays import Floats, Integers, i64
from tolerant.retention.engine import discard_down, expire, insert, move_on, set_key
from tolerant.retention.groups import HEADER, ROOM, SLOTS, SPAN, Held, find
from tolerant.retention.scorer import Scorer


@borrowing
def count_pairs(held: Held, k: int, values: Integers, born_before: int) -> int:
    """How many held rows of stream k that came before a tick have one of these values, over all of them."""
    small, wide, _ = held
    following, arrivals = 2 * wide[SPAN], HEADER + 2 * wide[SLOTS]
    pairs = 0
    for i in range(values.size):
        slot = find(small, wide, k, values[i])
        if slot < 0:
            continue
        tail = i64(small[k * wide[SPAN] + slot])
        row = i64(small[following + tail])
        while wide[arrivals + row] < born_before:
            pairs += 1
            if row == tail:
                break
            row = i64(small[following + row])
    return pairs


@borrowing
def pair_up(
    held: Held, k: int, values: Integers, ids: Integers, born_before: int, held_ids: Integers, new_ids: Integers
) -> None:
    """The pairs that `count_pairs` counted: for each new row the held ones, oldest first."""
    small, wide, _ = held
    following, arrivals = 2 * wide[SPAN], HEADER + 2 * wide[SLOTS]
    names = arrivals + wide[ROOM]
    at = 0
    for i in range(values.size):
        slot = find(small, wide, k, values[i])
        if slot < 0:
            continue
        tail = i64(small[k * wide[SPAN] + slot])
        row = i64(small[following + tail])
        while wide[arrivals + row] < born_before:
            held_ids[at], new_ids[at] = wide[names + row], ids[i]
            at += 1
            if row == tail:
                break
            row = i64(small[following + row])


@borrowing
def take_in(held: Held, k: int, values: Integers, keys: Floats, ids: Integers, tick: int, window: int) -> None:
    """New rows of stream k."""
    small, wide, real = held
    for i in range(values.size):
        insert(small, wide, real, k, values[i], keys[i], tick, ids[i], window)


@borrowing
def move_both(held: Held, scorers: tuple[Scorer, Scorer], tick: int, window: int) -> None:
    """A new tick."""
    small, wide, real = held
    for k in range(2):
        move_on(small, wide, real, i64(k), scorers[k], tick, window)


@borrowing
def decide(
    held: Held, scorers: tuple[Scorer, Scorer], touched: Integers, keys_r: Floats, keys_s: Floats, rates: Floats,
    memory: int, random: bool, key: np.uint64, tick: int, lasts: tuple[int, int], window: int,
) -> None:  # fmt: skip
    """The end of a tick: windows close, scores of touched values change, and what does not fit goes."""
    small, wide, real = held
    expire(small, wide, real, tick, window)
    for k in range(2):
        move_on(small, wide, real, i64(k), scorers[k], tick, window)
    for i in range(touched.size):
        set_key(small, wide, real, i64(0), touched[i], keys_r[i], tick, window)
        set_key(small, wide, real, i64(1), touched[i], keys_s[i], tick, window)
    discard_down(small, wide, real, scorers, rates, memory, random, key, tick, lasts, window)
