"""Joins: new result rows of a join on equality with a range on each side, or on a band, as they appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.kind import Kind, allow_clauses, ranges, sides
from tolerant.sql.predicates import Operand
from tolerant.sql.shape import Band, Shape
from tolerant.sql.statements import BandJoinSelect, EqualityJoinSelect, Select

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

_EXPECTED = "JOIN … ON r.b = s.b WHERE r.a BETWEEN … AND s.c BETWEEN …, or JOIN … ON s.b - r.b BETWEEN …"


def _recognise(shape: Shape) -> Select | None:
    if len(shape.relations) != 2 or shape.aggregates or shape.clauses.keep is not None:
        return None
    allow_clauses(shape, (), "a join")
    found = ranges(shape)
    plain = shape.star and not shape.distinct and not shape.group_by
    if plain and len(shape.bands) == 1 and not shape.equalities and not shape.where:
        return _band(shape, shape.bands[0])
    if plain and len(shape.equalities) == 1 and not shape.bands and found is not None and len(found) == 2:
        by_relation = dict(found)
        if set(by_relation) == set(shape.relations):
            left, right = shape.relations
            on = sides(shape, shape.equalities[0].left, shape.equalities[0].right)
            return EqualityJoinSelect(left, right, on, by_relation[left], by_relation[right])
    raise StatementError(
        "expected a join on equality with BETWEEN on each side, or a join on a difference BETWEEN two numbers",
        expected=_EXPECTED,
        found="another join",
        span=shape.start,
    )


def _band(shape: Shape, band: Band) -> BandJoinSelect:
    left, right = shape.relations
    on = sides(shape, band.minuend, band.subtrahend)
    if band.minuend.relation == right:
        return BandJoinSelect(left, right, on, band.low, band.high)
    return BandJoinSelect(left, right, on, _negative(band.high, band), _negative(band.low, band))


def _negative(end: Operand, band: Band) -> Operand:
    if isinstance(end, int | float) and not isinstance(end, bool):
        return -end
    raise StatementError(
        "expected the second relation's column minus the first's",
        expected=f"{band.subtrahend.relation}.{band.subtrahend.name} - {band.minuend.relation}.{band.minuend.name}",
        found=f"{band.minuend.relation}.{band.minuend.name} - {band.subtrahend.relation}.{band.subtrahend.name}",
        span=band.minuend.span,
        hint="the ends cannot be turned around where they are parameters",
    )


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, EqualityJoinSelect | BandJoinSelect)


KIND = Kind("joins", "new result rows of a join as they appear", False, _covers, _recognise)
