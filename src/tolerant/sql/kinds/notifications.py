"""Notifications: an exact aggregate over a range of a column, pushed only when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.bounded import ASK_FOR_WITHIN
from tolerant.sql.kinds.kind import Kind, ranges
from tolerant.sql.kinds.ranges import check_ranges
from tolerant.sql.shape import Shape
from tolerant.sql.statements import CreateQuery, CreateTable, Function, RangeAggregateSelect, Select
from tolerant.sql.types import NUMERIC

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _recognise(shape: Shape) -> Select | None:
    found = ranges(shape)
    if (
        shape.clauses.written()
        or len(shape.relations) != 1
        or not found
        or len(found) != 1
        or shape.group_by
        or shape.star
    ):
        return None
    relation, where = shape.relations[0], found[0][1]
    if shape.distinct and len(shape.columns) == 1 and not shape.aggregates:
        return RangeAggregateSelect(relation, "distinct", shape.columns[0].name, where)
    if shape.distinct or shape.columns or len(shape.aggregates) != 1:
        return None
    aggregate = shape.aggregates[0]
    if len(aggregate.columns) > 1 or aggregate.factor != 1.0:
        return None
    column = aggregate.columns[0].name if aggregate.columns else None
    return RangeAggregateSelect(relation, cast(Function, aggregate.fn), column, where)


def _covers(select: Select, catalogue: Catalogue) -> bool:
    if not isinstance(select, RangeAggregateSelect):
        return False
    if select.relation in catalogue.streams and select.fn != "distinct":
        raise StatementError(
            f"expected WITHIN and a number: {select.relation} is a stream",
            expected="WITHIN and a number",
            hint=ASK_FOR_WITHIN,
            about=("FROM", select.relation),
        )
    return True


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    select = query.select
    assert isinstance(select, RangeAggregateSelect)
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


KIND = Kind(
    "notifications",
    "exact aggregates over a range, said when they change",
    True,
    _covers,
    _recognise,
    _check,
    templates=True,
)
