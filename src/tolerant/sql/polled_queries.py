"""Queries over a polled stream as its core takes them, for those who decide what to ask for and those who answer."""

from __future__ import annotations

import math
from typing import Any

from tolerant.queries import Aggregate
from tolerant.sql.catalogue import Catalogue
from tolerant.sql.membership import Keys, instance_name, members
from tolerant.sql.named_items import named_items
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import SECOND, Stream

PATIENCE = 2
"""Ticks that an answer may take at least, before its item counts as one that cannot be had."""
SURE = 0.9999
"""The fidelity that "risk" takes 1 for: only asking at every tick gives 1."""


def claimed(select: AggregateSelect, stream: Stream) -> float:
    """The fidelity that the answers of a query claim."""
    return select.fidelity if stream.options.chooser == "every-tick" else min(select.fidelity, SURE)


def remark(select: AggregateSelect, stream: Stream) -> str:
    """What to tell who asks for more than polling can promise; else nothing."""
    if select.fidelity < 1 or stream.options.chooser == "every-tick":
        return ""
    return (
        f"; fidelity 1 takes asking at every tick, which WITH (chooser = 'every-tick') does: {SURE} is aimed at. "
        "FIDELITY 0.98, say, takes far fewer requests"
    )


class PolledQueries:
    """The queries of a stream as aggregates, one a group. What has not changed is not made again."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._held: dict[str, tuple[AggregateSelect, list[Aggregate]]] = {}

    def of(self, catalogue: Catalogue) -> list[Aggregate]:
        """Those that the catalogue has, in the order in which they were created."""
        selects = catalogue.aggregates(self._stream.name)
        known, self._held = self._held, {}
        for name, select in selects.items():
            if name not in known or known[name][0] != select:
                known[name] = (select, self._aggregates(name, select))
            self._held[name] = known[name]
        return [aggregate for _, aggregates in self._held.values() for aggregate in aggregates]

    def _aggregates(self, name: str, select: AggregateSelect) -> list[Aggregate]:
        texts = named_items(select, self._stream)
        return [
            Aggregate(
                instance_name(name, group),
                select.fn,
                {texts[index]: weight for index, weight in weights.items()},
                select.within,
                claimed(select, self._stream),
            )
            for group, weights in members(select, Keys(self._stream, texts)).items()
        ]


def poller_options(stream: Stream) -> dict[str, Any]:
    """The keywords of the `tolerant.polling.Poller` that a stream is run with.

    "risk" is calibrated and answers with forecasts: changes that were recorded anywhere are far from normal, and on
    such the plain model delivers less than it promises. It has no use for chains, and they are kept small.
    """
    options = stream.options
    arguments: dict[str, Any] = {
        "chooser": options.chooser,
        "max_interval": options.max_interval,
        "patience": max(PATIENCE, math.ceil(options.latency / options.tick)),
        "stale_after": options.stale_after // options.tick
        if options.stale_after
        else options.max_interval + math.ceil((options.timeout + options.latency) / options.tick) + PATIENCE,
    }
    if options.chooser == "risk":
        arguments |= {"calibrated": True, "forecast": True, "cautious": True, "states": 3}
    if options.per_second and options.chooser != "every-tick":
        arguments["limit"] = max(1, int(options.per_second * options.tick / SECOND)) * options.batch
    return arguments
