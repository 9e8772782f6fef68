"""Processes many rows of a live store at a time, in compiled code."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.retention.held_rows import HEADER, ROOM, SLOTS, SPAN, HeldRows, find
from tolerant.retention.scorer import Scorer
from tolerant.retention.store_tick import advance, discard_down, expire, insert, set_key
from tolerant.retention.value_arrays import Floats, Integers, i64


@compiled_no_refcount
def count_pairs(held: HeldRows, k: int, values: Integers, born_before: int) -> int:
    """Count the pairs of these values with held rows of stream k that arrived before a tick."""
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


@compiled_no_refcount
def pair_up(
    held: HeldRows, k: int, values: Integers, ids: Integers, born_before: int, held_ids: Integers, new_ids: Integers
) -> None:
    """Write the pairs that `count_pairs` counted: for each new row the held ones, oldest first."""
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


@compiled_no_refcount
def insert_rows(held: HeldRows, k: int, values: Integers, keys: Floats, ids: Integers, tick: int, window: int) -> None:
    """Insert new rows of stream k."""
    small, wide, real = held
    for i in range(values.size):
        insert(small, wide, real, k, values[i], keys[i], tick, ids[i], window)


@compiled_no_refcount
def advance_both(held: HeldRows, scorers: tuple[Scorer, Scorer], tick: int, window: int) -> None:
    """Advance both streams to a new tick."""
    small, wide, real = held
    for k in range(2):
        advance(small, wide, real, i64(k), scorers[k], tick, window)


@compiled_no_refcount
def decide(  # noqa: PLR0913
    held: HeldRows, scorers: tuple[Scorer, Scorer], touched: Integers, keys_r: Floats, keys_s: Floats, rates: Floats,
    memory: int, random: bool, key: np.uint64, tick: int, lasts: tuple[int, int], window: int,
) -> None:  # fmt: skip
    """End a tick: expire rows, update the scores of touched values, and discard what does not fit."""
    small, wide, real = held
    expire(small, wide, real, tick, window)
    for k in range(2):
        advance(small, wide, real, i64(k), scorers[k], tick, window)
    for i in range(touched.size):
        set_key(small, wide, real, i64(0), touched[i], keys_r[i], tick, window)
        set_key(small, wide, real, i64(1), touched[i], keys_s[i], tick, window)
    discard_down(small, wide, real, scorers, rates, memory, random, key, tick, lasts, window)
