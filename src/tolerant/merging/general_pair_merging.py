"""Pair Merging without an index, for any size and procedure; NumPy, one row of gains at a time.

Each group remembers its best partner behind it; after a merger the new group's row is evaluated, and the rows whose
best partner vanished. O(n) memory, about n² evaluations.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.merging.pricing import Pricing
from tolerant.merging.sizes import measured

LARGEST_REGIONS = 2000
"""Largest number of units for `union` and `pieces`: every pair may have to be cut."""


class MergeableGroups(Protocol):
    """Groups numbered 0 … n − 1, of which two are merged at a time."""

    def gains(self, a: int, others: Integers) -> Floats:
        """Return the gain of merging group a with each of the others, float[k]; −inf where it is not allowed."""

    def merge(self, a: int, b: int) -> None:
        """Move the members of b to group a."""


class BoxGroups:
    """Groups as boxes, one for each kind of tick; any size."""

    def __init__(self, pricing: Pricing, largest: float = np.inf) -> None:
        units, self._pricing, self._largest = pricing.units, pricing, largest
        self._half = units.boxes.shape[1] // 2
        self._due = pricing.due.members
        self._boxes = []
        self._counts = []
        for due in self._due:  # a unit that is not due has the empty box, from +inf to −inf
            boxes = units.boxes.copy()
            boxes[~due, : self._half], boxes[~due, self._half :] = np.inf, -np.inf
            self._boxes.append(boxes)
            self._counts.append(np.where(due, units.counts, 0.0))
        self._sizes = [self._measured(boxes) for boxes in self._boxes]
        self._answers = [self._answered(boxes) for boxes in self._boxes]

    def gains(self, a: int, others: Integers) -> Floats:
        """Implement `MergeableGroups.gains` with the formula of [CBGM] §6.2, summed over the kinds of tick."""
        costs = self._pricing.costs
        total = np.zeros(len(others))
        forbidden = np.zeros(len(others), np.bool_)
        for t, weight in enumerate(self._pricing.due.weights):
            joint = self._joint(t, a, others)
            size, p, r = self._measured(joint), self._counts[t][a], self._counts[t][others]
            size_a, size_b = self._sizes[t][a], self._sizes[t][others]
            both: Floats | float = 1.0 if len(self._boxes) == 1 else ((p > 0) & (r > 0)).astype(np.float64)
            gained = (
                costs.channel * both
                + costs.transfer * (size_a + size_b - size)
                + costs.waste * (p * size_a + r * size_b - (p + r) * size)
            )
            if costs.answer is not None:
                gained = gained + self._answers[t][a] + self._answers[t][others] - self._answered(joint)
            total = gained if weight == 1.0 else total + weight * gained
            if np.isfinite(self._largest):
                forbidden |= size > self._largest
        return np.where(forbidden, -np.inf, total) if forbidden.any() else total

    def merge(self, a: int, b: int) -> None:
        """Implement `MergeableGroups.merge`."""
        for t in range(len(self._boxes)):
            self._boxes[t][a] = self._joint(t, a, np.array([b]))[0]
            self._counts[t][a] += self._counts[t][b]
            self._sizes[t][a] = self._measured(self._boxes[t][a : a + 1])[0]
            self._answers[t][a] = self._answered(self._boxes[t][a : a + 1])[0]

    def _joint(self, t: int, a: int, others: Integers) -> Floats:
        boxes, half = self._boxes[t], self._half
        joint = np.empty((len(others), 2 * half))
        np.minimum(boxes[others, :half], boxes[a, :half], out=joint[:, :half])
        np.maximum(boxes[others, half:], boxes[a, half:], out=joint[:, half:])
        return joint

    def _measured(self, boxes: Floats) -> Floats:
        if len(self._boxes) <= 1 and self._due.all():
            return measured(self._pricing.size, boxes)
        return self._where_some(boxes, lambda some: measured(self._pricing.size, some))

    def _answered(self, boxes: Floats) -> Floats:
        if self._pricing.costs.answer is None:
            return np.zeros(len(boxes))
        return self._where_some(boxes, self._pricing.answered)

    def _where_some(self, boxes: Floats, function: object) -> Floats:
        values = np.zeros(len(boxes))
        some = boxes[:, 0] <= boxes[:, self._half]
        values[some] = function(boxes[some])  # type: ignore[operator]
        return values


class UnitGroups:
    """Groups as lists of units, priced as such: for `union` and `pieces`, where boxes are not sufficient."""

    def __init__(self, pricing: Pricing, largest: float = np.inf) -> None:
        n = len(pricing.units)
        if n > LARGEST_REGIONS:
            raise ValueError(
                f"procedure {pricing.procedure!r} takes at most {LARGEST_REGIONS} distinct rectangles, got {n}"
            )
        if np.isfinite(largest):
            raise ValueError("max_size goes with procedure 'box' only")
        self._pricing = pricing
        self._members = [np.array([unit]) for unit in range(n)]
        self._prices = pricing.of(self._members)
        self._boxes = pricing.units.boxes.copy()
        self._counts = pricing.units.counts.copy()
        self._sizes = measured(pricing.size, self._boxes) if n else np.zeros(0)
        # Groups that do not meet need not be cut, unless they are not always due, or server work is not linear.
        self._simple = pricing.due.always and pricing.costs.answer is None

    def gains(self, a: int, others: Integers) -> Floats:
        """Implement `MergeableGroups.gains`."""
        if not self._simple:
            return self._cut(a, others)
        half = self._boxes.shape[1] // 2
        met = (self._boxes[others, :half] <= self._boxes[a, half:]) & (
            self._boxes[others, half:] >= self._boxes[a, :half]
        )
        near = np.all(met, axis=1)
        gained = self._apart(a, others)
        if near.any():
            gained[near] = self._cut(a, others[near])
        return gained

    def merge(self, a: int, b: int) -> None:
        """Implement `MergeableGroups.merge`."""
        half = self._boxes.shape[1] // 2
        self._members[a] = np.concatenate([self._members[a], self._members[b]])
        whole = np.array([0, len(self._members[a])])
        self._prices[a] = self._pricing.of_rows(whole, self._members[a])[0]
        self._sizes[a] = self._pricing.shape(whole, self._members[a]).sizes[0]
        self._counts[a] += self._counts[b]
        self._boxes[a, :half] = np.minimum(self._boxes[a, :half], self._boxes[b, :half])
        self._boxes[a, half:] = np.maximum(self._boxes[a, half:], self._boxes[b, half:])

    def _apart(self, a: int, others: Integers) -> Floats:
        """The gains with groups that do not meet a: 0 with `pieces` (`docs/design/merging.md` §2.3)."""
        if self._pricing.procedure == "pieces":
            return np.zeros(len(others))
        received = self._counts[a] * self._sizes[others] + self._counts[others] * self._sizes[a]
        return self._pricing.costs.channel - self._pricing.costs.waste * received

    def _cut(self, a: int, others: Integers) -> Floats:
        joint = [np.concatenate([self._members[a], self._members[b]]) for b in others.tolist()]
        return self._prices[a] + self._prices[others] - self._pricing.of(joint)


def mergeable_groups(pricing: Pricing, largest: float = np.inf) -> MergeableGroups:
    """Return the groups of single units for the procedure of this pricing."""
    return BoxGroups(pricing, largest) if pricing.procedure == "box" else UnitGroups(pricing, largest)


def general_pairs(groups: MergeableGroups, n: int, fewest: int | None = None) -> tuple[Integers, int]:
    """Return a group label for each of n units and the number of evaluations; the groups are those of `pairs`.

    `fewest`: continue at a loss, the least first, until this many groups are left.
    """
    labels, alive = np.arange(n), np.ones(n, np.bool_)
    best, partner = np.full(n, -np.inf), np.full(n, -1, np.int64)
    evaluated = sum(_look(groups, alive, best, partner, a) for a in range(n))
    left = n
    while left > 1:
        a = int(np.argmax(best))  # of equal gains the group with the smallest first member
        if best[a] == -np.inf or (best[a] <= 0 and (fewest is None or left <= fewest)):
            break
        b = int(partner[a])
        groups.merge(a, b)
        labels[labels == b] = a
        alive[b] = False
        best[b] = -np.inf
        left -= 1
        lost = np.flatnonzero(alive & ((partner == a) | (partner == b)))
        evaluated += _look_around(groups, alive, best, partner, a)
        evaluated += sum(_look(groups, alive, best, partner, other) for other in lost.tolist() if other != a)
    return labels, evaluated


def _look(groups: MergeableGroups, alive: np.ndarray, best: Floats, partner: Integers, a: int) -> int:
    """Find a's best partner among the groups behind it."""
    others = a + 1 + np.flatnonzero(alive[a + 1 :])
    best[a], partner[a] = -np.inf, -1
    if len(others):
        gained = groups.gains(a, others)
        top = int(np.argmax(gained))
        best[a], partner[a] = gained[top], others[top]
    return len(others)


def _look_around(groups: MergeableGroups, alive: np.ndarray, best: Floats, partner: Integers, a: int) -> int:
    """Evaluate a changed group against all others: its best partner behind it, and whether it is the best partner of
    others.
    """
    others = np.flatnonzero(alive)
    others = others[others != a]
    best[a], partner[a] = -np.inf, -1
    if len(others) == 0:
        return 0
    gained = groups.gains(a, others)
    behind = others > a
    if behind.any():
        top = int(np.argmax(np.where(behind, gained, -np.inf)))
        best[a], partner[a] = gained[top], others[top]
    for k in np.flatnonzero(~behind & (gained >= best[others])).tolist():
        other = others[k]
        if gained[k] > best[other] or a < partner[other]:
            best[other], partner[other] = gained[k], a
    return len(others)
