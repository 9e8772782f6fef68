"""Estimates how many results memory for every row would have given, in constant memory."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import absorbed
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.retention.value_arrays import Integers, i64, whole_numbers

_SKETCHES = 7
_WIDTH = 1024
_OF_MEDIAN = math.sqrt(math.pi / 2.0 / _SKETCHES)  # its standard error, in that of one sketch


class ShareEstimate(NamedTuple):
    """A value and its standard error."""

    value: float
    error: float


class Possible(Restorable):
    """Counts the pairs of a row of r and a row of s with equal values among all rows seen, without keeping them.

    Each stream has sketches of its counts of values: a value adds ±1, pseudo-random but equal in both streams, to one
    of 1024 counters, so that the product of the two streams' counters is the number of pairs, plus noise. The median of
    seven has an error of about √(F·G)/70, where F and G are the sums of the squares of the values' counts (fast AGMS
    sketches; Cormode and Garofalakis 2005).

    >>> possible = Possible()
    >>> possible.observe(0, [7, 7, 8]), possible.observe(1, [7, 9])
    (None, None)
    >>> possible.estimate().value
    2.0
    """

    FIELDS = Fields("_counters")

    def __init__(self) -> None:
        self._counters = np.zeros((2, _SKETCHES, _WIDTH), np.int64)

    def observe(self, stream: int, values: Integers | list[int]) -> None:
        """Count rows of a stream (0: r, 1: s)."""
        _count(self._counters[stream], whole_numbers("values", values))

    def estimate(self) -> ShareEstimate:
        """Return the number of pairs so far."""
        r, s = self._counters.astype(np.float64)
        pairs = float(np.median((r * s).sum(axis=1)))
        squares = float(np.median((r * r).sum(axis=1))) * float(np.median((s * s).sum(axis=1)))
        return ShareEstimate(max(pairs, 0.0), _OF_MEDIAN * math.sqrt((squares + pairs * pairs) / _WIDTH))

    def share(self, results: int) -> ShareEstimate:
        """Return the share of `results` in the possible results; 1 if none are possible."""
        value, error = self.estimate()
        possible = max(value, float(results))
        if possible == 0.0:
            return ShareEstimate(1.0, 0.0)
        return ShareEstimate(results / possible, min(1.0, results / possible * error / possible))


@compiled
def _count(counters: Integers, values: Integers) -> None:
    for i in range(values.size):
        for j in range(counters.shape[0]):
            word = absorbed(np.uint64(j), np.uint64(values[i]))
            place = i64(word & np.uint64(counters.shape[1] - 1))
            counters[j, place] += 1 if word >> np.uint64(63) else -1
