"""Implements `join` without given models: they are learned from the rows (`docs/design/retention.md` §5)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.retention.learner import PERIOD
from tolerant.retention.ranked_rows import RankedRows
from tolerant.retention.store_replay import play
from tolerant.retention.store_tick import NO_WINDOW
from tolerant.retention.stream_beliefs import Beliefs
from tolerant.retention.survival import Survival
from tolerant.retention.value_arrays import Integers


def learned_join(
    r: Integers, s: Integers, memory: int, survival: Survival | None, window: int | None, warmup: int, seed: int
) -> tuple[int, float]:
    """Return the results that count, and the share of r among the rows held."""
    beliefs = Beliefs(memory, survival, window)
    store = RankedRows(beliefs.rankings(), memory + 2, memory + 2, window)
    tally = np.zeros(3, np.int64)
    limit = NO_WINDOW if window is None else window
    for start in range(0, len(r), PERIOD):
        ticks = np.arange(start, min(start + PERIOD, len(r)))
        rows = (r[ticks], s[ticks])
        rates = beliefs.scales(store.rankings)
        of_s, fresh_r = beliefs.learners[1].observe(ticks, rows[1], asked=rows[0])
        of_r, fresh_s = beliefs.learners[0].observe(ticks, rows[0], asked=rows[1])
        keys = [
            np.stack(pair)[:, :, beliefs.learners[1 - k].memory].copy() if store.rankings[k].keyed else np.zeros((0, 0))
            for k, pair in enumerate(((fresh_r, of_s), (fresh_s, of_r)))
        ]
        play(
            start, rows[0], rows[1], keys[0], keys[1], store.held, store.scorers, rates, memory, limit, warmup, False,
            key_of(seed), tally,
        )  # fmt: skip
        if beliefs.review():
            store.rank(beliefs.rankings(), beliefs.keys, int(ticks[-1]), memory + 2, memory + 2)
    return int(tally[0]), float(tally[1] / tally[2]) if tally[2] else float("nan")
