"""What a kind of query is, and the registry of kinds.

Each kind is a folder of `tolerant.kinds` with a `KIND`; `tolerant.kinds.KINDS` lists them. This package asks for the
list by name when it is first needed: it stands below the kinds, which are written with it
(`docs/adr/kinds-as-folders.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from tolerant.sql.errors import StatementError
from tolerant.sql.select import Select
from tolerant.sql.shape import Shape
from tolerant.sql.statements import CreateQuery
from tolerant.sql.tolerances import over_table

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

AnySelect = TypeVar("AnySelect", bound=Select)


def _not_by_shape(shape: Shape) -> Select | None:
    return None


def _always(select: Select, catalogue: Catalogue) -> bool:
    return True


def _never(relation: object) -> bool:
    return False


class Explanation(Protocol):
    """What `tolerant explain` says of a query; `draw(path)`, where it has one, makes a picture."""

    def record(self) -> dict[str, Any]:
        """For programs, as JSON has it."""
        ...

    def show(self) -> None:
        """For people."""
        ...


@dataclass(frozen=True)
class QueryKind(Generic[AnySelect]):
    """A kind of query.

    name, title: of its core; what people call its queries.
    selects: the classes of its selects. Several kinds can share one: `covers` tells them apart.
    check: raises StatementError if the definitions of a query's relations do not allow it.
    recognise: the select that a statement of this shape says, None if it is none of this kind's; raises StatementError
        where it is, but wrongly.
    covers: whether a select of one of its classes is this kind's, its relations being known.
    functions: aggregates that its selects have beside SUM, AVG, MIN, MAX and COUNT, in lower case.
    templates: whether its queries may have parameters.
    hosts: whether the pipeline of a stream, table or pair of tables is this kind's own.
    shards: makes the factory of that pipeline's shards, from the relation, the epoch, the checkpoint and the log's URI.
    shard_query, listener, explain: what is needed in the pipeline, by clients and by the command line alone, as
        "module:name", so that nobody imports what he does not use. `shard_query`: makes the query in the shard of its
        relation (`tolerant.kinds.tables.queries`, `tolerant.kinds.joins.queries`). `listener`: a ListenerFactory, made
        with the query and its tables (`tolerant.client.listeners`). `explain`: makes an Explanation of a query from the
        log, the query and the catalogue.
    """

    name: str
    title: str
    selects: tuple[type[AnySelect], ...]
    check: Callable[[CreateQuery, Catalogue], None]
    recognise: Callable[[Shape], Select | None] = _not_by_shape
    covers: Callable[[AnySelect, Catalogue], bool] = _always
    functions: tuple[str, ...] = ()
    templates: bool = False
    hosts: Callable[[Any], bool] = _never
    shards: Callable[[Any, int, str, str], Callable[[int], Any]] | None = None
    shard_query: str = ""
    listener: str = ""
    explain: str = ""

    def select_of(self, select: Select) -> AnySelect | None:
        """The select if it is of one of the kind's classes."""
        return select if isinstance(select, self.selects) else None

    def answers(self, select: Select, catalogue: Catalogue) -> bool:
        """Whether a query with this select over the relations that the catalogue has is of this kind."""
        own = self.select_of(select)
        return own is not None and self.covers(own, catalogue)


def kinds() -> tuple[QueryKind[Any], ...]:
    """All kinds, in the order in which they are asked: the first that says yes has it."""
    listed: tuple[QueryKind[Any], ...] = import_module("tolerant.kinds").KINDS
    return listed


def recognise(shape: Shape) -> Select:
    """The select that a statement of this shape says.

    Raises:
        StatementError: no kind of query has this shape, or it has it wrongly.
    """
    for kind in kinds():
        select = kind.recognise(shape)
        if select is not None:
            return select
    error = StatementError(
        "no kind of query selects this",
        expected="an aggregate WITHIN a tolerance, * with BETWEEN, a join, or a view with REFRESH WITHIN",
        found="another select",
        span=shape.start,
        hint="a stream is asked for SUM, AVG, MIN, MAX or COUNT of its value, WITHIN a tolerance",
    )
    error.over_table = shape.relations[0], *over_table(plain=False)
    raise error


def kind_of(select: Select, catalogue: Catalogue) -> QueryKind[Any]:
    """The kind that answers this select over the relations that the catalogue has."""
    return next(kind for kind in kinds() if kind.answers(select, catalogue))


def select_classes() -> tuple[type[Select], ...]:
    """The classes of the selects of all kinds."""
    return tuple(dict.fromkeys(select for kind in kinds() for select in kind.selects))


def aggregate_functions() -> frozenset[str]:
    """The aggregates that only some kind has, in lower case."""
    return frozenset(function for kind in kinds() for function in kind.functions)


def shard_query_of(query: CreateQuery) -> Callable[..., Any] | None:
    """What makes a query in the shard of its relation; None: its kind has a pipeline of its own."""
    return _resolved(query, "shard_query")


def listener_of(query: CreateQuery) -> Callable[..., Any] | None:
    """What makes the factory of listeners to a query; None: clients cannot subscribe to it."""
    return _resolved(query, "listener")


def _resolved(query: CreateQuery, part: str) -> Callable[..., Any] | None:
    """A part of the query's kind; kinds that share a class of selects have none of these parts, or the same."""
    kind = next(kind for kind in kinds() if kind.select_of(query.select) is not None)
    reference = getattr(kind, part)
    return resolve(reference) if reference else None


def resolve(reference: str) -> Callable[..., Any]:
    """What "module:name" refers to."""
    module, _, name = reference.partition(":")
    function: Callable[..., Any] = attrgetter(name)(import_module(module))
    return function
