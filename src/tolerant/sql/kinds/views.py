"""Views: selects over tables that can be brought up to date in a stated time; `REFRESH WITHIN t`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.durations import LONGEST
from tolerant.sql.errors import StatementError
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
    from tolerant.sql.view_select import plan_of

    select = query.select
    assert isinstance(select, ViewSelect)
    if not 0 < select.refresh <= LONGEST:
        raise StatementError("REFRESH WITHIN takes a duration above 0 and at most 36500 d", about=("REFRESH",))
    if not select.tables:
        raise StatementError("a view is over tables, found none", expected="FROM and a table", about=("SELECT",))
    tables = catalogue.tables_of(query)
    plan = plan_of(select.sql, tables)
    if sorted(plan.tables) != sorted(select.tables):
        raise StatementError(f"the view reads {', '.join(plan.tables)}, and is said to read {', '.join(select.tables)}")
    if select.when is not None:
        check_trigger(select.when, tables)


KIND = Kind("views", "views that are brought up to date in a stated time", True, _covers, _recognise, _check)
