"""An aggregate over a range of a table's column: exact, said when it changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tolerant.sql.errors import StatementError
from tolerant.sql.names import quoted
from tolerant.sql.range_checks import check_ranges
from tolerant.sql.select import Range, Select
from tolerant.sql.shape import Shape, between_ranges
from tolerant.sql.sql_text import qualifier_of, range_text
from tolerant.sql.statements import FUNCTIONS, CreateQuery, CreateTable, Tables, types_in
from tolerant.sql.tolerances import ASK_FOR_WITHIN
from tolerant.sql.types import NUMERIC

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


@dataclass(frozen=True)
class RangeAggregateSelect(Select):
    """`SELECT fn(column) FROM relation WHERE` a range on a column: exact, said when it changes.

    `column` None: `COUNT(*)`.
    """

    relation: str
    fn: Literal["sum", "avg", "min", "max", "count", "distinct"]
    column: str | None
    range: Range

    @property
    def relations(self) -> tuple[str, ...]:
        """`Select.relations`."""
        return (self.relation,)

    @property
    def selected_ranges(self) -> tuple[Range, ...]:
        """`Select.selected_ranges`."""
        return (self.range,)

    def range_types(self, tables: Tables) -> list[str | None]:
        """`Select.range_types`."""
        return types_in(tables, self.relation, (self.range,))

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        owner = qualifier_of(self.relation, (self.column, self.range.column), parameters)
        argument = "*" if self.column is None else (f"{quoted(owner)}." if owner else "") + quoted(self.column)
        what = f"DISTINCT {argument}" if self.fn == "distinct" else f"{self.fn.upper()}({argument})"
        return f"SELECT {what} FROM {quoted(self.relation)} WHERE {range_text(self.range, owner)}"


def recognise(shape: Shape) -> RangeAggregateSelect | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
    bounds = between_ranges(shape)
    if (
        shape.clauses.written()
        or len(shape.relations) != 1
        or not bounds
        or len(bounds) != 1
        or shape.group_by
        or shape.star
    ):
        return None
    relation, where = shape.relations[0], bounds[0][1]
    if shape.distinct and len(shape.columns) == 1 and not shape.aggregates:
        return RangeAggregateSelect(relation, "distinct", shape.columns[0].name, where)
    if shape.distinct or shape.columns or len(shape.aggregates) != 1:
        return None
    aggregate = shape.aggregates[0]
    if len(aggregate.columns) > 1 or aggregate.factor != 1.0 or aggregate.fn not in FUNCTIONS:
        return None
    column = aggregate.columns[0].name if aggregate.columns else None
    return RangeAggregateSelect(relation, aggregate.fn, column, where)


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    select = RangeAggregateSelect.of(query)
    if select.relation in catalogue.streams and select.fn != "distinct":
        raise StatementError(
            f"expected WITHIN and a number: {select.relation} is a stream",
            expected="WITHIN and a number",
            hint=ASK_FOR_WITHIN,
            about=("FROM", select.relation),
        )
    table = catalogue.table(select.relation)
    check_ranges(query, (select.range,), table)
    _check_aggregated(select, table)


def _check_aggregated(select: RangeAggregateSelect, table: CreateTable) -> None:
    """Any column can be counted or told apart; the other functions take numbers."""
    what = "DISTINCT" if select.fn == "distinct" else select.fn.upper()
    type_name = table.type_of(select.column) if select.column else None
    if (select.fn == "count" and select.column is None) or type_name in NUMERIC:
        return
    if type_name is not None and select.fn in ("count", "distinct"):
        return
    fitting = [c.name for c in table.columns if c.type in NUMERIC or select.fn in ("count", "distinct")]
    raise StatementError(
        f"{what} takes a column of numbers; {select.column} is {type_name}"
        if type_name is not None
        else f"table {table.name} has no column {select.column or '*'}",
        expected=f"one of {', '.join(fitting)}",
        found=select.column or "*",
        about=("SELECT", select.column or "*"),
    )
