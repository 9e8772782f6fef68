"""Queries over products of items, such as holdings times rates, linearised (`docs/design/polling.md` §5.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tolerant.queries import Aggregate


@dataclass(frozen=True)
class Products:
    """Σ coefficient · item · item · …, |answer − truth| ≤ `within`, a fraction `fidelity` of the time.

    >>> worth = Products("worth", [(1.0, ("shares", "price"))], within=5)
    >>> worth.value({"shares": 3, "price": 10}), dict(worth.linear({"shares": 3, "price": 10}).weights)
    (30.0, {'shares': 10.0, 'price': 3.0})
    """

    name: str
    terms: Sequence[tuple[float, Sequence[str]]]
    within: float
    fidelity: float = 1.0

    def __post_init__(self) -> None:
        terms = tuple((float(coefficient), tuple(items)) for coefficient, items in self.terms)
        for coefficient, items in terms:
            if not items or not math.isfinite(coefficient):
                raise ValueError(
                    f"terms of {self.name!r} must be a finite coefficient and items, got {coefficient}, {items}"
                )
        object.__setattr__(self, "terms", terms)

    @property
    def items(self) -> list[str]:
        """The items, in the order in which the terms name them."""
        return list(dict.fromkeys(item for _, items in self.terms for item in items))

    def value(self, values: Mapping[str, float]) -> float:
        """Return the query's value at these values of its items."""
        return math.fsum(coefficient * math.prod(values[i] for i in items) for coefficient, items in self.terms)

    def linear(self, values: Mapping[str, float]) -> Aggregate:
        """Return the sum whose weights are the derivatives at `values`: to first order it changes alike."""
        weights = dict.fromkeys(self.items, 0.0)
        for coefficient, items in self.terms:
            for place, item in enumerate(items):
                others = (values[other] for k, other in enumerate(items) if k != place)
                weights[item] += coefficient * math.prod(others)
        return Aggregate(self.name, "sum", weights, self.within, self.fidelity)
