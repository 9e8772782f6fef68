"""Merging: `SELECT *` with BETWEEN on one or two columns, over shared channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.kind import Kind, allow_clauses, ranges
from tolerant.sql.shape import Shape
from tolerant.sql.statements import RangeSelect, Select

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _recognise(shape: Shape) -> Select | None:
    if not shape.star or shape.distinct or shape.aggregates or len(shape.relations) != 1 or shape.group_by:
        return None
    found = ranges(shape)
    columns = {where.column for _, where in found or ()}
    if not found or len(found) > 2 or len(columns) != len(found):
        raise StatementError(
            "expected WHERE with BETWEEN on one or two columns",
            expected="WHERE column BETWEEN low AND high [AND column BETWEEN low AND high]",
            found="other conditions" if shape.where else "no WHERE",
            span=shape.where[0].span if shape.where else shape.end,
        )
    allow_clauses(shape, (), "a query for everything in a range")
    return RangeSelect(shape.relations[0], tuple(where for _, where in found))


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, RangeSelect)


KIND = Kind("merging", "everything in a range, over shared channels", False, _covers, _recognise)
