"""The outline of a SELECT, in our own terms: what the kinds of query look at to recognise theirs.

`tolerant.sql.selects` makes one from sqlglot's tree; the kinds know nothing of sqlglot, so that Spark's workers, who
check statements again, need not load it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from tolerant.sql.predicates import Operand, Predicate
from tolerant.sql.statements import Otherwise, Trigger

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
        return [name for name, held in names.items() if getattr(self, held) is not None]


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
