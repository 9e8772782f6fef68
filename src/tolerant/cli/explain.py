"""`tolerant explain QUERY`: where the tolerance goes, what a join keeps, who shares a channel, what a view takes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol, runtime_checkable

import typer

from tolerant.cli.explain_joins import planned_join
from tolerant.cli.extras import need_extra
from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, Picture, existing_log
from tolerant.cli.reporting import CommandError
from tolerant.cli.text import visible
from tolerant.client import load_catalogue
from tolerant.sql.query_kind import Explanation, kind_of, resolve
from tolerant.sql.refusals import no_such
from tolerant.transport import Log


@runtime_checkable
class Drawn(Protocol):
    """An explanation that has a picture."""

    def draw(self, path: Path) -> None:
        """Draws the picture into a PNG file."""
        ...


@dataclass(frozen=True)
class Unexplained:
    """Of a query whose kind has nothing to explain."""

    query: str

    def record(self) -> dict[str, Any]:
        """Raises CommandError."""
        raise CommandError(f"query {self.query} has no tolerance to explain")

    def show(self) -> None:
        """Raises CommandError."""
        self.record()


def explain(
    query: Annotated[str, typer.Argument(help="The query; or a join that is not started yet, as a statement.")],
    log: LogUri = DEFAULT_LOG,
    as_json: Json = False,
    picture: Picture = None,
) -> None:
    """Show where a query's tolerance goes: each item's width, rate and burden, and what ± more would change.

    Of a query for everything in a range: who shares a channel, and what that saves. Of a join: what it keeps, and which
    state would grow without bound. Of a view: what bringing it up to date would take.
    """
    if picture is not None:
        need_extra("pictures", "a picture")
    if " " in query.strip():
        _say(planned_join(query), as_json)
        return
    with_log = existing_log(log)
    try:
        explanation = explained(with_log, query)
    finally:
        with_log.close()
    if picture is not None and isinstance(explanation, Drawn):
        explanation.draw(picture)
    elif picture is not None:
        raise CommandError(f"there is no picture of query {query}: it has no channels")
    _say(explanation, as_json)
    if picture is not None and not as_json:
        typer.echo(visible(f"Ranges and channels are drawn in {picture}."))


def explained(log: Log, name: str) -> Explanation:
    """The explanation of a query, as its kind makes it, from what its pipeline last said about itself.

    Raises:
        CommandError: there is no such query, or its pipeline has said nothing yet.
    """
    catalogue = load_catalogue(log)
    query = catalogue.queries.get(name)
    if query is None:
        raise CommandError(no_such("query", name, catalogue.queries))
    kind = kind_of(query.select, catalogue)
    explanation: Explanation = resolve(kind.explain)(log, query, catalogue) if kind.explain else Unexplained(name)
    return explanation


def _say(explanation: Explanation, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(explanation.record()))
    else:
        explanation.show()
