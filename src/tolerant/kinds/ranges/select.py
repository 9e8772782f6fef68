"""`SELECT *` with BETWEEN on one or two columns of a table: every change of a row in the range."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tolerant.kinds.ranges.sharing import Sharing, check_sharing, read_sharing, sharing_text
from tolerant.sql.errors import StatementError
from tolerant.sql.names import quoted
from tolerant.sql.range_checks import check_ranges
from tolerant.sql.select import Range, Select
from tolerant.sql.shape import Shape, allow_clauses, between_ranges
from tolerant.sql.sql_text import qualifier_of, range_text
from tolerant.sql.statements import CreateQuery, Tables, types_in

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


@dataclass(frozen=True)
class RangeSelect(Select):
    """`SELECT * FROM relation WHERE` a range on one or two columns: everything in it."""

    relation: str
    ranges: tuple[Range, ...]
    sharing: Sharing = field(default_factory=Sharing)

    @property
    def relations(self) -> tuple[str, ...]:
        """`Select.relations`."""
        return (self.relation,)

    @property
    def selected_ranges(self) -> tuple[Range, ...]:
        """`Select.selected_ranges`."""
        return self.ranges

    def range_types(self, tables: Tables) -> list[str | None]:
        """`Select.range_types`."""
        return types_in(tables, self.relation, self.ranges)

    @property
    def compares_exactly(self) -> bool:
        """Rows are compared with the ranges in their own types."""
        return True

    def text(self, parameters: tuple[str, ...] = ()) -> str:
        """`Select.text`."""
        owned = ((part, qualifier_of(self.relation, (part.column,), parameters)) for part in self.ranges)
        where = " AND ".join(range_text(part, owner) for part, owner in owned)
        return f"SELECT * FROM {quoted(self.relation)} WHERE {where}{sharing_text(self.sharing)}"


def recognise(shape: Shape) -> RangeSelect | None:
    """The select of a statement of this shape, as `QueryKind.recognise` wants it."""
    if not shape.star or shape.distinct or shape.aggregates or len(shape.relations) != 1 or shape.group_by:
        return None
    bounds = between_ranges(shape)
    columns = {where.column for _, where in bounds or ()}
    if not bounds or len(bounds) > 2 or len(columns) != len(bounds):
        raise StatementError(
            "expected WHERE with BETWEEN on one or two columns",
            expected="WHERE column BETWEEN low AND high [AND column BETWEEN low AND high]",
            found="other conditions" if shape.where else "no WHERE",
            span=shape.where[0].span if shape.where else shape.end,
        )
    allow_clauses(shape, ("with",), "a query for everything in a range")
    return RangeSelect(
        shape.relations[0], tuple(where for _, where in bounds), read_sharing(shape.clauses.options or ())
    )


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    select = RangeSelect.of(query)
    table = catalogue.table(select.relation)
    columns = [part.column for part in select.ranges]
    if len(columns) not in (1, 2) or len(set(columns)) != len(columns):
        raise StatementError("expected BETWEEN on one or two columns", expected="BETWEEN on one or two columns")
    check_ranges(query, select.ranges, table)
    check_sharing(select.sharing)
