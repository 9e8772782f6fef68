"""Directed Search over groups as tuples of units, for any pricing: in Python, for tens of units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tolerant.kernels.array_types import Integers
from tolerant.kernels.random import bits
from tolerant.merging.compiled_descent import TINY
from tolerant.merging.pricing import Pricing

Group: TypeAlias = tuple[int, ...]
Move: TypeAlias = tuple[list[Group], list[Group]]


def random_partition(n: int, key: np.uint64, turn: int) -> Integers:
    """Return a random partition of n units, as labels: k groups, k uniform from 1 to n, a uniform group for
    each unit.
    """
    words = bits(key, np.arange(turn * (n + 1), (turn + 1) * (n + 1)))
    return (words[1:] % (np.uint64(1) + words[0] % np.uint64(n))).astype(np.int64)


def grouped(labels: Integers) -> list[Group]:
    """Return the units of each label."""
    return [tuple(np.flatnonzero(labels == label).tolist()) for label in np.unique(labels)]


def search_lists(
    pricing: Pricing, begin: Integers, *, whole: bool, tries: int, key: np.uint64
) -> tuple[Integers, float, int]:
    """Search as `tolerant.merging.compiled_descent.search`; returns labels, Σ c(M), and the number of groups priced."""
    n, descent = len(pricing.units), _Descent(pricing)
    starts = [begin]
    if whole:
        starts.append(np.zeros(n, np.int64))
    starts += [random_partition(n, key, turn) for turn in range(2, 2 + tries)]
    best, least = descent.descend(grouped(starts[0]))
    for start in starts[1:]:
        groups, cost = descent.descend(grouped(start))
        if cost < least - TINY * abs(least):
            best, least = groups, cost
    labels = np.empty(n, np.int64)
    for number, group in enumerate(best):
        labels[list(group)] = number
    return labels, least, len(descent.prices)


class _Descent:
    """Steepest descent; the price of a group is computed once."""

    def __init__(self, pricing: Pricing) -> None:
        self._pricing = pricing
        self.prices: dict[Group, float] = {}

    def descend(self, groups: Sequence[Group]) -> tuple[list[Group], float]:
        """Return the groups at the end, and Σ c(M)."""
        current = sorted(groups)
        while True:
            moves = [*_merges(current), *_splits(current)]
            self._price([group for _, new in moves for group in new] + current)
            cost = self._sum(current)
            gains = [self._sum(old) - self._sum(new) for old, new in moves]
            if not gains or not max(gains) > TINY * cost:
                return current, cost
            old, new = moves[int(np.argmax(gains))]
            current = sorted([group for group in current if group not in old] + new)

    def _sum(self, groups: list[Group]) -> float:
        return sum(self.prices[group] for group in groups)

    def _price(self, groups: list[Group]) -> None:
        new = [group for group in dict.fromkeys(groups) if group not in self.prices]
        if new:
            self.prices.update(zip(new, self._pricing.of(new).tolist(), strict=True))


def _merges(groups: list[Group]) -> list[Move]:
    return [([a, b], [tuple(sorted(a + b))]) for i, a in enumerate(groups) for b in groups[i + 1 :]]


def _splits(groups: list[Group]) -> list[Move]:
    return [
        ([group], [(unit,), tuple(other for other in group if other != unit)])
        for group in groups
        if len(group) > 1
        for unit in group
    ]
