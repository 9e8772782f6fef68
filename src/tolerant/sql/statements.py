"""Statements, parsed: frozen dataclasses. Two are equal when they say the same, however they were written.

What a query selects is a `Select`; its kind has the class (`tolerant.kinds`), but for the aggregates over streams,
which several kinds share and sources read. Durations are microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, get_args

from tolerant.sql.names import quoted
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.predicates import Predicate, columns
from tolerant.sql.select import Range, Select
from tolerant.sql.sql_text import number, predicate_text, qualifier_of
from tolerant.streams import Column, KeyPart, Stream, TableOptions

if TYPE_CHECKING:
    from pathlib import Path

    from tolerant.sql.catalogue import Catalogue

Function: TypeAlias = Literal["sum", "avg", "min", "max", "count"]
FUNCTIONS: tuple[Function, ...] = get_args(Function)
Otherwise: TypeAlias = Literal["widen", "withhold"]


@dataclass(frozen=True)
class Weight:
    """The weights of a bounded aggregate's items: a column of a joined table.

    `on` pairs a key column of the stream with a column of the table. `values` has the table's content as (key,
    weight) rows, sorted, the key's parts in the order of `on`; None until `tolerant.sql.with_files` has read the
    table. An item without a row is not part of the query (an inner join).
    """

    table: str
    column: str
    on: tuple[tuple[str, str], ...]
    values: tuple[tuple[tuple[KeyPart, ...], float], ...] | None = None


@dataclass(frozen=True)
class AggregateSelect(Select):
    """`SELECT fn(factor * column * weight) FROM stream WHERE … GROUP BY … WITHIN … FIDELITY … OTHERWISE …`.

    `where` and `group_by` are on the stream's key columns; each group is a query with the same tolerance. `avg`
    divides by the number of items. `column` is the stream's value as the statement names it; None: `COUNT(*)`, or not
    said.
    """

    stream: str
    fn: Function
    where: Predicate | None = None
    group_by: tuple[str, ...] = ()
    factor: float = 1.0
    weight: Weight | None = None
    within: float = 0.0
    fidelity: float = 1.0
    otherwise: Otherwise = "widen"
    column: str | None = None

    FILE_CONTENT = "weights"

    @property
    def relations(self) -> tuple[str, ...]:
        """`Select.relations`."""
        return (self.stream,) if self.weight is None else (self.stream, self.weight.table)

    @property
    def aggregate(self) -> AggregateSelect:
        """`Select.aggregate`."""
        return self

    @property
    def conditions(self) -> tuple[Predicate | None, ...]:
        """`Select.conditions`."""
        return (self.where,)

    @property
    def pipeline(self) -> PipelineId:
        """That of the stream, whatever weights are joined."""
        return PipelineId((self.stream,))

    @property
    def tolerance(self) -> float:
        """`Select.tolerance`."""
        return self.within

    def with_tolerance(self, within: float) -> Self:
        """`Select.with_tolerance`."""
        return replace(self, within=within)

    def without_files(self) -> Self:
        """The select without its weights."""
        return self if self.weight is None else replace(self, weight=replace(self.weight, values=None))

    def with_files(self, catalogue: Catalogue, base_dir: Path) -> Self:
        """The select with its weights."""
        from tolerant.sql.weights import with_weights  # it needs Arrow, which most statements do not

        return self if self.weight is None else replace(self, weight=with_weights(self.weight, catalogue, base_dir))

    def missing_file(self, tables: dict[str, CreateTable]) -> str:
        """`Select.missing_file`."""
        lacks_weights = self.weight is not None and self.weight.values is None
        return "the weights are missing: the sender fills them in with with_files" if lacks_weights else ""

    @property
    def selected_ranges(self) -> None:
        """An aggregate with a tolerance selects items by their keys."""
        return None

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        stream = quoted(self.stream)
        named = (self.column, *self.group_by, *columns(self.where))
        qualifier = f"{stream}." if self.weight or qualifier_of(stream, named, parameters) else ""
        argument = "*" if self.column is None else qualifier + quoted(self.column)
        if self.weight:
            argument += f" * {quoted(self.weight.table)}.{quoted(self.weight.column)}"
        scale = f"{number(self.factor)} * " if self.factor != 1.0 else ""
        aggregated = f"{self.fn.upper()}({scale}{argument})" if argument != "*" else f"{scale}{self.fn.upper()}(*)"
        groups = [qualifier + quoted(column) for column in self.group_by]
        parts = [f"SELECT {', '.join([*groups, aggregated])} FROM {stream}"]
        if self.weight:
            table = quoted(self.weight.table)
            pairs = (f"{stream}.{quoted(left)} = {table}.{quoted(right)}" for left, right in self.weight.on)
            parts.append(f"JOIN {table} ON {' AND '.join(pairs)}")
        if self.where is not None:
            parts.append(f"WHERE {predicate_text(self.where, qualifier)}")
        if groups:
            parts.append(f"GROUP BY {', '.join(groups)}")
        parts.append(f"WITHIN {number(self.within)}")
        if self.fidelity != 1.0:
            parts.append(f"FIDELITY {number(self.fidelity)}")
        if self.otherwise != "widen":
            parts.append(f"OTHERWISE {self.otherwise.upper()}")
        return " ".join(parts)

    @property
    def withholds(self) -> bool:
        """Whether its answers are withheld while they are not settled."""
        return self.otherwise == "withhold"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What every statement has: the text it was written as, and where that began in its file (from 1)."""

    text: str = field(default="", compare=False, repr=False)
    line: int = field(default=1, compare=False, repr=False)
    column: int = field(default=1, compare=False, repr=False)

    kind: ClassVar[str]
    """The kind of its row in the topic `queries`."""

    @property
    def about(self) -> str:
        """The name of the stream, table or query that it is about."""
        return str(getattr(self, "name", ""))


@dataclass(frozen=True, kw_only=True)
class Creation(Statement):
    """`CREATE … [IF NOT EXISTS] …`: with the flag, something of that name is left as it is, the same or not.

    The flag is no part of what is created: two statements that differ in it alone are equal.
    """

    if_not_exists: bool = field(default=False, compare=False, repr=False, metadata={"travels": True})


@dataclass(frozen=True, kw_only=True)
class LocalStatement(Statement):
    """A statement that is carried out by whoever reads it; it never goes into the topic of statements."""


@dataclass(frozen=True)
class CreateStream(Creation):
    """`CREATE STREAM name (…) KEY (…) FROM 'uri' WITH (…)`."""

    stream: Stream
    kind: ClassVar[str] = "stream"

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name


@dataclass(frozen=True)
class CreateTable(Creation):
    """`CREATE TABLE name (…) KEY (…) FROM 'uri' WITH (…)`; no `uri`: its rows come through the log."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    uri: str | None = None
    options: TableOptions = field(default_factory=TableOptions)
    kind: ClassVar[str] = "table"

    def type_of(self, column: str) -> str | None:
        """The type of a column; None: there is no such column."""
        return next((c.type for c in self.columns if c.name == column), None)


Tables: TypeAlias = CreateTable | Sequence[CreateTable]
"""The table of a query, or the two that it joins, in any order."""


def types_in(tables: Tables, name: str, ranges: Sequence[Range]) -> list[str | None]:
    """The types of the columns of a table that the ranges are on."""
    listed = [tables] if isinstance(tables, CreateTable) else tables
    table = next(table for table in listed if table.name == name)
    return [table.type_of(part.column) for part in ranges]


@dataclass(frozen=True)
class CreateQuery(Creation):
    """`CREATE QUERY name(parameter, …) AS select`; with parameters it is a template."""

    name: str
    parameters: tuple[str, ...]
    select: Select
    kind: ClassVar[str] = "query"


@dataclass(frozen=True)
class AlterQuery(Statement):
    """`ALTER QUERY name WITHIN number`."""

    name: str
    within: float
    kind: ClassVar[str] = "alter"


@dataclass(frozen=True)
class Drop(Statement):
    """`DROP QUERY | STREAM | TABLE name`."""

    what: Literal["query", "stream", "table"]
    name: str
    kind: ClassVar[str] = "drop"


@dataclass(frozen=True)
class Subscribe(Statement):
    """`SUBSCRIBE name(value, …)`, or `SUBSCRIBE name FROM 'uri'` for a table of parameter rows."""

    name: str
    values: tuple[KeyPart, ...] = ()
    uri: str | None = None
    kind: ClassVar[str] = "subscribe"


@dataclass(frozen=True)
class Unsubscribe(Statement):
    """`UNSUBSCRIBE name(value, …)` or `UNSUBSCRIBE name FROM 'uri'`: takes back what the same SUBSCRIBE gave."""

    name: str
    values: tuple[KeyPart, ...] = ()
    uri: str | None = None
    kind: ClassVar[str] = "unsubscribe"


@dataclass(frozen=True)
class Show(LocalStatement):
    """`SHOW QUERIES | STREAMS | TABLES`, or `SHOW SUBSCRIPTIONS [TO query] [LIMIT n] [OFFSET n]`."""

    what: Literal["queries", "streams", "tables", "subscriptions"]
    name: str = ""
    limit: int | None = None
    offset: int = 0
    kind: ClassVar[str] = "show"


@dataclass(frozen=True)
class InsertRows(LocalStatement):
    """`INSERT INTO name (column, …) VALUES (value, …), …`; no columns: all of them, in the table's order."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[KeyPart, ...], ...]
    kind: ClassVar[str] = "insert"


@dataclass(frozen=True)
class DeleteRows(LocalStatement):
    """`DELETE FROM name WHERE` a condition that names keys."""

    name: str
    where: Predicate
    kind: ClassVar[str] = "delete"


@dataclass(frozen=True)
class SelectRows(LocalStatement):
    """`SELECT … FROM name …`, once: `tolerant.sql.row_selects` reads `sql` and carries it out."""

    name: str
    sql: str
    kind: ClassVar[str] = "select"
