"""Statements, parsed: frozen dataclasses. Two are equal when they say the same, however they were written.

What a query selects is one of the `…Select` classes, a class for each shape; which kind of query that makes is
decided by `tolerant.sql.kinds`, where the stream's or table's definition is known. Durations are microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

from tolerant.sql.predicates import Operand, Predicate
from tolerant.streams import Column, KeyPart, Stream, TableOptions

Function: TypeAlias = Literal["sum", "avg", "min", "max", "count"]
Otherwise: TypeAlias = Literal["widen", "withhold"]


@dataclass(frozen=True)
class Weight:
    """The weights of a bounded aggregate's items: a column of a joined table.

    `on` pairs a key column of the stream with a column of the table. `values` has the table's content as (key,
    weight) rows, sorted, the key's parts in the order of `on`; None until `tolerant.sql.with_weights` has read the
    table. An item without a row is not part of the query (an inner join).
    """

    table: str
    column: str
    on: tuple[tuple[str, str], ...]
    values: tuple[tuple[tuple[KeyPart, ...], float], ...] | None = None


@dataclass(frozen=True)
class AggregateSelect:
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


@dataclass(frozen=True)
class Range:
    """`column BETWEEN low AND high`, each end a number or a parameter."""

    column: str
    low: Operand
    high: Operand


@dataclass(frozen=True)
class Sharing:
    """How the subscriptions to a template share channels, `WITH (channel = …, …)`.

    The prices are in any one currency, only their ratios count: `channel` of a channel per period, `transfer` of a
    row sent, `waste` of a row that a subscriber receives and did not ask for. By default a channel costs as much as a
    row sent, and so do twenty wasted rows, as in [CBGM]. `procedure`: what a channel carries. `method`
    "none": nothing is shared.
    """

    channel: float = 1.0
    transfer: float = 1.0
    waste: float = 0.05
    procedure: Literal["box", "union", "pieces"] = "box"
    method: Literal["pairs", "none"] = "pairs"


@dataclass(frozen=True)
class RangeSelect:
    """`SELECT * FROM relation WHERE` a range on one or two columns: everything in it."""

    relation: str
    ranges: tuple[Range, ...]
    sharing: Sharing = Sharing()


@dataclass(frozen=True)
class RangeAggregateSelect:
    """`SELECT fn(column) FROM relation WHERE` a range on a column: exact, said when it changes.

    `column` None: `COUNT(*)`.
    """

    relation: str
    fn: Literal["sum", "avg", "min", "max", "count", "distinct"]
    column: str | None
    range: Range


@dataclass(frozen=True)
class EqualityJoinSelect:
    """`left JOIN right ON left.a = right.b` with a range on a column of each side.

    `shards`: over how many the rows are spread, by what they are joined on; `WITH (shards = n)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    left_range: Range
    right_range: Range
    shards: int = 1


@dataclass(frozen=True)
class Stretch:
    """What is known beforehand of a band join: its columns are about from `lowest` to `highest`, and no band is beyond
    ± `reach`. A row outside does no harm; a band is refused.
    """

    lowest: float
    highest: float
    reach: float


@dataclass(frozen=True)
class BandJoinSelect:
    """`left JOIN right ON right.b - left.a BETWEEN low AND high`; `on` is (a, b).

    `shards`: over how many the subscriptions or the rows are spread; `WITH (shards = n)`. `stretch`: what lets
    `tolerant.sql.spreads` choose; `WITH (…, lowest = x, highest = y, reach = z)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    low: Operand
    high: Operand
    shards: int = 1
    stretch: Stretch | None = None


@dataclass(frozen=True)
class KeepJoinSelect:
    """`left JOIN right ON left.a = right.b KEEP rows ROWS`.

    `file`: where one of the tables is looked up in its file (`tolerant.sql.lookups`), what the file held when the query
    was created: a digest of it; None until `tolerant.sql.with_lookup` has read it. `shards`: over how many the rows
    that are kept are spread, by what they are joined on; `WITH (shards = n)`.
    """

    left: str
    right: str
    on: tuple[str, str]
    rows: int
    file: str | None = None
    shards: int = 1


@dataclass(frozen=True)
class Tally:
    """`(SELECT fn(column) FROM table WHERE …)`: a number that is kept of a table; `column` None: `COUNT(*)`."""

    table: str
    fn: Literal["count", "sum", "avg"]
    column: str | None = None
    where: Predicate | None = None


@dataclass(frozen=True)
class Trigger:
    """`WHEN condition`: what has to become true for a view to be brought up to date unasked.

    `condition` is on columns "0", "1", …: the tallies, by their places.
    """

    tallies: tuple[Tally, ...]
    condition: Predicate


@dataclass(frozen=True)
class ViewSelect:
    """Any select over tables, as Spark SQL, that can be brought up to date in `refresh` microseconds; `when`: and is,
    whenever that becomes true.
    """

    sql: str
    tables: tuple[str, ...]
    refresh: int
    when: Trigger | None = None


Select: TypeAlias = (
    AggregateSelect
    | RangeSelect
    | RangeAggregateSelect
    | EqualityJoinSelect
    | BandJoinSelect
    | KeepJoinSelect
    | ViewSelect
)


def relations(select: Select) -> tuple[str, ...]:
    """The streams and tables that a select reads."""
    match select:
        case AggregateSelect(stream=stream, weight=weight):
            return (stream,) if weight is None else (stream, weight.table)
        case EqualityJoinSelect() | BandJoinSelect() | KeepJoinSelect():
            return (select.left, select.right)
        case ViewSelect(tables=tables):
            return tables
        case _:
            return (select.relation,)


def conditions_of(select: Select) -> tuple[Predicate | None, ...]:
    """The conditions that a select has, of whatever nesting."""
    match select:
        case AggregateSelect(where=where):
            return (where,)
        case ViewSelect(when=Trigger(tallies, condition)):
            return (condition, *(tally.where for tally in tallies))
        case _:
            return ()


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
