"""The outline of a SELECT, in our own terms: what the kinds of query look at to recognise theirs.

`tolerant.sql.shape_reader` makes one from sqlglot's tree; the kinds know nothing of sqlglot, so that Spark's workers,
who check statements again, need not load it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Between, Operand, Predicate
from tolerant.sql.select import Range, Trigger
from tolerant.sql.statements import Otherwise

Span: TypeAlias = tuple[int, int]
"""A place in the text: offsets, first and one past the last."""


@dataclass(frozen=True)
class ColumnRef:
    """A column as the statement names it.

    `relation` is the relation's own name (no alias), None where it is not said.
    """

    relation: str | None
    name: str
    span: Span | None = None


@dataclass(frozen=True)
class Aggregated:
    """`fn(factor * column * …)`; no columns: `fn(*)`."""

    fn: str
    factor: float
    columns: tuple[ColumnRef, ...]
    span: Span | None = None


@dataclass(frozen=True)
class Equality:
    """`left = right`, two columns."""

    left: ColumnRef
    right: ColumnRef


@dataclass(frozen=True)
class Band:
    """`minuend - subtrahend BETWEEN low AND high`, two columns."""

    minuend: ColumnRef
    subtrahend: ColumnRef
    low: Operand
    high: Operand


@dataclass(frozen=True)
class Condition:
    """One of the predicates that all have to hold, and the relations whose columns it names (None.

    A column without one).
    """

    predicate: Predicate
    relations: frozenset[str | None]
    span: Span | None = None


@dataclass(frozen=True)
class Given:
    """An option, `name = value`, and where the two stand."""

    name: str
    value: str | int | float
    place: Span | None = None
    value_place: Span | None = None


@dataclass(frozen=True)
class Clauses:
    """Our own clauses; None: not written. `refresh` is microseconds, `options` are those of WITH. `spans` says where
    each stands.
    """

    within: float | None = None
    fidelity: float | None = None
    otherwise: Otherwise | None = None
    keep: int | None = None
    refresh: int | None = None
    when: Trigger | None = None
    options: tuple[Given, ...] | None = None
    spans: dict[str, Span] = field(default_factory=dict, compare=False)

    def written(self) -> list[str]:
        """The names of the clauses that are written."""
        own = ("within", "fidelity", "otherwise", "keep", "refresh", "when")
        names = {name: name for name in own} | {"with": "options"}
        return [name for name, attribute in names.items() if getattr(self, attribute) is not None]


@dataclass(frozen=True)
class Shape:
    """A SELECT. With a REFRESH clause only `sql` (as Spark SQL) and `relations` are filled in.

    A view may be anything.
    """

    relations: tuple[str, ...]
    clauses: Clauses
    sql: str = ""
    star: bool = False
    distinct: bool = False
    columns: tuple[ColumnRef, ...] = ()
    aggregates: tuple[Aggregated, ...] = ()
    equalities: tuple[Equality, ...] = ()
    bands: tuple[Band, ...] = ()
    where: tuple[Condition, ...] = ()
    group_by: tuple[ColumnRef, ...] = ()
    start: Span | None = None
    end: Span | None = None


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


def between_ranges(shape: Shape) -> list[tuple[str | None, Range]] | None:
    """The relation and range of every condition; None if one of them is no BETWEEN."""
    ranges: list[tuple[str | None, Range]] = []
    for condition in shape.where:
        predicate = condition.predicate
        if not isinstance(predicate, Between):
            return None
        (relation,) = condition.relations
        ranges.append((relation, Range(predicate.column, predicate.low, predicate.high)))
    return ranges


def sides(shape: Shape, first_column: ColumnRef, second_column: ColumnRef) -> tuple[str, str]:
    """The names of two columns that a join compares: that of the first relation, then that of the second."""
    first, second = shape.relations
    for column in (first_column, second_column):
        if column.relation is None:
            raise StatementError(
                f"expected the relation of column {column.name}: {first}.{column.name} or {second}.{column.name}",
                expected=f"{first}.{column.name} or {second}.{column.name}",
                found=column.name,
                span=column.span,
            )
    if first_column.relation == second_column.relation:
        raise StatementError(
            f"expected a column of {first} and one of {second}, found two of {first_column.relation}",
            expected=f"a column of {first} and one of {second}",
            found=f"two of {first_column.relation}",
            span=second_column.span,
        )
    return (
        (first_column.name, second_column.name)
        if first_column.relation == first
        else (second_column.name, first_column.name)
    )
