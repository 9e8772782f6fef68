"""`tolerant dead STREAM`: the rows that could not be used, grouped by the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from tolerant.cli.moments import moment
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown, visible
from tolerant.client import load_catalogue
from tolerant.sql import PipelineId
from tolerant.sql.refusals import no_such
from tolerant.transport import Log, rows
from tolerant.transport.records import skipping
from tolerant.transport.topics import dead_letters_topic

COLUMNS = ("at", "source", "kind", "key", "value", "reason")
_MORE = re.compile(r"^and [\d,]+ more: ")
_VALUES = re.compile(r"""'[^']*'|"[^"]*"|[-+]?\d[\d.,e+-]*""")


@dataclass(frozen=True)
class DeadGroup:
    """Rows that could not be used for the same reason, but for names and numbers in it: how many, and the newest dead
    letter as an example.
    """

    reason: str
    count: int
    example: str
    source: str
    key: str
    at: int | None


def dead(
    stream: Annotated[str, typer.Argument(help="The stream whose rows are meant.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    every: Annotated[bool, typer.Option("--all", help="Every row, not one example per reason.")] = False,
) -> None:
    """Show the rows that could not be used: a line per reason, with a count and an example."""
    with_log = existing_log(log)
    catalogue = load_catalogue(with_log)
    relations = {
        *catalogue.streams,
        *catalogue.tables,
        *(str(PipelineId.of(query.select)) for query in catalogue.queries.values()),
    }
    if stream not in relations and dead_letters_topic(stream) not in with_log.topics():
        raise CommandError(no_such("stream or table", stream, relations))
    letters = dead_letters(with_log, stream)
    number = sum(map(row_count, letters))
    if as_json:
        for row in letters:
            typer.echo(json.dumps({**row, "payload": row["payload"].hex() if row["payload"] is not None else None}))
        return
    if not letters:
        typer.echo(visible(f"No row of {stream} was ever refused."))
        return
    title = f"{number:,} rows of {shown(stream)} could not be used"
    Screen().print(_all_rows(letters, title) if every else _grouped_rows(letters, title))


def dead_letters(log: Log, stream: str) -> list[dict[str, Any]]:
    """The dead letters of a stream that the log still has, oldest first."""
    letters: list[dict[str, Any]] = []
    for entry in log.read(dead_letters_topic(stream)):
        with skipping("an entry of dead letters"):
            letters += rows.unpack(entry.payload).to_pylist()
    return letters


def row_count(letter: Mapping[str, Any]) -> int:
    """Of how many rows a dead letter is said."""
    count = letter.get("count")
    return count if isinstance(count, int) and count > 0 else 1


def dead_groups(letters: Iterable[dict[str, Any]]) -> list[DeadGroup]:
    """Dead letters by reason, the most frequent first; one that sums up others counts for all of them.

    >>> letter = {"source": "s", "key": "k", "at": 1}
    >>> reasons = ["at is 7 µs ahead", "at is 9 µs ahead", "kind must be update, got 'x'"]
    >>> [(group.count, group.example) for group in dead_groups([{**letter, "reason": text} for text in reasons])]
    [(2, 'at is 9 µs ahead'), (1, "kind must be update, got 'x'")]
    """
    groups: dict[str, DeadGroup] = {}
    for letter in letters:
        text, number = letter["reason"] or "no reason given", row_count(letter)
        text = _MORE.sub("", text) if number > 1 else text
        reason = _VALUES.sub("…", text)
        count = number + (groups[reason].count if reason in groups else 0)
        source, key = letter["source"] or "", letter["key"] or ""
        groups[reason] = DeadGroup(reason, count, text, source, key, letter["at"])
    return sorted(groups.values(), key=lambda group: -group.count)


def _grouped_rows(letters: list[dict[str, Any]], title: str) -> Table:
    table = Table("rows", "reason", "last source", "last key", "last at", title=title)
    for group in dead_groups(letters):
        texts = (group.example, group.source or "–", group.key or "–", _text("at", group.at))
        table.add_row(f"{group.count:,}", *map(shown, texts))
    return table


def _all_rows(letters: list[dict[str, Any]], title: str) -> Table:
    table = Table(*COLUMNS, title=title)
    for row in letters:
        table.add_row(*(shown(_text(name, row[name])) for name in COLUMNS))
    return table


def _text(name: str, value: object) -> str:
    if value is None:
        return "–"
    if name == "at" and isinstance(value, int):
        text = moment(value)
        return f"{value} µs" if text == "–" else text  # a time that no calendar has may well be why the row is here
    return str(value)
