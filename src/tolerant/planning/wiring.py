"""Who says which copies to whom, and how closely: the hops before a plan (`specs/3-planning.md` §2.1, §6).

A giver (the source, or an aggregator with children) says a copy once for all who listen, at the half-width that its
narrowest listener can bear; a listener then has the rest of its bound as room of its own. So with c of the giver (0 for
the source) and its half-width h, a listener that takes a new value when it is more than c_listener − c − h away is
within c_listener of the source.
"""

from __future__ import annotations

from typing import NamedTuple

from tolerant.planning.network import Network


class Way(NamedTuple):
    """A way in which an item can reach an aggregator: `giver`, None for the source, and how far the copy may then be
    behind what the giver said.
    """

    giver: str | None
    step: float


def given(network: Network, giver: str | None) -> dict[str, float]:
    """The items that a giver has to say, and the half-width of the filter for each.

    >>> network = Network({"top": {"x": 0.5}, "low": {"x": 2.0}}, parents={"low": "top"})
    >>> given(network, None), given(network, "top")
    ({'x': 0.5}, {'x': 1.5})
    """
    found: dict[str, float] = {}
    for aggregator, served in network.bounds.items():
        for item in served:
            if network.source_of(aggregator, item) == giver:
                step = network.step(aggregator, item)
                found[item] = min(found.get(item, step), step)
    return found


def ways(network: Network, aggregator: str) -> dict[str, tuple[Way, ...]]:
    """For each item of an aggregator the ways in which it can be had, the one to prefer first: from its parent, and
    should that fall silent from those above it, at last from the source. All of them keep its bound.
    """
    givers = {giver: given(network, giver) for giver in (None, *network.aggregators)}
    found: dict[str, tuple[Way, ...]] = {}
    for item, within in network.bounds[aggregator].items():
        above = network.path(aggregator, item)[-2::-1]
        listed = [Way(g, within - network.bounds[g][item] - givers[g][item]) for g in above]
        listed.append(Way(None, within - givers[None][item]))
        found[item] = tuple(Way(way.giver, max(0.0, way.step)) for way in listed)
    return found


def depth(network: Network, aggregator: str) -> int:
    """How many latencies it is behind the sources: one more than whoever is furthest behind of those it hears.

    That is not the way of its own furthest item: an aggregator says nothing of an item before it has heard of all.
    """
    above = {network.source_of(aggregator, item) for item in network.bounds[aggregator]}
    return 1 + max((depth(network, name) for name in above if name is not None), default=0)
