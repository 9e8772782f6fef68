"""The result of planning: parts, a plan, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tolerant.planning.aggregator_network import Network
    from tolerant.planning.dynamics import Dynamics
    from tolerant.planning.plan_explanation import PartExplanation
    from tolerant.queries import Aggregate


class Unsatisfiable(ValueError):
    """Raised when no plan meets the bound: `tightest` is the bound that could be met, or `items` those not served."""

    def __init__(self, message: str, tightest: float | None = None, items: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.tightest = tightest
        self.items = items

    def __reduce__(self) -> tuple[object, ...]:
        return (Unsatisfiable, (self.args[0], self.tightest, self.items))


@dataclass(frozen=True)
class Part:
    """What one aggregator answers: Σ weights·items within `within`; `floor` is the error that its copies may cause."""

    aggregator: str
    weights: Mapping[str, float] = field(hash=False)
    within: float
    floor: float

    def __post_init__(self) -> None:
        if not isinstance(self.weights, MappingProxyType):
            object.__setattr__(self, "weights", MappingProxyType(dict(self.weights)))

    def __reduce__(self) -> tuple[object, ...]:
        return (Part, (self.aggregator, dict(self.weights), self.within, self.floor))

    def record(self) -> list[Any]:
        """Return plain values for JSON."""
        return [self.aggregator, dict(self.weights), self.within, self.floor]

    @classmethod
    def of_record(cls, record: Sequence[Any]) -> Part:
        """Return the part whose `record` this is."""
        aggregator, weights, within, floor = record
        return cls(aggregator, weights, within, floor)

    @property
    def push(self) -> float:
        """How far the part may drift at the aggregator before it is sent: C − X (§2.2)."""
        return max(0.0, self.within - self.floor)


@dataclass(frozen=True)
class Plan:
    """Parts that cover every item of the query once and whose bounds add up to at most `query.within`.

    cost: the estimate Z that plans are compared by; proportional to messages, not a number of them. repairs: how many
    items had to move because the chosen parts could not meet the bound. dynamics: what the estimate is based on.
    """

    query: Aggregate
    network: Network
    parts: tuple[Part, ...]
    cost: float
    repairs: int = 0
    dynamics: Dynamics | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple):
            object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def within(self) -> float:
        """How far the client's answer may be off: the sum of the parts' bounds; of a min or max their largest."""
        bounds = [part.within for part in self.parts]
        return max(bounds) if self.query.fn in ("min", "max") else sum(bounds)

    def relies_on(self) -> frozenset[str]:
        """Return the aggregators that must be alive: those of the parts, and those that the parts' items pass."""
        return frozenset(
            name for part in self.parts for item in part.weights for name in self.network.path(part.aggregator, item)
        )

    def record(self) -> dict[str, Any]:
        """Return the plan without its query and network, for JSON."""
        return {"parts": [part.record() for part in self.parts], "cost": self.cost, "repairs": self.repairs}

    @classmethod
    def of_record(cls, record: Mapping[str, Any], query: Aggregate, network: Network) -> Plan:
        """Return the plan whose `record` this is."""
        parts = tuple(Part.of_record(part) for part in record["parts"])
        return cls(query, network, parts, record["cost"], record["repairs"])

    def explain(self, tick: float = 1.0) -> tuple[PartExplanation, ...]:
        """Return what each part does and why, in words and numbers; `tick`: seconds from one tick to the next."""
        from tolerant.planning.plan_explanation import explain  # it reads plans

        return explain(self, tick)
