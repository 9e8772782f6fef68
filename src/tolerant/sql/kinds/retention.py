"""Retention: a join of two tables that only grow, with memory for n rows; `KEEP n ROWS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.joins import check_joined
from tolerant.sql.kinds.kind import Kind, allow_clauses, sides
from tolerant.sql.shape import Shape
from tolerant.sql.statements import CreateQuery, KeepJoinSelect, Select

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _recognise(shape: Shape) -> Select | None:
    if shape.clauses.keep is None:
        return None
    allow_clauses(shape, ("keep",), "a join with KEEP")
    plain = shape.star and not (shape.distinct or shape.group_by or shape.aggregates or shape.bands or shape.where)
    if not plain or len(shape.relations) != 2 or len(shape.equalities) != 1:
        raise StatementError(
            "KEEP belongs to SELECT * from a join of two tables on equality of a column of each",
            expected="SELECT * FROM r JOIN s ON r.b = s.b KEEP n ROWS",
            found="another select",
            span=shape.clauses.spans.get("keep"),
        )
    left, right = shape.relations
    on = sides(shape, shape.equalities[0].left, shape.equalities[0].right)
    return KeepJoinSelect(left, right, on, shape.clauses.keep)


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, KeepJoinSelect)


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    select = query.select
    assert isinstance(select, KeepJoinSelect)
    left, right = catalogue.table(select.left), catalogue.table(select.right)
    if left.name == right.name:
        raise StatementError(f"{left.name} is joined with itself", found=left.name, about=("JOIN", left.name))
    check_joined(select.on, left, right)


KIND = Kind("retention", "joins with memory for some rows", True, _covers, _recognise, _check)
