"""Views: selects over tables that can be brought up to date in a stated time; `REFRESH WITHIN t`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.kinds.kind import Kind, allow_clauses
from tolerant.sql.shape import Shape
from tolerant.sql.statements import CreateQuery, Select, ViewSelect

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _recognise(shape: Shape) -> Select | None:
    if shape.clauses.refresh is None:
        return None
    allow_clauses(shape, ("refresh",), "a view")
    return ViewSelect(shape.sql, shape.relations, shape.clauses.refresh)


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, ViewSelect)


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    from tolerant.sql.viewing import plan_of  # sqlglot: not before there is a view

    assert isinstance(query.select, ViewSelect)
    plan_of(query.select.sql, catalogue.tables_of(query))


KIND = Kind("views", "views that are brought up to date in a stated time", True, _covers, _recognise, _check)
