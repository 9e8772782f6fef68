"""`tolerant explain` of a bounded aggregate: where the tolerance goes, and what more or less of it would cost."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from tolerant.cli.figures import StreamFigures, known_figures, rate_of
from tolerant.cli.text import Screen, shown
from tolerant.filters.status_view import FACTORS
from tolerant.sql import AggregateSelect, Catalogue, CreateQuery
from tolerant.sql.membership import Keys, members
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log

SHOWN = 20
"""Items in the table: those that send most. JSON has all."""


@dataclass(frozen=True)
class Share:
    """The part of a query's tolerance that an item has, or a sum of items that its source sends in their place; `width`
    is that of its filter, None where it has none.
    """

    item: str
    group: str
    weight: float
    width: float | None
    updates_per_second: float
    burden: float
    source: str
    stale: bool
    elsewhere: tuple[float, ...]
    """By how much it would send more or less at FACTORS times its width."""


@dataclass(frozen=True)
class Estimate:
    """What another tolerance would cost: an estimate, from what the items would have sent at other widths."""

    within: float
    updates_per_second: float
    saved_per_second: float


@dataclass(frozen=True)
class BoundedExplanation:
    """Where a query's tolerance goes; items in the order of what they send."""

    query: str
    stream: str
    fn: str
    within: float
    updates_per_second: float
    items: tuple[Share, ...]
    estimates: tuple[Estimate, ...]
    tick: int = SECOND
    """Microseconds."""

    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def show(self) -> None:
        """For people."""
        _show(self)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> BoundedExplanation:
    """The explanation of a query, from what its pipeline last said about itself."""
    select = AggregateSelect.of(query)
    stream, figures = catalogue.streams[select.stream], known_figures(log, select.stream)
    own = _shares(figures, stream, query.name, select)
    shares = sorted(own, key=lambda share: (-share.updates_per_second, share.item))
    return BoundedExplanation(
        query=query.name,
        stream=stream.name,
        fn=select.fn,
        within=select.within,
        updates_per_second=sum(share.updates_per_second for share in shares),
        items=tuple(shares),
        estimates=estimates(shares, select.within, stream.options.tick),
        tick=stream.options.tick,
    )


def estimates(shares: list[Share], within: float, tick: int) -> tuple[Estimate, ...]:
    """What the items would send under other tolerances, as measured where their sources measure it.

    No item sends more than once a tick. Other queries that hold the same items, and widths that move between items, are
    left out: it is an estimate.
    """
    if within == 0:
        return ()
    most, now = SECOND / tick, sum(share.updates_per_second for share in shares)
    rows = []
    for place, factor in enumerate(FACTORS):
        then = sum(min(most, share.updates_per_second * share.elsewhere[place]) for share in shares)
        rows.append(Estimate(within * factor, then, now - then))
    return tuple(rows)


def _shares(figures: StreamFigures, stream: Stream, name: str, select: AggregateSelect) -> list[Share]:
    """The parts of a query: sums that sources send, and the items that are in none."""
    items, sums = figures.items, [group_sum for group_sum in figures.sums if group_sum.query == name]
    summed = {(group_sum.group, item) for group_sum in sums for item in group_sum.items}
    return [
        Share(
            item=f"sum of {len(group_sum.items)} items at {group_sum.source}",
            group=group_sum.group,
            weight=1.0,
            width=group_sum.width if math.isfinite(group_sum.width) else None,
            updates_per_second=group_sum.updates_per_second,
            burden=group_sum.burden,
            source=group_sum.source,
            stale=group_sum.stale,
            elsewhere=group_sum.elsewhere,
        )
        for group_sum in sums
    ] + [
        Share(
            item=items.key[index],
            group=group,
            weight=weight,
            width=float(items.width[index]) if math.isfinite(items.width[index]) else None,
            updates_per_second=float(items.updates_per_second[index]),
            burden=float(items.burden[index]),
            source=items.source[index],
            stale=items.stale[index],
            elsewhere=tuple(items.elsewhere[index].tolist()),
        )
        for group, weights in members(select, Keys(stream, items.key)).items()
        for index, weight in weights.items()
        if (group, items.key[index]) not in summed
    ]


def _show(explanation: BoundedExplanation) -> None:
    console, rate = Screen(), rate_of(explanation.tick)
    per = "updates/s" if rate.unit == "second" else f"updates per {rate.unit}"
    title = f"{shown(explanation.query)}: WITHIN {explanation.within:g}"
    table = Table("item", "group", "weight", "width", per, "burden", title=title)
    for share in explanation.items[:SHOWN]:
        table.add_row(
            shown(share.item) + (" (stale)" if share.stale else ""),
            shown(share.group or "all"),
            f"{share.weight:g}",
            "none" if share.width is None else f"{share.width:.4g}",
            f"{share.updates_per_second * rate.seconds:.3f}",
            f"{share.burden:.4g}",
        )
    if len(explanation.items) > SHOWN:
        rest = explanation.items[SHOWN:]
        sent = sum(share.updates_per_second for share in rest)
        table.add_row(f"… {len(rest)} more", "", "", "", f"{sent * rate.seconds:.3f}", "")
    console.print(table)
    total = explanation.updates_per_second * rate.seconds
    console.print(f"{len(explanation.items):,} items send {total:.3f} updates per {rate.unit}.")
    for estimate in explanation.estimates:
        saved = estimate.saved_per_second * rate.seconds
        change = f"{abs(saved):.3f} {'fewer' if saved >= 0 else 'more'}"
        then = estimate.updates_per_second * rate.seconds
        console.print(f"WITHIN {estimate.within:g} would take about {then:.3f}, {change}.")
    if explanation.estimates:
        console.print("(An estimate, from what the items would have sent at other widths; other queries are left out.)")
