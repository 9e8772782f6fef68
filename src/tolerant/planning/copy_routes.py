"""Routes of copies: who sends which item to whom, and how precisely, before any plan (`docs/design/planning.md` §2.1,
§6).

A giver (the source, or an aggregator with children) sends a copy once for all its listeners, through a filter of the
half-width that its tightest listener needs; a listener has the rest of its bound for a filter of its own. So with c of
the giver (0 for the source) and its half-width h, a listener that adopts a value when it is more than
c_listener − c − h away is within c_listener of the source.
"""

from __future__ import annotations

from typing import NamedTuple

from tolerant.planning.aggregator_network import Network


class CopyRoute(NamedTuple):
    """A route on which an item reaches an aggregator: `giver`, None for the source, and how far the copy may then be
    behind what the giver sent.
    """

    giver: str | None
    step: float


def feed_widths(network: Network, giver: str | None) -> dict[str, float]:
    """Return the items that a giver has to send, and the half-width of the filter for each.

    >>> network = Network({"top": {"x": 0.5}, "low": {"x": 2.0}}, parents={"low": "top"})
    >>> feed_widths(network, None), feed_widths(network, "top")
    ({'x': 0.5}, {'x': 1.5})
    """
    widths: dict[str, float] = {}
    for aggregator, served in network.bounds.items():
        for item in served:
            if network.source_of(aggregator, item) == giver:
                step = network.step(aggregator, item)
                widths[item] = min(widths.get(item, step), step)
    return widths


def copy_routes(network: Network, aggregator: str) -> dict[str, tuple[CopyRoute, ...]]:
    """Return the routes of each item of an aggregator, the preferred one first: from its parent; if that falls silent,
    from those above it; at last from the source. All of them keep its bound.
    """
    givers = {giver: feed_widths(network, giver) for giver in (None, *network.aggregators)}
    routes: dict[str, tuple[CopyRoute, ...]] = {}
    for item, within in network.bounds[aggregator].items():
        above = network.path(aggregator, item)[-2::-1]
        listed = [CopyRoute(g, within - network.bounds[g][item] - givers[g][item]) for g in above]
        listed.append(CopyRoute(None, within - givers[None][item]))
        routes[item] = tuple(CopyRoute(route.giver, max(0.0, route.step)) for route in listed)
    return routes


def depth(network: Network, aggregator: str) -> int:
    """Return how many latencies it is behind the sources: one more than the furthest of those that feed it.

    That is more than the hops of its own furthest item: an aggregator sends nothing before it has received all items.
    """
    above = {network.source_of(aggregator, item) for item in network.bounds[aggregator]}
    return 1 + max((depth(network, name) for name in above if name is not None), default=0)
