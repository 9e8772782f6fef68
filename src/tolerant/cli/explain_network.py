"""`tolerant explain QUERY` over a network: which part each item is in, and what the parts are expected to send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tolerant.cli.text import Screen
from tolerant.sql import Catalogue, CreateQuery
from tolerant.transport import Log

if TYPE_CHECKING:
    from tolerant.cli.plan_tables import Planned


@dataclass(frozen=True)
class NetworkExplanation:
    """A query's groups with their plans."""

    query: str
    stream: str
    groups: tuple[Planned, ...]

    def record(self) -> dict[str, Any]:
        """For programs. An item's width is that of its copy at the aggregator that answers for it, and its updates are
        its share of its part's.
        """
        items = [item for planned in self.groups for item in _items(planned)]
        return {
            "query": self.query,
            "stream": self.stream,
            "fn": self.groups[0].query.fn,
            "within": self.groups[0].query.within,
            "updates_per_second": sum(item["updates_per_second"] for item in items),
            "items": items,
            "plans": [planned.record() for planned in self.groups],
        }

    def show(self) -> None:
        """For people."""
        from tolerant.cli.plan import show_plan

        for planned in self.groups:
            show_plan(Screen(), planned)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> NetworkExplanation:
    """The explanation of a query, from what its pipeline last said about it."""
    from tolerant.cli.plan_tables import planned

    stream, groups = planned(log, query.name)
    return NetworkExplanation(query.name, stream.name, tuple(groups))


def _items(planned: Planned) -> list[dict[str, Any]]:
    if planned.plan is None:
        return []
    return [
        {
            "item": item,
            "group": planned.group,
            "weight": weight,
            "width": 2 * planned.plan.network.bounds[part.aggregator][item],
            "updates_per_second": (explanation.refreshes or 0.0) / 3600 / len(part.weights),
            "burden": abs(weight) * planned.plan.network.bounds[part.aggregator][item],
            "aggregator": part.aggregator,
        }
        for part, explanation in zip(planned.plan.parts, planned.explained(), strict=True)
        for item, weight in part.weights.items()
    ]
