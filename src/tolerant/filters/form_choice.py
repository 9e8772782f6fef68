"""Choose between filtering a source's items and the sums that queries make of them (`docs/design/filters.md` §2.8,
[OJW03] App. G).

A source that owns all items of some sums may send the items, each under one filter that all queries share, or one value
per query. Tolerances that differ much favour sums: the narrow query does not force narrow filters on the items of the
wide ones. Activity in shared items favours items: a change that several queries need is sent once.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tolerant.filters.constraints import Terms, constraints_of
from tolerant.filters.optimal_widths import optimal

ITEMS, QUERIES = "items", "queries"
"""The two forms: one filter per item, one filter per query."""

EVERY = 50
"""Periods between two comparisons of the forms' costs."""
_SAVES = 0.2
"""Fraction of the present form's cost that the other form must save to replace it."""


def aggregation_costs(
    steps: Mapping[str, float], weights: Mapping[str, Mapping[str, float]], within: Mapping[str, float]
) -> tuple[float, float]:
    """Expected updates per tick of the two forms, if items are independent walks: (per item, per query).

    steps: the r.m.s. one-tick change of each item. weights: for each query, a sum, the weights of its items. within:
    each query's tolerance. The cost of a tolerance of 0 on an item that moves is infinite.

    >>> sums = {"a": {"x": 1, "y": 1}, "b": {"x": 1, "z": 1}}
    >>> costs = aggregation_costs({"x": 1, "y": 1, "z": 1}, sums, {"a": 1, "b": 3})
    >>> [round(cost, 3) for cost in costs]
    [8.16, 2.222]
    """
    _check(steps, weights, within)
    items = list(steps)
    place = {item: k for k, item in enumerate(items)}
    moves = np.array([steps[item] for item in items], np.float64)
    terms = [
        Terms("sum", np.array([place[i] for i in row], np.int64), np.array(list(row.values()), np.float64), within[q])
        for q, row in weights.items()
    ]
    widths = optimal(constraints_of(terms, len(items)), moves, np.ones(len(items)))
    per_item = sum(_rate(step, width) for step, width in zip(moves, widths, strict=True))
    per_query = sum(_rate(float(np.hypot.reduce(term.weights * moves[term.items])), 2 * term.within) for term in terms)
    return float(per_item), float(per_query)


def cheaper_form(form: str, per_item: float, per_query: float) -> str:
    """The form to use next: the present one, unless the other saves more than a fifth of its cost.

    >>> cheaper_form("items", 8.16, 2.22), cheaper_form("items", 2.06, 2.02)
    ('queries', 'items')
    """
    if form not in (ITEMS, QUERIES):
        raise ValueError(f"form must be {ITEMS!r} or {QUERIES!r}, got {form!r}")
    present, other = (per_item, per_query) if form == ITEMS else (per_query, per_item)
    return form if other >= (1 - _SAVES) * present else QUERIES if form == ITEMS else ITEMS


class FormChoice:
    """Chooses a source's form, again every 50 periods, from the changes measured since the last choice.

    weights, within: as for `aggregation_costs`, for one set of queries that overlap. period: in ticks. The attribute
    `form` is "items" or "queries".
    """

    def __init__(
        self,
        weights: Mapping[str, Mapping[str, float]],
        within: Mapping[str, float],
        *,
        period: int = 10,
        form: str = ITEMS,
    ) -> None:
        if not (period >= 1 and period == int(period)):
            raise ValueError(f"period must be a whole number of ticks, at least 1, got {period}")
        self.form = cheaper_form(form, 0.0, 0.0)
        self._weights = {query: dict(row) for query, row in weights.items()}
        self._within = dict(within)
        self._ticks, self._look = 0, EVERY * int(period)
        self._squares = dict.fromkeys((item for row in self._weights.values() for item in row), 0.0)
        _check(self._squares, self._weights, self._within)

    def tick(self, changes: Mapping[str, float]) -> bool:
        """Count one tick in which items changed by these amounts (missing: 0); True if the form has changed."""
        for item, change in changes.items():
            if item in self._squares:
                self._squares[item] += change * change
        self._ticks += 1
        if self._ticks < self._look:
            return False
        steps = {item: (square / self._ticks) ** 0.5 for item, square in self._squares.items()}
        before, self.form = self.form, cheaper_form(self.form, *aggregation_costs(steps, self._weights, self._within))
        self._ticks, self._squares = 0, dict.fromkeys(self._squares, 0.0)
        return self.form != before


def _rate(step: float, width: float) -> float:
    """Updates per tick of a walk in a filter ([OJW03] App. E)."""
    if step == 0.0 or np.isinf(width):
        return 0.0
    return 4.0 * (step / width) ** 2 if width > 0.0 else float("inf")


def _check(steps: Mapping[str, float], weights: Mapping[str, Mapping[str, float]], within: Mapping[str, float]) -> None:
    for item, step in steps.items():
        if not 0 <= step < np.inf:
            raise ValueError(f"steps must be finite and not negative, got {step} for item {item!r}")
    if missing := set(weights) ^ set(within):
        raise ValueError(f"weights and within must be of the same queries, got only one of them for {min(missing)!r}")
    for query, row in weights.items():
        if not 0 <= within[query] < np.inf:
            raise ValueError(f"within must be finite and not negative, got {within[query]} for query {query!r}")
        for item, weight in row.items():
            if item not in steps:
                raise ValueError(f"steps must have an entry for item {item!r} of query {query!r}")
            if not np.isfinite(weight):
                raise ValueError(f"weights must be finite, got {weight} for item {item!r} of query {query!r}")
