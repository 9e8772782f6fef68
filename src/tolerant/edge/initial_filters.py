"""Initial filters of a source: granted by the pipeline while it runs, or fixed by the stream's network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tolerant.edge.source_core import SourceCore
from tolerant.streams import Stream
from tolerant.transport.rows import Grant

_MOVES_FROM = 1.0
"""Updates per tick that a source's slopes must save: moving centres cost it one row per tick."""


def core_of(stream: Stream, name: str, epoch: int) -> SourceCore:
    """Build a source's core. In a network each item keeps the filter that its most demanding receiver needs."""
    if not stream.networked:
        return SourceCore(name, epoch, stream.options, moves_from=_MOVES_FROM)
    from tolerant.planning import feed_widths  # imported here so that other sources need not load it
    from tolerant.sql.networks import network_of

    core = SourceCore(name, epoch, replace(stream.options, policy="adaptive"))
    halves = feed_widths(network_of(stream), None)
    core.grant([Grant(item, 2 * half, 0.0, 0, 1, False) for item, half in halves.items()], now=0)
    return core


def check_served(items: Iterable[str], stream: Stream) -> None:
    """Raise ValueError, naming the item, if no aggregator serves one of `items`."""
    from tolerant.sql.networks import network_of

    known = network_of(stream).index
    for item in items:
        if item not in known:
            raise ValueError(
                f"item {item!r} is at no aggregator of {stream.uri}: nobody would hear of it. Is its name right?"
            )
