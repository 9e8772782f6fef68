"""Subscriptions with different frequencies: which are due together, and how often (`docs/design/merging.md` §2.10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Flags, Floats, Integers

LONGEST = 10_000
"""Largest number of ticks after which the pattern must repeat."""


@dataclass(frozen=True)
class DueTicks:
    """The kinds of tick: `weights` float[t], the share of ticks of each kind; `members` bool[t, k], the units
    due then.
    """

    weights: Floats
    members: Flags

    @property
    def always(self) -> bool:
        """Whether all units are due at every tick."""
        return len(self.weights) == 1 and bool(self.members.all()) and self.weights[0] == 1.0

    def shares(self) -> Floats:
        """Return the share of ticks at which each unit is due, float[k]."""
        shares: Floats = self.weights @ self.members.astype(np.float64)
        return shares


def as_periods(value: ArrayLike, queries: int) -> Integers:
    """Return a period of at least 1 per query, int64[n].

    Raises:
        ValueError: a period is not a whole number from 1 on, or the periods repeat together only after more than
            `LONGEST` ticks.
    """
    given = np.asarray(value)
    if given.shape != (queries,):
        raise ValueError(f"periods must be int[{queries}], one per query, got shape {given.shape}")
    if queries == 0:
        return np.zeros(0, np.int64)
    if not np.issubdtype(given.dtype, np.number):
        raise ValueError(f"periods must be numbers, got {given.dtype}")
    wrong = given[~((given >= 1) & (given == np.floor(given)))]
    if len(wrong):
        raise ValueError(f"periods must be whole numbers of at least 1, got {wrong[0]}")
    periods = given.astype(np.int64)
    distinct = np.unique(periods).tolist()
    if math.lcm(*distinct) > LONGEST:
        odd = _worst(distinct)
        raise ValueError(
            f"periods repeat together only after {math.lcm(*distinct)} ticks, more than {LONGEST}: round {odd} to a "
            "multiple or divisor of the others"
        )
    return periods


def due_of(periods: Integers) -> DueTicks:
    """Return the kinds of tick of these periods; at tick t those whose period divides t are due."""
    if len(periods) == 0:
        return DueTicks(np.ones(1), np.ones((1, 0), np.bool_))
    distinct, of = np.unique(periods, return_inverse=True)
    ticks = np.arange(math.lcm(*distinct.tolist()))
    patterns, times = np.unique(ticks[:, None] % distinct[None, :] == 0, axis=0, return_counts=True)
    some = patterns.any(axis=1)
    return DueTicks(times[some] / len(ticks), patterns[some][:, of])


def _worst(distinct: list[int]) -> int:
    """The period without which the others repeat soonest."""
    rests = {p: math.lcm(*(q for q in distinct if q != p)) for p in distinct}
    return min(rests, key=lambda p: (rests[p], -p))
