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
    allow_clauses(shape, ("refresh", "when"), "a view")
    return ViewSelect(shape.sql, shape.relations, shape.clauses.refresh, shape.clauses.when)


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, ViewSelect)


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    from tolerant.sql.triggers import check_trigger  # sqlglot: not before there is a view
    from tolerant.sql.viewing import plan_of

    assert isinstance(query.select, ViewSelect)
    tables = catalogue.tables_of(query)
    plan_of(query.select.sql, tables)
    if query.select.when is not None:
        check_trigger(query.select.when, tables)


KIND = Kind("views", "views that are brought up to date in a stated time", True, _covers, _recognise, _check)
