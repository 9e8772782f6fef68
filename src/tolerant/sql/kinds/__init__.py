"""The kinds of query: one file each, which recognises its statements and checks them; the registry.

A good member knows its select by shape alone (`recognise`), its relations' definitions only in `check`, and says in
every error what it expected. A kind whose core is not built yet has `available=False`: its statements are read, and
refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds import bounded, joins, notifications, planning, polling, ranges, retention, views
from tolerant.sql.kinds.kind import Kind
from tolerant.sql.shape import Shape
from tolerant.sql.statements import Select

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

KINDS: tuple[Kind, ...] = (
    views.KIND,
    retention.KIND,
    joins.KIND,
    notifications.KIND,
    polling.KIND,
    planning.KIND,
    bounded.KIND,
    ranges.KIND,
)
"""All kinds, in the order in which they are asked: the first that says yes has it."""


def recognise(shape: Shape) -> Select:
    """The select that a statement of this shape says.

    Raises:
        StatementError: no kind of query has this shape, or it has it wrongly.
    """
    for kind in KINDS:
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
    error.over_table = shape.relations[0], *bounded.over_table(plain=False)
    raise error


def kind_of(select: Select, catalogue: Catalogue) -> Kind:
    """The kind that answers this select over the relations that the catalogue has."""
    return next(kind for kind in KINDS if kind.covers(select, catalogue))


__all__ = ["KINDS", "Kind", "kind_of", "recognise"]
