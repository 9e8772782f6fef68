"""Selects over tables that can be brought up to date in a stated time; `REFRESH WITHIN t`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tolerant.sql.durations import LONGEST, duration_text
from tolerant.sql.errors import StatementError
from tolerant.sql.pipeline_ids import PipelineId
from tolerant.sql.predicates import Predicate
from tolerant.sql.select import Select, Trigger
from tolerant.sql.shape import Shape, allow_clauses
from tolerant.sql.sql_text import trigger_text
from tolerant.sql.statements import CreateQuery

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


@dataclass(frozen=True)
class ViewSelect(Select):
    """Any select over tables, as Spark SQL, that can be brought up to date in `refresh` microseconds; `when`: and is,
    whenever that becomes true.
    """

    sql: str
    tables: tuple[str, ...]
    refresh: int
    when: Trigger | None = None

    @property
    def relations(self) -> tuple[str, ...]:
        """`Select.relations`."""
        return self.tables

    @property
    def conditions(self) -> tuple[Predicate | None, ...]:
        """`Select.conditions`."""
        if self.when is None:
            return ()
        return (self.when.condition, *(tally.where for tally in self.when.tallies))

    @property
    def pipeline(self) -> PipelineId:
        """The one of all views over exactly these tables."""
        return PipelineId(tuple(sorted(self.tables)), views=True)

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        suffix = "" if self.when is None else f" WHEN {trigger_text(self.when)}"
        return f"{self.sql} REFRESH WITHIN '{duration_text(self.refresh)}'{suffix}"


def recognise(shape: Shape) -> ViewSelect | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
    if shape.clauses.refresh is None:
        return None
    allow_clauses(shape, ("refresh", "when"), "a view")
    return ViewSelect(shape.sql, shape.relations, shape.clauses.refresh, shape.clauses.when)


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    from tolerant.sql.triggers import check_trigger  # sqlglot: not before there is a view
    from tolerant.sql.view_select import plan_of

    select = ViewSelect.of(query)
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
