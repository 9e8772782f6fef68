"""Defines how the rows of one stream are ranked, and allocates the arrays for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tolerant.retention.held_rows import (
    DEAD_BELOW,
    FIRST_ORDER,
    FREE,
    HEADER,
    IDS,
    KEYED,
    LISTS,
    MASK,
    NEWEST,
    NUMBERS,
    OLDEST,
    ROOM,
    ROW_FREE,
    SECOND_ORDER,
    SHRINKS,
    SIGN,
    SLOTS,
    SPAN,
    STREAM,
    TABLE,
    TREES,
    HeldRows,
)
from tolerant.retention.models import StreamModel, Trend
from tolerant.retention.scorer import LINE, OFFSETS, Scorer
from tolerant.retention.scorer_tables import is_static, keys_only, scorer_of
from tolerant.retention.survival import FIXED, Exponential, Fixed, Survival, weights_of
from tolerant.retention.tournament_trees import BY_KEY, BY_WORTH, HIGHEST, LOWEST, NEVER, NO_ORDER
from tolerant.retention.value_arrays import Floats

_FEWEST = 2
_SATURATED = 40.0
"""An exponential's sum does not change any more after this many times α."""


@dataclass(frozen=True, eq=False)
class Ranking:
    """How rows of one stream are ranked. factor: what a probability is multiplied by to become a key."""

    scorer: Scorer
    orders: tuple[int, int] = (NO_ORDER, NO_ORDER)
    keyed: bool = False
    growth: Floats = field(default_factory=lambda: np.zeros(0))
    factor: float = 1.0
    line: tuple[float, float, float] | None = None
    random: bool = False


def at_random() -> Ranking:
    """Return the ranking of random order."""
    return Ranking(keys_only(), random=True)


def by_key(window: int | None, growing: bool = False) -> Ranking:
    """Return the ranking of rows that carry scores; growing: these are multiplied by the remaining life."""
    return Ranking(keys_only(), (BY_WORTH if growing and window is not None else BY_KEY, NO_ORDER), keyed=True)


def by_benefit(
    model: StreamModel, survival: Survival, window: int | None, span: tuple[int, int] | None = None
) -> Ranking:
    """Return the HEEB ranking of rows that are matched with a stream of this model."""
    if is_static(model):
        return static_ranking(survival, window)
    scorer = scorer_of(model, [survival], window=window, span=span)
    return ranking_of(model, scorer, window)


def static_ranking(survival: Survival, window: int | None) -> Ranking:
    """Return the ranking by constant probabilities that rows carry, times ΣL over the remaining life if there is a
    window.
    """
    if window is None:
        return Ranking(keys_only(), (BY_KEY, NO_ORDER), keyed=True, factor=_total(survival))
    steps = window
    if isinstance(survival, Exponential):
        steps = min(window, math.ceil(_SATURATED * survival.alpha) + 1)
    elif isinstance(survival, Fixed):
        steps = min(window, survival.steps)
    growth = np.concatenate([[0.0], np.cumsum(weights_of(survival, steps))])
    return Ranking(keys_only(), (BY_WORTH, NO_ORDER), keyed=True, growth=growth)


def _total(survival: Survival) -> float:
    if isinstance(survival, Exponential):
        return 1.0 / math.expm1(1.0 / survival.alpha)
    return float(survival.steps) if isinstance(survival, Fixed) else 1.0


def ranking_of(model: StreamModel, scorer: Scorer, window: int | None) -> Ranking:
    """Return the trees that go with a scorer."""
    fades = scorer.kind == OFFSETS or (scorer.kind == LINE and scorer.whole[1] != FIXED)
    if not isinstance(model, Trend) or not fades:
        # With a fixed survival a row that matches later scores as low as one that never matches again.
        ends = scorer.kind == OFFSETS and window is None and is_unimodal(scorer)
        return Ranking(scorer, (LOWEST, HIGHEST) if ends else (NO_ORDER, NO_ORDER))
    line = (model.slope, model.offset, float(scorer.whole[0]))
    ends = scorer.kind == OFFSETS and scorer.whole[7] == 1 and is_unimodal(scorer)
    return Ranking(scorer, (LOWEST, HIGHEST if ends else NO_ORDER), line=line)


def is_unimodal(scorer: Scorer) -> bool:
    """Return whether each layer of a table rises to a peak and falls, so that the worst row is at one end of the
    values.
    """
    length = int(scorer.whole[4])
    if not np.isfinite(scorer.table).all():
        return False
    for start in range(0, scorer.table.size, length):
        changes = np.diff(scorer.table[start : start + length])
        rising = changes > 0
        if (changes == 0).sum() > 1 or (np.diff(rising.astype(np.int8)) > 0).any():
            return False
    return True


def new_held(
    rankings: tuple[Ranking, Ranking], slots: int, rows: int, window: int | None, ids: bool = False
) -> HeldRows:
    """Return empty arrays with room for `slots` groups of each stream and `rows` rows of both."""
    slots = max(slots, _FEWEST)
    wide = np.zeros(HEADER, np.int64)
    wide[[FREE, STREAM + FREE, ROW_FREE, OLDEST, NEWEST]] = -1
    wide[SLOTS], wide[ROOM], wide[IDS] = slots, rows, int(ids)
    wide[MASK] = (1 << max(2, math.ceil(math.log2(slots / 0.75)))) - 1
    wide[TREES] = (
        2 if any(ranking_.orders[1] for ranking_ in rankings) else int(any(ranking_.orders[0] for ranking_ in rankings))
    )
    wide[TABLE] = slots if ids else 2 * slots
    wide[SPAN] = wide[TABLE] + wide[MASK] + 1 + 2 * slots * wide[TREES]
    wide[LISTS] = 4 if rankings[0].random else 3 if window is not None else 0
    wide[KEYED] = int(any(ranking_.keyed for ranking_ in rankings))
    wide[NUMBERS] = max(len(ranking_.line or ranking_.growth) for ranking_ in rankings)
    wide[SHRINKS] = int(any(ranking_.orders[0] == BY_WORTH for ranking_ in rankings))
    for k, ranking in enumerate(rankings):
        wide[STREAM * k + FIRST_ORDER], wide[STREAM * k + SECOND_ORDER] = ranking.orders
        if ranking.line is not None:
            wide[STREAM * k + SIGN] = 1 if ranking.line[0] > 0 else -1
            wide[STREAM * k + DEAD_BELOW] = -(2**62)
    until = np.full(4 * slots * int(wide[SHRINKS]), NEVER, np.int64)
    body = np.zeros(2 * slots + rows * (1 + int(ids)), np.int64)
    small = np.full(int(2 * wide[SPAN] + rows * (1 + wide[LISTS])), -1, np.int32)
    real = np.concatenate(
        [np.zeros(2 * slots * int(wide[KEYED])), *(_numbers(ranking_, int(wide[NUMBERS])) for ranking_ in rankings)]
    )
    return HeldRows(small, np.concatenate([wide, body, until]), real)


def _numbers(ranking: Ranking, size: int) -> Floats:
    given = np.array(ranking.line) if ranking.line is not None else ranking.growth
    return np.concatenate([given, np.full(size - len(given), given[-1] if len(given) else 0.0)])
