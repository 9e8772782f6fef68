"""`tolerant explain` of joins: what they keep, which state would grow without bound, and what `KEEP` has found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tolerant.cli.figures import table_figures
from tolerant.cli.reporting import CommandError
from tolerant.cli.text import Screen, shown
from tolerant.client import kept_share
from tolerant.kinds.joins.select import JoinSelect
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.sql import Catalogue, CreateQuery, PipelineId, StatementError, parse
from tolerant.transport import Log


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

    def record(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)

    def show(self) -> None:
        """For people."""
        _show(self)


def explained(log: Log, query: CreateQuery, catalogue: Catalogue) -> JoinExplanation:
    """The explanation of a join that stands."""
    keep = KeepJoinSelect.matching(query)
    table = None if keep is None else keep.lookup_table(catalogue)
    return standing_join(log, query, None if table is None else table.name)


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
    select = JoinSelect.matching(query) if isinstance(query, CreateQuery) else None
    if not isinstance(query, CreateQuery) or select is None:
        raise CommandError("only joins of two tables can be explained before they are started; name a query that runs")
    tables = (select.left, select.right)
    keep = select.kept_rows if limited else None
    grows = () if keep is not None else tables
    return JoinExplanation(query.name, tables, False, keep, grows, spread=spread_of(select))


def standing_join(log: Log, query: CreateQuery, looked_up: str | None = None) -> JoinExplanation:
    """The explanation of a join that stands, from what its pipeline last said. `looked_up`: the table that is."""
    select = JoinSelect.of(query)
    tables = (select.left, select.right)
    figures = table_figures(log, str(PipelineId.of(select)))
    if select.kept_rows is None:
        kept = None if figures is None else figures["rows"]
        return JoinExplanation(query.name, tables, True, None, tables, kept, spread=spread_of(select))
    own = {} if figures is None else figures["figures"].get(query.name, {})
    share = kept_share(log, query.name, select.shards)
    return JoinExplanation(
        query.name,
        tables,
        True,
        select.kept_rows,
        (),
        own.get("kept"),
        own.get("found") if share is None else share.found,
        own.get("share") if share is None else share.share,
        own.get("error") if share is None else share.error,
        looked_up,
        own.get("fetched") if share is None else share.fetched,
    )


def spread_of(select: JoinSelect) -> Spread | None:
    """How a join is spread; None: it has one shard."""
    shards, all_of_them = select.shards, float(select.shards)
    if shards == 1:
        return None
    estimate = select.copies
    if select.spread_ranges is not None:
        return Spread(shards, "ranges", (1.0, estimate or 1.0))
    if select.pipeline.by_value:
        return Spread(shards, "values", (1.0, 1.0))
    ranged = None if estimate is None else (1.0, estimate)
    return Spread(shards, "subscriptions", (all_of_them, all_of_them), ranged)


def _show_spread(console: Screen, join: JoinExplanation, spread: Spread) -> None:
    first, second = map(shown, join.tables)
    if spread.by == "values":
        console.print(f"{spread.shards} shards have the rows of both tables by what they are joined on.")
        return
    if spread.by == "ranges":
        console.print(
            f"{spread.shards} shards have ranges of what is compared: a row of {first} is in one of them, a row of"
            f" {second} where a band can reach it, in {spread.copies[1]:.2f} on average. All have all subscriptions."
        )
        return
    why = (
        "lowest, highest and reach are not given, by which rows could be spread instead"
        if spread.otherwise is None
        else "spread by ranges, bands would reach into all of them too"
    )
    console.print(f"{spread.shards} shards have the subscriptions between them, and all rows of both tables: {why}.")


def _show(join: JoinExplanation) -> None:
    console = Screen()
    if join.spread is not None:
        _show_spread(console, join, join.spread)
    first, second = map(shown, join.tables)
    if join.keep is None:
        begun = "keeps" if join.started else "would keep"
        console.print(f"[bold]{shown(join.query)}[/bold] {begun} every row of {first} and every row of {second}.")
        console.print("Where a table only grows, so does this state, without bound.")
        if join.kept is not None:
            console.print(f"There are {join.kept:,} rows now.")
        console.print(
            f"SELECT * FROM {first} JOIN {second} ON … KEEP n ROWS keeps the n rows that promise most results."
        )
        return
    if join.looked_up is not None:
        _show_looked_up(console, join, join.looked_up)
        return
    console.print(
        f"[bold]{shown(join.query)}[/bold] keeps at most {join.keep:,} rows of {first} and {second} together."
    )
    if join.kept is not None:
        console.print(f"There are {join.kept:,} rows now.")
    if join.found is not None and join.share is not None and join.error is not None:
        console.print(
            f"It has found {join.found:,} results: about {join.share:.1%} (± {join.error:.1%}) of what room for"
            " every row would have given."
        )


def _show_looked_up(console: Screen, join: JoinExplanation, table: str) -> None:
    (other,) = (shown(name) for name in join.tables if name != table)
    console.print(
        f"[bold]{shown(join.query)}[/bold] looks each row of {other} up in {shown(table)}, of which it keeps at most"
        f" {join.keep:,} rows. All results are found; a row that is not kept is fetched."
    )
    if join.kept is not None:
        console.print(f"There are {join.kept:,} rows now.")
    if join.found is not None and join.share is not None and join.error is not None:
        console.print(
            f"It has found {join.found:,} results. {join.share:.1%} (± {join.error:.1%}) of the rows looked up were"
            f" held, {join.fetched or 0:,} were fetched."
        )
