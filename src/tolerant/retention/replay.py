"""The loops over ticks: a join and a cache, as they are simulated (`specs/6-retention.md` §2.1, §2.2)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.kernels.random import absorbed
from tolerant.retention.arrays import Flags, Floats, Integers, i64
from tolerant.retention.engine import any_row, count_of, discard_down, expire, insert, move_on, nominee, remove, set_key
from tolerant.retention.groups import HEADER, KEYED, LIVE, ROOM, ROWS, SLOTS, SPAN, Held, find, oldest
from tolerant.retention.scorer import Scorer
from tolerant.retention.trees import settle


@borrowing
def play(
    start: int, r: Integers, s: Integers, keys_r: Floats, keys_s: Floats, held: Held,
    scorers: tuple[Scorer, Scorer], rates: Floats, memory: int, window: int, warmup: int, random: bool,
    key: np.uint64, tally: Integers,
) -> None:  # fmt: skip
    """Every tick in turn, from tick `start` on. tally: results, ticks of held rows of r, of all held rows."""
    small, wide, real = held
    one, other, nobody = i64(0), i64(1), i64(0)
    kinds_r, kinds_s = keys_r.shape[0], keys_s.shape[0]
    for i in range(r.size):
        t = start + i
        if t >= warmup:
            tally[0] += count_of(small, wide, one, s[i]) + count_of(small, wide, other, r[i])
        expire(small, wide, real, t, window)
        move_on(small, wide, real, one, scorers[0], t, window)
        move_on(small, wide, real, other, scorers[1], t, window)
        if kinds_r > 1:
            set_key(small, wide, real, one, s[i], keys_r[1, i], t, window)
        if kinds_s > 1:
            set_key(small, wide, real, other, r[i], keys_s[1, i], t, window)
        if window != 0:
            insert(small, wide, real, one, r[i], keys_r[0, i] if kinds_r else 0.0, t, nobody, window)
            insert(small, wide, real, other, s[i], keys_s[0, i] if kinds_s else 0.0, t, nobody, window)
        discard_down(small, wide, real, scorers, rates, memory, random, key, t, (s[i], r[i]), window)
        if t >= warmup:
            tally[1] += wide[ROWS]
            tally[2] += wide[LIVE]


@compiled
def look_up(
    start: int, values: Integers, keys: Floats, held: Held, scorer: Scorer, layers: Integers, memory: int, random: bool,
    key: np.uint64, window: int,
) -> Flags:  # fmt: skip
    """Which references hit, bool[ticks], from tick `start` on."""
    small, wide, real = held
    hits = np.zeros(values.size, np.bool_)
    k, nobody, draw = i64(0), i64(0), i64(0)
    for i in range(values.size):
        t, value = start + i, values[i]
        own = keys[i] if keys.size else 0.0
        move_on(small, wide, real, k, scorer, t, window)
        slot = find(small, wide, k, value)
        if slot >= 0:
            hits[i] = True
            wide[HEADER + 2 * wide[SLOTS] + oldest(small, wide, k, slot)] = t
            if wide[KEYED]:
                real[slot] = own
            settle(small, wide, real, k, slot, t, window)
            continue
        insert(small, wide, real, k, value, own, t, nobody, window)
        if wide[LIVE] > memory:
            if random:
                _, row = any_row(small, wide, absorbed(key, np.uint64(t)), draw)
                worst = i64(small[2 * wide[SPAN] + wide[ROOM] + row]) // 2
            else:
                worst, _, _ = nominee(small, wide, real, k, scorer, layers[i], t, value, window)
                row = oldest(small, wide, k, worst)
            remove(small, wide, real, k, worst, row, t, window)
    return hits
