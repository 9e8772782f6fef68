"""What a kind of query has to say for itself, and what several of them need to say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tolerant.sql.errors import NotAvailable, StatementError
from tolerant.sql.predicates import Between
from tolerant.sql.shape import ColumnRef, Shape
from tolerant.sql.statements import CreateQuery, Range, Select
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _no_stream(stream: Stream) -> bool:
    return False


def _not_by_shape(shape: Shape) -> Select | None:
    return None


def _nothing_more(query: CreateQuery, catalogue: Catalogue) -> None:
    return None


@dataclass(frozen=True)
class Kind:
    """A kind of query.

    `name` is the name of its core, `title` what people call its queries. `covers(select, catalogue)`: whether a
    select is of this kind, its relations being known. `recognise(shape)`: the select that a statement of this shape
    says, None if it is none of this kind's; raises StatementError where it is, but wrongly. `check(query, catalogue)`
    raises StatementError if the definitions of its relations do not allow it. `feeds(stream)`: whether streams with
    such a URI are this kind's. `templates`: whether its queries may have parameters.
    """

    name: str
    title: str
    available: bool
    covers: Callable[[Select, Catalogue], bool]
    recognise: Callable[[Shape], Select | None] = _not_by_shape
    check: Callable[[CreateQuery, Catalogue], None] = _nothing_more
    feeds: Callable[[Stream], bool] = _no_stream
    templates: bool = False

    def not_available(self, *about: str) -> NotAvailable:
        """The error of a kind whose core is not built yet."""
        return NotAvailable(f"queries of the kind {self.name} are not available yet: {self.title}", about=about)


def allow_clauses(shape: Shape, allowed: tuple[str, ...], what: str) -> None:
    """Raise StatementError if the statement has a clause that `what` does not take."""
    for name in shape.clauses.written():
        if name not in allowed:
            takes = " and ".join(clause.upper() for clause in allowed) if allowed else "no clauses"
            raise StatementError(
                f"{what} takes {takes}, found {name.upper()}",
                expected=takes,
                found=name.upper(),
                span=shape.clauses.spans.get(name),
            )


def ranges(shape: Shape) -> list[tuple[str | None, Range]] | None:
    """The relation and range of every condition; None if one of them is no BETWEEN."""
    found: list[tuple[str | None, Range]] = []
    for condition in shape.where:
        predicate = condition.predicate
        if not isinstance(predicate, Between):
            return None
        (relation,) = condition.relations
        found.append((relation, Range(predicate.column, predicate.low, predicate.high)))
    return found


def sides(shape: Shape, one: ColumnRef, other: ColumnRef) -> tuple[str, str]:
    """The names of two columns that a join compares: that of the first relation, then that of the second."""
    first, second = shape.relations
    for column in (one, other):
        if column.relation is None:
            raise StatementError(
                f"expected the relation of column {column.name}: {first}.{column.name} or {second}.{column.name}",
                expected=f"{first}.{column.name} or {second}.{column.name}",
                found=column.name,
                span=column.span,
            )
    if one.relation == other.relation:
        raise StatementError(
            f"expected a column of {first} and one of {second}, found two of {one.relation}",
            expected=f"a column of {first} and one of {second}",
            found=f"two of {one.relation}",
            span=other.span,
        )
    return (one.name, other.name) if one.relation == first else (other.name, one.name)
