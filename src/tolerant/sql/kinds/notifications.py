"""Notifications: an exact aggregate over a range of a column, pushed only when it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.bounded import ASK_FOR_WITHIN
from tolerant.sql.kinds.kind import Kind, ranges
from tolerant.sql.shape import Shape
from tolerant.sql.statements import Function, RangeAggregateSelect, Select

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


KIND = Kind("notifications", "exact aggregates over a range, said when they change", False, _covers, _recognise)
