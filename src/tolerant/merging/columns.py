"""Proofs for far more queries than dynamic programming takes: column generation (`specs/4-merging.md` §5.2).

Choosing groups that cover all units at least cost is a linear program with a column for every possible group, of which
only those that can help are made: given what each unit is worth (the dual prices), the best group in a box is known,
and boxes need only have edges of units. When no box helps any more, the program's value bounds the cost of every plan
from below; if the chosen groups are whole, they are the best plan.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import csr_matrix

from tolerant.merging.arrays import Floats, Integers
from tolerant.merging.boxes import best_boxes
from tolerant.merging.model import Model
from tolerant.merging.sizes import measure

ROUNDS = 150
EXACT = 1e-9
"""Relative: what is closer than this is equal."""


@dataclass(frozen=True)
class Proof:
    """`lower`: no plan has a smaller Σ c(M). `upper`: that of `groups`, the best plan found."""

    lower: float
    upper: float
    groups: tuple[Integers, ...]

    @property
    def closed(self) -> bool:
        """Whether the plan is proved to be the best."""
        return self.upper - self.lower <= EXACT * abs(self.upper)


def prove(units: Floats, model: Model, known: Iterable[Integers]) -> Proof:
    """Bounds for units float[n, 6] (box, queries, size); `known`: labels of plans to begin with."""
    columns = _Columns(units, model)
    columns.add([np.array([u]) for u in range(len(units))])
    for labels in known:
        columns.add([np.flatnonzero(labels == label) for label in np.unique(labels)])
    lower, smooth = 0.0, None
    for _ in range(ROUNDS):
        value, worth, chosen = columns.solved()
        smooth = worth if smooth is None else 0.5 * (smooth + worth)
        # Averaged prices jump about less; the last word has the exact ones.
        added, none_helps = columns.price(smooth)
        if added:
            continue
        if none_helps:  # groups that are there already may help at averaged prices, which then bound nothing
            lower = max(lower, float(smooth.sum()))
        smooth = worth
        if lower >= value * (1 - EXACT) or not columns.price(worth)[0]:
            return columns.proof(max(lower, value * (1 - EXACT / 10)), chosen)
    _, worth, chosen = columns.solved()
    return columns.proof(max(lower, columns.bound(worth)), chosen)


class _Columns:
    """The groups that were made so far, and the linear program over them."""

    def __init__(self, units: Floats, model: Model) -> None:
        self._units, self._model = units, model
        self._groups: dict[bytes, Integers] = {}
        self._prices: list[float] = []

    def add(self, groups: Iterable[Integers]) -> int:
        """Add groups; how many were new."""
        before = len(self._groups)
        for group in groups:
            key = group.tobytes()
            if key not in self._groups:
                self._groups[key] = group
                self._prices.append(self._price(group))
        return len(self._groups) - before

    def solved(self) -> tuple[float, Floats, Floats]:
        """The value of the program, what each unit is worth, and how much of each group is chosen."""
        prices = np.array(self._prices)
        found = linprog(prices, A_ub=-self._matrix(), b_ub=-np.ones(len(self._units)), method="highs-ds")
        return float(found.fun), np.maximum(-found.ineqlin.marginals, 0.0), found.x

    def price(self, worth: Floats) -> tuple[bool, bool]:
        """Add the groups that help most at these worths; whether any was new, and whether no group helps at all."""
        values, boxes = best_boxes(self._units, worth, self._model)
        return self.add(self._inside(box, worth) for box in boxes) > 0, not len(values)

    def bound(self, worth: Floats) -> float:
        """A lower bound although some boxes still help: worths scaled down until none does."""
        values, _ = best_boxes(self._units, worth, self._model)
        least = self._model.channel + self._model.transfer * float(self._units[:, 5].min())
        if not len(values):
            return float(worth.sum())
        return float(worth.sum() / (1.0 + values.max() / least)) if least > 0 else 0.0

    def proof(self, lower: float, chosen: Floats) -> Proof:
        """The proof, with the best plan that can be made of the groups there are."""
        groups, prices = list(self._groups.values()), np.array(self._prices)
        if not np.all((chosen < 1e-7) | (chosen > 1 - 1e-7)):
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
        """The units in a box that are worth more than hearing it costs."""
        units = self._units
        inside = ((units[:, :2] >= box[:2]) & (units[:, 2:4] <= box[2:4])).all(axis=1)
        return np.flatnonzero(inside & (worth > self._model.waste * box[4] * units[:, 4]))

    def _price(self, group: Integers) -> float:
        units, model = self._units[group], self._model
        low, high = units[:, :2].min(axis=0), units[:, 2:4].max(axis=0)
        size = measure(float(low[0]), float(low[1]), float(high[0]), float(high[1]), model.table)
        return float(model.channel + (model.transfer + model.waste * units[:, 4].sum()) * size)

    def _matrix(self) -> csr_matrix:
        groups = list(self._groups.values())
        lengths = np.array([len(group) for group in groups])
        rows, columns = np.concatenate(groups), np.repeat(np.arange(len(groups)), lengths)
        return csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(self._units), len(groups)))


def _partition(groups: list[Integers], n: int) -> tuple[Integers, ...]:
    """Groups that cover every unit, with each unit left in the first only: that never costs more."""
    taken, found = np.zeros(n, np.bool_), []
    for group in groups:
        rest = group[~taken[group]]
        taken[rest] = True
        if len(rest):
            found.append(rest)
    return tuple(found)
