"""Runs the loops over ticks of a join and a cache (`docs/design/retention.md` §2.1, §2.2)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import absorbed
from tolerant.retention.held_rows import HEADER, KEYED, LIVE, ROOM, ROWS, SLOTS, SPAN, HeldRows, find, oldest
from tolerant.retention.scorer import Scorer
from tolerant.retention.store_tick import (
    advance,
    any_row,
    count_of,
    discard_down,
    expire,
    insert,
    nominee,
    remove,
    set_key,
)
from tolerant.retention.tournament_trees import settle
from tolerant.retention.value_arrays import Flags, Floats, Integers, i64


@compiled_no_refcount
def play(  # noqa: PLR0913
    start: int, r: Integers, s: Integers, keys_r: Floats, keys_s: Floats, held: HeldRows,
    scorers: tuple[Scorer, Scorer], rates: Floats, memory: int, window: int, warmup: int, random: bool,
    key: np.uint64, tally: Integers,
) -> None:  # fmt: skip
    """Play every tick from `start` on. tally: results, ticks of held rows of r, of all held rows."""
    small, wide, real = held
    one, other, nobody = i64(0), i64(1), i64(0)
    kinds_r, kinds_s = keys_r.shape[0], keys_s.shape[0]
    for i in range(r.size):
        t = start + i
        if t >= warmup:
            tally[0] += count_of(small, wide, one, s[i]) + count_of(small, wide, other, r[i])
        expire(small, wide, real, t, window)
        advance(small, wide, real, one, scorers[0], t, window)
        advance(small, wide, real, other, scorers[1], t, window)
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
def look_up(  # noqa: PLR0913
    start: int, values: Integers, keys: Floats, held: HeldRows, scorer: Scorer, layers: Integers, memory: int,
    random: bool, key: np.uint64, window: int,
) -> Flags:  # fmt: skip
    """Return which references hit, bool[ticks], from tick `start` on."""
    small, wide, real = held
    hits = np.zeros(values.size, np.bool_)
    k, nobody, draw = i64(0), i64(0), i64(0)
    for i in range(values.size):
        t, value = start + i, values[i]
        own = keys[i] if keys.size else 0.0
        advance(small, wide, real, k, scorer, t, window)
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
