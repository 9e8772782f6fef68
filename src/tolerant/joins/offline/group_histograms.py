"""Histograms from stabbing partitions: in a group, f rises up to the common point and falls after it
(docs/design/joins.md §2.10).

So each side of a group is monotone, and its best step function of few steps is found exactly and fast ([DISS] Lemmas
13, 14).
"""

from __future__ import annotations

import numpy as np

from tolerant.joins.offline.segments import Segments, mean_on
from tolerant.joins.offline.step_functions import merged_cuts, next_layer, prefix_sums
from tolerant.joins.partition import canonical
from tolerant.kernels.array_types import Floats, Integers


class _Side:
    """One side of a group: a range of segments on which its f is monotone; it gets its steps one at a time."""

    def __init__(self, first: int, y: Floats, w: Floats) -> None:
        self.first = first
        self.sums = prefix_sums(y, w)
        self._layers: list[Integers] = []
        self._best = np.array([])
        self.cost = float(self.sums[-1, 2])  # without a step the side counts as 0
        self._next: tuple[float, Floats, Integers] | None = None

    def gain(self) -> float:
        """Return how much one more step would reduce the error."""
        if self._next is None:
            where = np.zeros(len(self.sums), np.int64)
            if not self._layers:
                weight = np.maximum(self.sums[:, 0], 1e-300)
                best = np.maximum(self.sums[:, 2] - self.sums[:, 1] ** 2 / weight, 0.0)
            else:
                best = next_layer(self.sums, self._best, where)
            self._next = (float(best[-1]), best, where)
        return self.cost - self._next[0]

    def add_step(self) -> None:
        """Add one more step."""
        self.gain()
        assert self._next is not None
        self.cost, self._best, where = self._next
        self._layers.append(where)
        self._next = None

    def cuts(self) -> list[int]:
        """Return where its steps begin and end, as numbers of segments."""
        if not self._layers:
            return []
        ends, at = [], len(self.sums) - 1
        for where in self._layers[::-1]:
            ends.append(self.first + at)
            if at == 0:
                break
            at = int(where[at])
        return [self.first, *ends[::-1]]


def ssi_cuts(parts: Segments, low: Floats, high: Floats, buckets: int) -> Integers:
    """Return where the buckets of the method "ssi" end, as numbers of segments."""
    sides = [
        _Side(first, y, parts.weight[first : first + len(y)]) for first, y in _sides(parts.edges, low, high) if len(y)
    ]
    for _ in range(2 * buckets):
        best = max(sides, key=_Side.gain)
        if best.gain() <= 0:
            break
        best.add_step()
    cuts = {cut for side in sides for cut in side.cuts()} - {0} | {len(parts.f)}
    sums = prefix_sums(parts.f, parts.weight)
    return merged_cuts(sums, np.array(sorted(cuts), np.int64), buckets)


def ssi_sum(parts: Segments, mass: Floats, low: Floats, high: Floats, buckets: int) -> Floats:
    """Return the SSI-HIST of [DISS]: the sum of the groups' own histograms, on each segment.

    Groups get steps in proportion to their sizes, found by iterated (Lloyd) k-means of the group's own values with
    weights ∫φ/y².
    """
    total = np.zeros(len(parts.f))
    groups = _groups(low, high)
    shares = _apportioned(np.array([len(group) for group in groups]), buckets)
    for group, steps in zip(groups, shares, strict=True):
        if not steps:
            continue
        sides = list(_sides(parts.edges, low[group], high[group]))
        if steps == 1:
            sides = [(sides[0][0], np.concatenate([sides[0][1], sides[1][1]]))]
        for (first, y), k in zip(sides, (steps - steps // 2, steps // 2), strict=False):
            if len(y):
                w = mass[first : first + len(y)] / np.maximum(y, 1e-9) ** 2
                total[first : first + len(y)] += _lloyd(y, np.where(y > 0, w, 0.0), k)
    return total


def _groups(low: Floats, high: Floats) -> list[Integers]:
    parts = canonical(low, high)
    return [parts.order[a:b] for a, b in zip(parts.starts[:-1], parts.starts[1:], strict=True)]


def _sides(edges: Floats, low: Floats, high: Floats) -> list[tuple[int, Floats]]:
    """Return both sides of every group: the first segment and the f of the group from there on."""
    sides = []
    for group in _groups(low, high):
        first = int(np.searchsorted(edges, low[group].min(), "right")) - 1
        last = int(np.searchsorted(edges, high[group].max(), "left"))
        middle = int(np.clip(np.searchsorted(edges, low[group].max()), first, last))
        y = mean_on(edges[first : last + 1], low[group], high[group]) if last > first else np.zeros(0)
        sides += [(first, y[: middle - first]), (middle, y[middle - first :])]
    return sides


def _apportioned(sizes: Integers, buckets: int) -> list[int]:
    """Distribute buckets in proportion to sizes, by largest remainders."""
    quota = sizes * buckets / sizes.sum()
    given = np.floor(quota).astype(np.int64)
    order = np.argsort(given - quota, kind="stable")
    given[order[: buckets - int(given.sum())]] += 1
    return [int(count) for count in given]


def _lloyd(y: Floats, w: Floats, k: int, rounds: int = 50) -> Floats:
    """Weighted k-means of monotone values, starting from quantiles; returns the centre of each value."""
    centres = np.unique(np.quantile(y, (np.arange(k) + 0.5) / k))
    for _ in range(rounds):
        label = np.searchsorted((centres[1:] + centres[:-1]) / 2, y)
        weight = np.bincount(label, w, len(centres))
        moved = np.where(weight > 0, np.bincount(label, w * y, len(centres)) / np.maximum(weight, 1e-300), centres)
        if np.array_equal(moved, centres):
            break
        centres = np.sort(moved)
    return centres[np.searchsorted((centres[1:] + centres[:-1]) / 2, y)]
