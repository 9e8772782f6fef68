"""`tolerant explain` of joins: what they keep, which state would grow without bound, and what `KEEP` has found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import typer

from tolerant.cli.figures import table_figures
from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.client import kept_share, load_catalogue
from tolerant.sql import CreateQuery, PipelineId, StatementError, parse
from tolerant.sql.lookups import lookup_table
from tolerant.sql.spreads import copies, is_by_range
from tolerant.sql.statements import BandJoinSelect, EqualityJoinSelect, KeepJoinSelect
from tolerant.transport import Log

JOINS = (BandJoinSelect, EqualityJoinSelect, KeepJoinSelect)


@dataclass(frozen=True)
class Spread:
    """How a join is spread over its shards. `by`: "values" and "ranges" are of what rows are joined on, and a shard has
    the rows of its own; by "subscriptions" it has all rows, and its own subscriptions. `copies`: in how many shards a
    row of each table is, on average by estimate; `otherwise`: what it would be spread by ranges, where that is known.
    """

    shards: int
    by: str
    copies: tuple[float, float]
    otherwise: tuple[float, float] | None = None


@dataclass(frozen=True)
class JoinExplanation:
    """What a join of two tables keeps. `keep`: at most so many rows; None: every row of the tables `grows`, and if they
    do, the state without bound. `kept`: rows that are kept now, None before the query runs. `found` and `share`: result
    rows so far, and the part of all that they are, by estimate with its standard `error`; of joins with `KEEP`.
    `looked_up`: the table whose rows are fetched from its file where they are not kept. All results are found then:
    `kept` are rows of that table, `share` is the part of the rows looked up that were held, `fetched` the others.
    """

    query: str
    tables: tuple[str, str]
    started: bool
    keep: int | None
    grows: tuple[str, ...]
    kept: int | None = None
    found: int | None = None
    share: float | None = None
    error: float | None = None
    looked_up: str | None = None
    fetched: int | None = None
    spread: Spread | None = None


def explain_planned(text: str, as_json: bool) -> bool:
    """Explain a join that has not been started, if this is the text of a statement; whether it is."""
    if " " not in text.strip():
        return False
    _say(planned_join(text), as_json)
    return True


def explain_join(log: Log, name: str, as_json: bool) -> bool:
    """Explain the query, if it is a join; whether it is."""
    catalogue = load_catalogue(log)
    query = catalogue.queries.get(name)
    if query is None or not isinstance(query.select, JOINS):
        return False
    table = lookup_table(query, catalogue)
    _say(standing_join(log, query, None if table is None else table.name), as_json)
    return True


def _say(found: JoinExplanation, as_json: bool) -> None:
    typer.echo(json.dumps(asdict(found))) if as_json else _show(found)


def planned_join(text: str) -> JoinExplanation:
    """The explanation of a join that has not been started, from its statement: `CREATE QUERY …` or the select alone.

    Raises:
        CommandError: it is no join of two tables.
    """
    written = text.strip().rstrip(";")
    statement = written if written.upper().startswith("CREATE") else f"CREATE QUERY planned AS {written}"
    try:
        query = parse(statement)
        limited = True
    except StatementError as error:
        # A join of all rows is no statement; with a limit it would be one, and this says what it lacks.
        try:
            query, limited = parse(f"{statement} KEEP 1 ROWS"), False
        except StatementError:
            raise CommandError(str(error)) from None
    if not isinstance(query, CreateQuery) or not isinstance(query.select, JOINS):
        raise CommandError("only joins of two tables can be explained before they are started; name a query that runs")
    select = query.select
    tables = (select.left, select.right)
    keep = select.rows if limited and isinstance(select, KeepJoinSelect) else None
    grows = () if keep is not None else tables
    return JoinExplanation(query.name, tables, False, keep, grows, spread=spread_of(select))


def standing_join(log: Log, query: CreateQuery, looked_up: str | None = None) -> JoinExplanation:
    """The explanation of a join that stands, from what its pipeline last said. `looked_up`: the table that is."""
    select = query.select
    assert isinstance(select, JOINS)
    tables = (select.left, select.right)
    figures = table_figures(log, str(PipelineId.of(select)))
    if not isinstance(select, KeepJoinSelect):
        kept = None if figures is None else figures["rows"]
        return JoinExplanation(query.name, tables, True, None, tables, kept, spread=spread_of(select))
    own = {} if figures is None else figures["figures"].get(query.name, {})
    said = kept_share(log, query.name, select.shards)
    return JoinExplanation(
        query.name,
        tables,
        True,
        select.rows,
        (),
        own.get("kept"),
        own.get("found") if said is None else said.found,
        own.get("share") if said is None else said.share,
        own.get("error") if said is None else said.error,
        looked_up,
        own.get("fetched") if said is None else said.fetched,
    )


def spread_of(select: BandJoinSelect | EqualityJoinSelect | KeepJoinSelect) -> Spread | None:
    """How a join is spread; None: it has one shard."""
    shards, all_of_them = select.shards, float(select.shards)
    if shards == 1:
        return None
    if not isinstance(select, BandJoinSelect):
        return Spread(shards, "values", (1.0, 1.0))
    estimate = copies(select)
    if is_by_range(select):
        return Spread(shards, "ranges", (1.0, estimate or 1.0))
    ranged = None if estimate is None else (1.0, estimate)
    return Spread(shards, "subscriptions", (all_of_them, all_of_them), ranged)


def _show_spread(console: Screen, found: JoinExplanation, spread: Spread) -> None:
    one, other = map(shown, found.tables)
    if spread.by == "values":
        console.print(f"{spread.shards} shards have the rows of both tables by what they are joined on.")
        return
    if spread.by == "ranges":
        console.print(
            f"{spread.shards} shards have ranges of what is compared: a row of {one} is in one of them, a row of"
            f" {other} where a band can reach it, in {spread.copies[1]:.2f} on average. All have all subscriptions."
        )
        return
    why = (
        "lowest, highest and reach are not given, by which rows could be spread instead"
        if spread.otherwise is None
        else "spread by ranges, bands would reach into all of them too"
    )
    console.print(f"{spread.shards} shards have the subscriptions between them, and all rows of both tables: {why}.")


def _show(found: JoinExplanation) -> None:
    console = Screen()
    if found.spread is not None:
        _show_spread(console, found, found.spread)
    one, other = map(shown, found.tables)
    if found.keep is None:
        begun = "keeps" if found.started else "would keep"
        console.print(f"[bold]{shown(found.query)}[/bold] {begun} every row of {one} and every row of {other}.")
        console.print("Where a table only grows, so does this state, without bound.")
        if found.kept is not None:
            console.print(f"There are {found.kept:,} rows now.")
        console.print(f"SELECT * FROM {one} JOIN {other} ON … KEEP n ROWS keeps the n rows that promise most results.")
        return
    if found.looked_up is not None:
        _show_looked_up(console, found, found.looked_up)
        return
    console.print(f"[bold]{shown(found.query)}[/bold] keeps at most {found.keep:,} rows of {one} and {other} together.")
    if found.kept is not None:
        console.print(f"There are {found.kept:,} rows now.")
    if found.found is not None and found.share is not None and found.error is not None:
        console.print(
            f"It has found {found.found:,} results: about {found.share:.1%} (± {found.error:.1%}) of what room for"
            " every row would have given."
        )


def _show_looked_up(console: Screen, found: JoinExplanation, table: str) -> None:
    (other,) = (shown(one) for one in found.tables if one != table)
    console.print(
        f"[bold]{shown(found.query)}[/bold] looks each row of {other} up in {shown(table)}, of which it keeps at most"
        f" {found.keep:,} rows. All results are found; a row that is not kept is fetched."
    )
    if found.kept is not None:
        console.print(f"There are {found.kept:,} rows now.")
    if found.found is not None and found.share is not None and found.error is not None:
        console.print(
            f"It has found {found.found:,} results. {found.share:.1%} (± {found.error:.1%}) of the rows looked up were"
            f" held, {found.fetched or 0:,} were fetched."
        )
