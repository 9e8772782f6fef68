"""What the demo shows while it runs, and the table at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tolerant.demo.audit import Audit
from tolerant.demo.sums import Cost
from tolerant.queries import Answer

WATCHED = {
    "logins": "Q1 remote logins from outside",
    "inbound": "Q2 everything that comes in",
    "syns": "Q3 SYN packets that come in",
    "lookups": "Q4 DNS lookups that go out",
    "outside": "Q5 everything to and from outside",
}
"""The queries that are shown live, and what they ask."""


@dataclass
class Moment:
    """What is known while the demo runs."""

    stage: str = "starting"
    boundaries: int = 0
    of: int = 0
    items: int = 0
    messages: int = 0
    readings: int = 0
    elapsed: float = 0.0
    first_answer: float | None = None
    answers: dict[str, Answer] = field(default_factory=dict)
    hosts: dict[str, Answer] = field(default_factory=dict)


def live(moment: Moment) -> Group:
    """The picture of a moment."""
    table = Table("query", "packets per second", "±", "state", title="Standing queries", min_width=72)
    for name, asks in WATCHED.items():
        answer = moment.answers.get(name)
        table.add_row(asks, *_numbers(answer), _state(answer))
    hosts = [answer for answer in moment.hosts.values() if answer.value is not None]
    busiest = max(hosts, key=lambda answer: answer.value or 0.0, default=None)
    table.add_row(f"by host ({len(moment.hosts)}): busiest {busiest.group if busiest else '–'}", *_numbers(busiest), "")
    saved = f", {1 - moment.messages / moment.readings:.0%} saved" if moment.readings > moment.messages > 0 else ""
    return Group(
        Text(f"{moment.stage}, {moment.elapsed:.0f} s", style="bold"),
        Padding(ProgressBar(total=max(moment.of, 1), completed=moment.boundaries, width=60), 0),
        Text(
            f"{moment.boundaries}/{moment.of} boundaries, {moment.items} items, "
            f"{moment.messages:,} messages for {moment.readings:,} changed readings{saved}"
        ),
        table,
    )


def costs_table(costs: Sequence[Cost], audit: Audit) -> Table:
    """Messages by policy, and what became of the promises."""
    uniform = next(cost.total for cost in costs if cost.name == "uniform filters")
    caption = (
        f"{audit.checks:,} checks of settled answers against the truth: {audit.violations} broken promises "
        f"({audit.unsettled:,} unsettled, {audit.answers:,} answers published)"
    )
    table = Table(title="Messages for the same answers", caption=caption, min_width=72)
    for heading in ("", "counted", "messages", "of uniform", "made of"):
        table.add_column(heading, justify="right" if heading in ("messages", "of uniform") else "left")
    for cost in costs:
        table.add_row(
            cost.name,
            "simulated" if cost.simulated else "on the wire",
            f"{cost.total:,}",
            f"{cost.total / uniform:.1%}",
            made_of(cost.messages),
        )
    return table


def made_of(messages: Mapping[str, int]) -> str:
    """Counts by kind, in words.

    >>> made_of({"update": 1200, "grant": 1, "heartbeat": 0})
    '1,200 updates, 1 grant'
    """
    return ", ".join(f"{count:,} {kind}{'' if count == 1 else 's'}" for kind, count in messages.items() if count)


def _numbers(answer: Answer | None) -> tuple[str, str]:
    if answer is None or answer.value is None or answer.low is None or answer.high is None:
        return "–", "–"
    return f"{answer.value:,.1f}", f"{(answer.high - answer.low) / 2:,.2f}"


def _state(answer: Answer | None) -> str:
    if answer is None:
        return "waiting"
    return "settled" if answer.settled else "stale" if answer.stale else "settling"
