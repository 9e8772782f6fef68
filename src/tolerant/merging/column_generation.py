"""Proves optimality for far more queries than dynamic programming can: column generation (`docs/design/merging.md`
§5.2).

Choosing groups that cover all units at least cost is a linear program with a column for every possible group, of which
only those that can help are generated: given the worth of each unit (the dual prices), the best group in a box is
known, and boxes need only have edges of units. When no box helps any more, the value of the program bounds the cost of
every plan from below; if the chosen groups are integral, they are the best plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.merging.best_boxes import best_boxes
from tolerant.merging.cost_model import CostModel
from tolerant.merging.sizes import measure

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROUNDS = 150
EXACT = 1e-9
"""Relative difference below which two costs are equal."""


@dataclass(frozen=True)
class Proof:
    """`lower`: no plan has a smaller Σ c(M). `upper`: Σ c(M) of `groups`, the best plan known."""

    lower: float
    upper: float
    groups: tuple[Integers, ...]

    @property
    def closed(self) -> bool:
        """Whether the plan is proved to be the best."""
        return self.upper - self.lower <= EXACT * abs(self.upper)


def prove(units: Floats, model: CostModel, known: Iterable[Integers]) -> Proof:
    """Return bounds for units float[n, 6] (box, queries, size); `known`: labels of plans to start from."""
    columns = _Columns(units, model)
    columns.add([np.array([u]) for u in range(len(units))])
    for labels in known:
        columns.add([np.flatnonzero(labels == label) for label in np.unique(labels)])
    lower, averaged = 0.0, None
    for _ in range(ROUNDS):
        value, worth, chosen = columns.solved()
        averaged = worth if averaged is None else 0.5 * (averaged + worth)
        # Averaged prices oscillate less; the exact ones decide at the end.
        added, none_help = columns.price(averaged)
        if added:
            continue
        if none_help:  # known groups may help at averaged prices, which are no bound then
            lower = max(lower, float(averaged.sum()))
        averaged = worth
        if lower >= value * (1 - EXACT) or not columns.price(worth)[0]:
            return columns.proof(max(lower, value * (1 - EXACT / 10)), chosen)
    _, worth, chosen = columns.solved()
    return columns.proof(max(lower, columns.bound(worth)), chosen)


class _Columns:
    """The groups generated so far, and the linear program over them."""

    def __init__(self, units: Floats, model: CostModel) -> None:
        self._units, self._model = units, model
        self._groups: dict[bytes, Integers] = {}
        self._prices: list[float] = []

    def add(self, groups: Iterable[Integers]) -> int:
        """Add groups; returns how many were new."""
        before = len(self._groups)
        for group in groups:
            key = group.tobytes()
            if key not in self._groups:
                self._groups[key] = group
                self._prices.append(self._price(group))
        return len(self._groups) - before

    def solved(self) -> tuple[float, Floats, Floats]:
        """Return the value of the program, the worth of each unit, and the share of each group that is chosen."""
        from scipy.optimize import linprog  # slow to import, and only proofs need it

        prices = np.array(self._prices)
        solution = linprog(prices, A_ub=-self._matrix(), b_ub=-np.ones(len(self._units)), method="highs-ds")
        return float(solution.fun), np.maximum(-solution.ineqlin.marginals, 0.0), solution.x

    def price(self, worth: Floats) -> tuple[bool, bool]:
        """Add the groups that help most at these worths; returns whether any was new, and whether no group helps at
        all.
        """
        values, boxes = best_boxes(self._units, worth, self._model)
        return self.add(self._inside(box, worth) for box in boxes) > 0, not len(values)

    def bound(self, worth: Floats) -> float:
        """Return a lower bound although some boxes still help: scale the worths down until none does."""
        values, _ = best_boxes(self._units, worth, self._model)
        least = self._model.channel + self._model.transfer * float(self._units[:, 5].min())
        if not len(values):
            return float(worth.sum())
        return float(worth.sum() / (1.0 + values.max() / least)) if least > 0 else 0.0

    def proof(self, lower: float, chosen: Floats) -> Proof:
        """Return the proof, with the best plan that can be made of the known groups."""
        groups, prices = list(self._groups.values()), np.array(self._prices)
        if not np.all((chosen < 1e-7) | (chosen > 1 - 1e-7)):
            from scipy.optimize import Bounds, LinearConstraint, milp

            whole = milp(
                prices,
                constraints=LinearConstraint(self._matrix(), lb=1),
                integrality=np.ones(len(prices)),
                bounds=Bounds(0, 1),
                options={"time_limit": 60.0},
            )
            alone = np.arange(len(prices)) < len(self._units)
            chosen = alone.astype(np.float64) if whole.x is None else whole.x
        plan = _partition([groups[k] for k in np.flatnonzero(chosen > 0.5)], len(self._units))
        upper = sum(self._price(group) for group in plan)
        return Proof(min(lower, upper), upper, plan)

    def _inside(self, box: Floats, worth: Floats) -> Integers:
        """The units in a box that are worth more than receiving it costs."""
        units = self._units
        inside = ((units[:, :2] >= box[:2]) & (units[:, 2:4] <= box[2:4])).all(axis=1)
        return np.flatnonzero(inside & (worth > self._model.waste * box[4] * units[:, 4]))

    def _price(self, group: Integers) -> float:
        units, model = self._units[group], self._model
        low, high = units[:, :2].min(axis=0), units[:, 2:4].max(axis=0)
        size = measure(float(low[0]), float(low[1]), float(high[0]), float(high[1]), model.table)
        return float(model.channel + (model.transfer + model.waste * units[:, 4].sum()) * size)

    def _matrix(self) -> csr_matrix:
        from scipy.sparse import csr_matrix

        groups = list(self._groups.values())
        lengths = np.array([len(group) for group in groups])
        rows, columns = np.concatenate(groups), np.repeat(np.arange(len(groups)), lengths)
        return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(self._units), len(groups)))


def _partition(groups: list[Integers], n: int) -> tuple[Integers, ...]:
    """Make a partition of groups that cover every unit: each unit stays in its first group only, which never costs
    more.
    """
    taken, parts = np.zeros(n, np.bool_), []
    for group in groups:
        rest = group[~taken[group]]
        taken[rest] = True
        if len(rest):
            parts.append(rest)
    return tuple(parts)
