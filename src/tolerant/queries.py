"""Bounded aggregates and their answers, as frozen dataclasses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

FUNCTIONS = ("sum", "avg", "min", "max", "count")
"""The aggregate functions of bounded queries."""

UNIT_WEIGHT_FUNCTIONS = ("min", "max", "count")


@dataclass(frozen=True)
class Aggregate:
    """A bounded aggregate over named items: |answer − truth| ≤ `within`, a fraction `fidelity` of the time, of sources
    heard of within their lease (`Answer`).

    `fn` is one of "sum", "avg", "min", "max", "count". `weights` maps item to weight; `avg` divides by the number of
    items, not by the sum of the weights; `min`, `max` and `count` take unit weights only.

    >>> Aggregate("net", "sum", {"in": 1.0, "out": -1.0}, within=3).within
    3.0
    """

    name: str
    fn: str
    weights: Mapping[str, float] = field(hash=False)
    within: float
    fidelity: float = 1.0

    def __post_init__(self) -> None:
        if self.fn not in FUNCTIONS:
            raise ValueError(f"fn must be one of {', '.join(FUNCTIONS)}, got {self.fn!r}")
        if not (math.isfinite(self.within) and self.within >= 0):
            raise ValueError(f"within of query {self.name!r} must be finite and not negative, got {self.within}")
        if not 0 < self.fidelity <= 1:
            raise ValueError(f"fidelity of query {self.name!r} must be in (0, 1], got {self.fidelity}")
        weights = {str(item): float(weight) for item, weight in self.weights.items()}
        for item, weight in weights.items():
            if not math.isfinite(weight):
                raise ValueError(f"weight of item {item!r} in query {self.name!r} must be finite, got {weight}")
            if self.fn in UNIT_WEIGHT_FUNCTIONS and weight != 1.0:
                raise ValueError(f"{self.fn} takes unit weights only; {item!r} of query {self.name!r} has {weight}")
        object.__setattr__(self, "weights", MappingProxyType(weights))
        object.__setattr__(self, "within", float(self.within))

    @classmethod
    def over(cls, name: str, fn: str, items: Iterable[str], within: float, fidelity: float = 1.0) -> Aggregate:
        """The aggregate of `items` with unit weights.

        >>> dict(Aggregate.over("load", "avg", ["a", "b"], within=2).weights)
        {'a': 1.0, 'b': 1.0}
        """
        return cls(name, fn, dict.fromkeys(items, 1.0), within, fidelity)

    def __reduce__(self) -> tuple[object, ...]:
        # A mapping proxy cannot be pickled, and queries travel to Spark workers.
        return (Aggregate, (self.name, self.fn, dict(self.weights), self.within, self.fidelity))


@dataclass(frozen=True)
class Answer:
    """The answer of a query at event time `at` (microseconds).

    A *settled* answer (neither stale nor settling) guarantees low ≤ truth(at) ≤ high and high − low ≤ 2·within, of
    sources heard of within their lease: items of a dead source count with their last value until the lease has
    expired, and make the answer stale then. An unknown end is None; without items, all three are None (SQL's NULL).

    Over a polled stream, the guarantee holds a fraction `fidelity` of the time: as requested, or less while some item
    cannot be fetched. `delivered` is the fraction measured so far by pulls (None before the first measurement).
    Elsewhere both are None: the guarantee always holds. `learning`: the answer is settling because the items' dynamics
    are not known yet.

    `no_pipeline_since`: set by a client that finds the pipeline down: the time (wall clock, microseconds) after which
    nothing was processed; such an answer is stale.
    """

    query: str
    at: int
    low: float | None
    value: float | None
    high: float | None
    group: str = ""
    stale: bool = False
    settling: bool = False
    fidelity: float | None = None
    delivered: float | None = None
    no_pipeline_since: int | None = None
    learning: bool = False

    @property
    def settled(self) -> bool:
        """Whether the guarantee holds for this answer, of sources heard of within their lease: what a source that has
        died would have sent is missing until then.
        """
        return not (self.stale or self.settling)
