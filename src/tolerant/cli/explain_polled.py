"""`tolerant explain QUERY` over a polled stream: which items are asked for how often, and why."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from rich.table import Table

from tolerant.cli.figures import known_figures
from tolerant.cli.text import Screen, shown
from tolerant.sql import AggregateSelect, Catalogue, CreateQuery
from tolerant.sql.membership import Keys, members
from tolerant.streams import SECOND, Stream
from tolerant.transport import Log

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

    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def show(self) -> None:
        """For people."""
        _show(self)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> PolledExplanation:
    """The explanation of a query, from what its pipeline last said about itself."""
    select = AggregateSelect.of(query)
    stream, figures = catalogue.streams[select.stream], known_figures(log, select.stream)
    summary = figures.summaries[0]["queries"].get(query.name, {})
    asked = sorted(_asked(stream, select, figures.pulled), key=lambda row: (-row.updates_per_second, row.item))
    return PolledExplanation(
        query=query.name,
        stream=stream.name,
        fn=select.fn,
        within=select.within,
        fidelity=summary.get("fidelity", select.fidelity),
        delivered=summary.get("delivered"),
        pulls_per_second=sum(row.updates_per_second for row in asked),
        items=tuple(asked),
    )


def _asked(stream: Stream, select: AggregateSelect, pulled: pa.RecordBatch | None) -> list[Asked]:
    rows = [] if pulled is None else pulled.to_pylist()
    asked = []
    for group, weights in members(select, Keys(stream, [row["key"] for row in rows])).items():
        whole = sum(weight**2 * rows[index]["variance"] for index, weight in weights.items())
        for index, weight in weights.items():
            row = rows[index]
            asked.append(
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
    return asked


def _show(polled: PolledExplanation) -> None:
    delivered = "not known yet" if polled.delivered is None else f"{polled.delivered:.4f} so far"
    title = f"{shown(polled.query)}: WITHIN {polled.within:g} FIDELITY {polled.fidelity:g}, {delivered}"
    table = Table(
        "item", "group", "weight", "pulls/s", "value", "age", "change per tick", "burden", "trouble", title=title
    )
    for item in polled.items[:SHOWN]:
        table.add_row(
            shown(item.item) + (" (stale)" if item.stale else ""),
            shown(item.group or "all"),
            f"{item.weight:g}",
            f"{item.updates_per_second:.3f}",
            "–" if item.value is None else f"{item.value:,.6g}",
            "–" if item.age is None else f"{item.age:.0f} s",
            f"{item.change:.4g}",
            f"{item.burden:.1%}",
            f"{item.failures} failed: {shown(item.reason)}" if item.failures else "",
        )
    console = Screen()
    console.print(table)
    if len(polled.items) > SHOWN:
        console.print(f"… {len(polled.items) - SHOWN:,} more")
    console.print(f"{len(polled.items):,} items are asked for {polled.pulls_per_second:.3f} times a second.")
