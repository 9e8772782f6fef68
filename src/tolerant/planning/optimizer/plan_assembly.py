"""Turns the arrays of a solution back into a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tolerant.planning.optimizer.greedy_plan import GreedyParts
from tolerant.planning.optimizer.plan_problem import QueryProblem
from tolerant.planning.query_plan import Part, Plan


def assemble(ready: QueryProblem, chosen: GreedyParts) -> Plan:
    """Return the plan of the chosen parts."""
    by_item = (chosen.owner.tolist(), chosen.decided.tolist(), chosen.bounds.tolist(), chosen.floors.tolist())
    parts = parts_of(ready.weights, names_of(ready), *by_item)
    return Plan(ready.query, ready.network, parts, float(chosen.cost), int(chosen.repairs), ready.dynamics)


def names_of(ready: QueryProblem) -> Sequence[str]:
    """Return the aggregators in the order of the rows of the query's arrays."""
    if ready.rows is None:
        return ready.network.aggregators
    return [ready.network.aggregators[row] for row in ready.rows.tolist()]


def parts_of(
    weights: Mapping[str, float],
    names: Sequence[str],
    owner: Sequence[int],
    order: Sequence[int],
    bounds: Sequence[float],
    floors: Sequence[float],
) -> tuple[Part, ...]:
    """Return the parts in the order in which they were chosen, each with its items in the query's order.

    owner, order, bounds, floors: by item.
    """
    members: dict[int, dict[str, float]] = {}
    first: dict[int, tuple[int, int]] = {}
    for number, (item, place) in enumerate(zip(weights, owner, strict=True)):
        if place not in members:
            members[place], first[place] = {}, (order[number], number)
        elif order[number] < first[place][0]:
            first[place] = (order[number], number)
        members[place][item] = weights[item]
    return tuple(
        [
            Part(names[place], MappingProxyType(members[place]), bounds[number], floors[number])
            for (_, number), place in sorted(zip(first.values(), first, strict=True))
        ]
    )
