"""Arrays back into plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tolerant.planning.choosing import Chosen
from tolerant.planning.dynamics import Dynamics
from tolerant.planning.network import Network
from tolerant.planning.plans import Part, Plan
from tolerant.planning.problem import Asked


def assembled(ready: Asked, network: Network, dynamics: Dynamics, found: Chosen) -> Plan:
    """The plan that was chosen."""
    by_item = (found.owner.tolist(), found.decided.tolist(), found.bounds.tolist(), found.floors.tolist())
    parts = parts_of(ready.weights, names_of(ready, network), *by_item)
    return Plan(ready.query, network, parts, float(found.cost), int(found.repairs), dynamics)


def names_of(ready: Asked, network: Network) -> Sequence[str]:
    """The aggregators by the rows of the query's arrays."""
    if ready.rows is None:
        return network.aggregators
    return [network.aggregators[row] for row in ready.rows.tolist()]


def parts_of(
    weights: Mapping[str, float],
    names: Sequence[str],
    owner: Sequence[int],
    order: Sequence[int],
    bounds: Sequence[float],
    floors: Sequence[float],
) -> tuple[Part, ...]:
    """Parts in the order in which they were chosen, each part's items in the query's; all but `names` by item."""
    held: dict[int, dict[str, float]] = {}
    first: dict[int, tuple[int, int]] = {}
    for number, (item, place) in enumerate(zip(weights, owner, strict=True)):
        if place not in held:
            held[place], first[place] = {}, (order[number], number)
        elif order[number] < first[place][0]:
            first[place] = (order[number], number)
        held[place][item] = weights[item]
    return tuple(
        [
            Part(names[place], MappingProxyType(held[place]), bounds[number], floors[number])
            for (_, number), place in sorted(zip(first.values(), first, strict=True))
        ]
    )
