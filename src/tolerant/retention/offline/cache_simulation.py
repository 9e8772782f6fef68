"""Simulates lookups of a recorded stream in a table that does not fit: which `memory` values to keep
(`docs/design/retention.md` §2.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import key_of
from tolerant.retention.live_cache import Lookups
from tolerant.retention.models import Known, StreamModel
from tolerant.retention.offline.occurrences import next_time, so_far
from tolerant.retention.ranking import Ranking, at_random, by_key, new_held, ranking_of
from tolerant.retention.scorer_tables import is_static, scorer_of, static_chances
from tolerant.retention.store_replay import look_up
from tolerant.retention.store_tick import NO_WINDOW
from tolerant.retention.survival import Exponential, Inverse, Survival, check_survival, for_caching
from tolerant.retention.value_arrays import Flags, Floats, Integers, whole_number, whole_numbers

POLICIES = ("rand", "lru", "lfu", "heeb", "optimal")
"""The policies of `cache`."""

GRID = (0.5, 2.0, 8.0, 32.0, 128.0)
"""The α that `survival="tuned"` tries side by side (§5)."""

_NO_KEYS = np.zeros(0)

_FORGETS = 0.995
"""Decay per tick of a shadow store's hits."""


@dataclass(frozen=True)
class CacheRun:
    """hits: references that were held."""

    hits: int


def cache(
    references: ArrayLike,
    memory: int,
    policy: str = "heeb",
    *,
    model: StreamModel | None = None,
    survival: Survival | str | None = None,
    warmup: int = 0,
    seed: int = 0,
) -> CacheRun:
    """Count the references that find their value held, where `memory` values can be kept.

    policy: "rand", "lru", "lfu" (perfect: counts all the past), "heeb" (most likely to be referenced while it is likely
    to be kept), "optimal" (farthest next reference goes). model: of the references; None with "heeb": learned from
    them. survival: overrides how long "heeb" expects values to be kept; "tuned": several are tried side by side.
    Hits before tick `warmup` do not count.

    >>> cache([1, 2, 3, 1, 4, 2, 5, 1, 2, 3, 1, 5, 2, 1, 4], 3, "lru").hits
    4
    """
    values = whole_numbers("references", references)
    memory, warmup = whole_number("memory", memory, 0), whole_number("warmup", warmup, 0)
    if policy not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, got {policy!r}")
    if model is not None and not isinstance(model, StreamModel):
        raise ValueError(f"model must be a model of the references, got {model!r}")
    tuned = isinstance(survival, str)
    if tuned and survival != "tuned":
        raise ValueError(f"survival must be a survival function or 'tuned', got {survival!r}")
    if survival is not None and not tuned:
        check_survival(survival, joining=False)
    if policy != "heeb":
        return CacheRun(_count(_by_rule(values, memory, policy, seed), warmup))
    if model is None:
        if tuned:
            raise ValueError(
                "survival 'tuned' needs a model: without one, what is learned decides; fit(values) makes one"
            )
        assert not isinstance(survival, str)
        span = (int(values.min()), int(values.max())) if len(values) else None
        return CacheRun(_count(Lookups(memory, survival, span=span).take(values), warmup))
    if tuned:
        return CacheRun(_count(_tuned(values, memory, model), warmup))
    assert not isinstance(survival, str)
    return CacheRun(_count(by_model(values, memory, model, survival or for_caching(model, memory)), warmup))


def _count(hits: Flags, warmup: int) -> int:
    return int(np.count_nonzero(hits[warmup:]))


def _by_rule(values: Integers, memory: int, policy: str, seed: int) -> Flags:
    if policy == "rand":
        return replay(values, memory, at_random(), np.zeros(0), seed=seed)
    if policy == "lru":
        keys = np.arange(len(values), dtype=np.float64)
    else:
        keys = (so_far(values) if policy == "lfu" else -next_time(values)).astype(np.float64)
    return replay(values, memory, by_key(None), keys)


def by_model(values: Integers, memory: int, model: StreamModel, survival: Survival) -> Flags:
    """Return which references hit when values are kept by their expected benefit, bool[ticks]."""
    if isinstance(model, Known) and isinstance(survival, (Exponential, Inverse)):
        # L falls strictly with the next reference's tick; comparing ticks avoids underflow.
        return replay(values, memory, by_key(None), _known_keys(model, values))
    if is_static(model):
        return replay(values, memory, by_key(None), static_chances(model, values))
    return replay(values, memory, _ranking(values, model, [survival]), _NO_KEYS)


def _known_keys(model: Known, values: Integers) -> Floats:
    """Return −(the next tick at which the model has the value), for each tick."""
    n = len(values)
    known = model.values[:n] if len(model.values) >= n else model.values
    if np.array_equal(known, values) and len(model.values) == n:
        return -next_time(values).astype(np.float64)
    _, codes = np.unique(np.concatenate([model.values, values]), return_inverse=True)
    m = max(len(model.values), n) + 1
    theirs = codes[: len(model.values)].astype(np.int64)
    ranked = np.sort(theirs * m + np.arange(len(theirs)))
    wanted = codes[len(theirs) :].astype(np.int64)
    place = np.searchsorted(ranked, wanted * m + np.arange(n), side="right")
    following = np.append(ranked, 2**62)[place]
    return -np.where(following // m == wanted, following % m, 2**62).astype(np.float64)


def _ranking(values: Integers, model: StreamModel, survivals: Sequence[Survival]) -> Ranking:
    span = (int(values.min()), int(values.max())) if len(values) else None
    return ranking_of(model, scorer_of(model, survivals, cached=True, span=span), None)


def _tuned(values: Integers, memory: int, model: StreamModel) -> Flags:
    """Return the hits with shadow stores for a grid of α; at each tick the one with most recent hits decides."""
    if is_static(model) or isinstance(model, Known):
        return by_model(values, memory, model, Exponential(1.0))  # the order is the same for every α
    n = len(values)
    survivals = [Exponential(alpha) for alpha in GRID]
    ranking = _ranking(values, model, survivals)
    shadows = [replay(values, memory, ranking, _NO_KEYS, np.full(n, k)) for k in range(len(GRID))]
    return replay(values, memory, ranking, _NO_KEYS, _leaders(np.array(shadows)))


@compiled
def _leaders(hits: Flags) -> Integers:
    """Return the store with most decayed hits up to each tick; of equal ones the first."""
    scores = np.zeros(hits.shape[0])
    leaders = np.zeros(hits.shape[1], np.int64)
    for t in range(hits.shape[1]):
        for k in range(hits.shape[0]):
            scores[k] = _FORGETS * scores[k] + hits[k, t]
            if scores[k] > scores[leaders[t]]:
                leaders[t] = k
    return leaders


def replay(
    values: Integers, memory: int, ranking: Ranking, keys: Floats, layers: Integers | None = None, seed: int = 0
) -> Flags:
    """Return which references hit, bool[ticks]. keys: the score of each tick's value from then on, where rows carry
    scores.
    """
    cached = new_held((ranking, at_random()), memory + 1, memory + 1, None)
    if layers is None:
        layers = np.zeros(len(values), np.int64)
    return look_up(0, values, keys, cached, ranking.scorer, layers, memory, ranking.random, key_of(seed), NO_WINDOW)
