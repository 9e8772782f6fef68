"""Simulates the join of two recorded streams with memory for `memory` rows (`docs/design/retention.md` §2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.random import key_of
from tolerant.retention.models import Stationary, StreamModel
from tolerant.retention.offline.flow_expect import flow_expect
from tolerant.retention.offline.learned_join import learned_join
from tolerant.retention.offline.occurrences import in_partner, so_far
from tolerant.retention.offline.optimal_join import best_join
from tolerant.retention.offline.trend_loop import play_drifting, track_of
from tolerant.retention.policies import check_models, check_policy, ranking
from tolerant.retention.ranking import Ranking, new_held
from tolerant.retention.scorer_tables import static_chances
from tolerant.retention.store_replay import play
from tolerant.retention.store_tick import NO_WINDOW
from tolerant.retention.survival import Survival, check_survival, for_joining
from tolerant.retention.value_arrays import Floats, Integers, whole_number, whole_numbers

POLICIES = ("rand", "prob", "life", "heeb", "flow-expect", "optimal")
"""The policies of `join`."""


@dataclass(frozen=True)
class JoinRun:
    """results: pairs found. share_r: rows of r among all held, over ticks and rows; NaN if nothing was held."""

    results: int
    share_r: float


def join(  # noqa: PLR0913
    r: ArrayLike,
    s: ArrayLike,
    memory: int,
    policy: str = "heeb",
    *,
    models: tuple[StreamModel, StreamModel] | None = None,
    survival: Survival | None = None,
    window: int | None = None,
    warmup: int = 0,
    lookahead: int = 5,
    seed: int = 0,
) -> JoinRun:
    """Count the results of joining `r` and `s`, one row of each per tick, where `memory` rows can be kept.

    policy: "rand", "prob" (most frequent partner first), "life" (that times the remaining life; needs a window), "heeb"
    (most expected results while it is likely to be kept), "flow-expect" (best fixed plan over `lookahead` ticks),
    "optimal" (everything is known). models: of r, of s; None with "heeb": learned from the rows.
    survival: overrides how long "heeb" expects rows to be kept. window: ticks after its own at which a row can join.
    Results before tick `warmup` do not count. A pair that arrives together never counts: it needs no memory.

    >>> from tolerant.retention import Stationary
    >>> often = Stationary({1: 0.5, 2: 0.3, 3: 0.2})
    >>> join([1, 2, 1, 3, 2, 1, 2, 3], [2, 1, 1, 2, 3, 2, 1, 1], 2, models=(often, often))
    JoinRun(results=8, share_r=0.5)
    """
    task = _checked(r, s, memory, policy, models, survival, window, warmup, lookahead)
    if policy == "optimal":
        return JoinRun(*best_join(task.r, task.s, task.memory, window, task.warmup))
    if policy == "flow-expect":
        assert models is not None
        return JoinRun(*flow_expect(task.r, task.s, task.memory, models, window, task.warmup, lookahead))
    if policy == "heeb" and models is None:
        return JoinRun(*learned_join(task.r, task.s, task.memory, survival, window, task.warmup, seed))
    return _simulated(task, policy, models, survival, seed)


@dataclass(frozen=True, eq=False)
class _Task:
    r: Integers
    s: Integers
    memory: int
    window: int | None
    warmup: int


def _checked(  # noqa: PLR0913
    r: ArrayLike,
    s: ArrayLike,
    memory: int,
    policy: str,
    models: tuple[StreamModel, StreamModel] | None,
    survival: Survival | None,
    window: int | None,
    warmup: int,
    lookahead: int,
) -> _Task:
    left, right = whole_numbers("r", r), whole_numbers("s", s)
    if len(left) != len(right):
        raise ValueError(f"r and s must have one row each a tick, got {len(left)} and {len(right)}")
    check_policy(policy, POLICIES)
    check_models(models)
    if policy == "flow-expect" and models is None:
        raise ValueError("models must be given for flow-expect, as (of r, of s), got None; fit(values) makes them")
    if window is not None:
        window = whole_number("window", window, 0)
    elif policy == "life":
        raise ValueError("window must be given for policy 'life': it ranks by remaining life, got None")
    if survival is not None:
        check_survival(survival, joining=True)
    whole_number("lookahead", lookahead, 1)
    return _Task(left, right, whole_number("memory", memory, 0), window, whole_number("warmup", warmup, 0))


def _simulated(
    task: _Task, policy: str, models: tuple[StreamModel, StreamModel] | None, survival: Survival | None, seed: int
) -> JoinRun:
    partners = (None, None) if models is None else (models[1], models[0])
    if models is not None and survival is None:
        survival = for_joining(models, task.memory)
    rankings = [ranking(policy, partner, survival, task.window, _span(task)) for partner in partners]
    streams = (task.r, task.s)
    if models is not None:
        first = track_of(rankings[0], models[1], task.r, task.s, task.memory)
        second = track_of(rankings[1], models[0], task.s, task.r, task.memory)
        if first is not None and second is not None:
            return _run(play_drifting((first, second), task.memory, task.warmup))
    keys = [_keys(policy, rankings[k], partners[k], streams[k], streams[1 - k]) for k in (0, 1)]
    kept = new_held((rankings[0], rankings[1]), task.memory + 2, task.memory + 2, task.window)
    tally = np.zeros(3, np.int64)
    play(
        0, task.r, task.s, keys[0], keys[1], kept, (rankings[0].scorer, rankings[1].scorer), np.ones(2), task.memory,
        NO_WINDOW if task.window is None else task.window, task.warmup, policy == "rand", key_of(seed), tally,
    )  # fmt: skip
    return _run(tally)


def _run(tally: Integers) -> JoinRun:
    return JoinRun(int(tally[0]), float(tally[1] / tally[2]) if tally[2] else float("nan"))


def _span(task: _Task) -> tuple[int, int] | None:
    if not len(task.r):
        return None
    return min(int(task.r.min()), int(task.s.min())), max(int(task.r.max()), int(task.s.max()))


def _keys(policy: str, ranked: Ranking, partner: StreamModel | None, own: Integers, other: Integers) -> Floats:
    """Return scores of new rows and, if they change, of held rows whose value occurred in the other stream.

    float64[1 or 2, ticks], or [0, 0] where rows carry none.
    """
    if not ranked.keyed:
        return np.zeros((0, 0))
    if partner is not None and (isinstance(partner, Stationary) or policy == "heeb"):
        return static_chances(partner, own)[None] * ranked.factor
    return np.stack([in_partner(own, other), so_far(other)]).astype(np.float64)
