"""`tolerant explain QUERY` over a polled stream: which items are asked for how often, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pyarrow as pa
from rich.table import Table

from tolerant.cli.figures import StreamFigures
from tolerant.cli.text import Screen, shown
from tolerant.sql import AggregateSelect
from tolerant.sql.membership import Keys, members
from tolerant.streams import SECOND, Stream

SHOWN = 20
"""Items in the table: those that are asked for most. JSON has all."""


@dataclass(frozen=True)
class Asked:
    """An item of a query. updates_per_second: its pulls; burden: its part of the query's spread; age: seconds since its
    last pull, None before the first; change: its usual change in a tick; width: a polled item has no filter.
    """

    item: str
    group: str
    weight: float
    width: None
    updates_per_second: float
    burden: float
    value: float | None
    age: float | None
    change: float
    stale: bool
    failures: int
    reason: str


@dataclass(frozen=True)
class PolledExplanation:
    """Where a query's pulls go; items in the order of how often they are asked for."""

    query: str
    stream: str
    fn: str
    within: float
    fidelity: float
    delivered: float | None
    pulls_per_second: float
    items: tuple[Asked, ...]


def explain_polled(name: str, stream: Stream, select: AggregateSelect, figures: StreamFigures) -> PolledExplanation:
    """The explanation of a query, from what its pipeline last said about itself."""
    summary = figures.summaries[0]["queries"].get(name, {})
    asked = sorted(_asked(stream, select, figures.pulled), key=lambda one: (-one.updates_per_second, one.item))
    return PolledExplanation(
        query=name,
        stream=stream.name,
        fn=select.fn,
        within=select.within,
        fidelity=summary.get("fidelity", select.fidelity),
        delivered=summary.get("delivered"),
        pulls_per_second=sum(one.updates_per_second for one in asked),
        items=tuple(asked),
    )


def _asked(stream: Stream, select: AggregateSelect, pulled: pa.RecordBatch | None) -> list[Asked]:
    rows = [] if pulled is None else pulled.to_pylist()
    found = []
    for group, weights in members(select, Keys(stream, [row["key"] for row in rows])).items():
        whole = sum(weight**2 * rows[index]["variance"] for index, weight in weights.items())
        for index, weight in weights.items():
            row = rows[index]
            found.append(
                Asked(
                    item=row["key"],
                    group=group,
                    weight=weight,
                    width=None,
                    updates_per_second=row["pulls_per_second"],
                    burden=weight**2 * row["variance"] / whole if whole else 0.0,
                    value=row["value"],
                    age=None if row["age"] < 0 else row["age"] * stream.options.tick / SECOND,
                    change=math.sqrt(row["variance"]),
                    stale=row["stale"],
                    failures=row["failures"],
                    reason=row["reason"],
                )
            )
    return found


def show_polled(found: PolledExplanation) -> None:
    """The explanation for a person."""
    delivered = "not known yet" if found.delivered is None else f"{found.delivered:.4f} so far"
    title = f"{shown(found.query)}: WITHIN {found.within:g} FIDELITY {found.fidelity:g}, {delivered}"
    table = Table(
        "item", "group", "weight", "pulls/s", "value", "age", "change per tick", "burden", "trouble", title=title
    )
    for one in found.items[:SHOWN]:
        table.add_row(
            shown(one.item) + (" (stale)" if one.stale else ""),
            shown(one.group or "all"),
            f"{one.weight:g}",
            f"{one.updates_per_second:.3f}",
            "–" if one.value is None else f"{one.value:,.6g}",
            "–" if one.age is None else f"{one.age:.0f} s",
            f"{one.change:.4g}",
            f"{one.burden:.1%}",
            f"{one.failures} failed: {shown(one.reason)}" if one.failures else "",
        )
    console = Screen()
    console.print(table)
    if len(found.items) > SHOWN:
        console.print(f"… {len(found.items) - SHOWN:,} more")
    console.print(f"{len(found.items):,} items are asked for {found.pulls_per_second:.3f} times a second.")
