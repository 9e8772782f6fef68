"""Joins: new result rows of a join on equality with a range on each side, or on a band, as they appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.kind import Kind, allow_clauses, ranges, sides
from tolerant.sql.kinds.ranges import check_ends, check_number, check_parameters, check_range, check_rounding
from tolerant.sql.kinds.shards import check_shards, check_stretch, shards_of, spread_of
from tolerant.sql.predicates import Operand
from tolerant.sql.shape import Band, Shape
from tolerant.sql.spreads import reach_of
from tolerant.sql.statements import BandJoinSelect, CreateQuery, CreateTable, EqualityJoinSelect, Select
from tolerant.sql.templates import ranges_of
from tolerant.sql.types import NUMERIC

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue

_EXPECTED = "JOIN … ON r.b = s.b WHERE r.a BETWEEN … AND s.c BETWEEN …, or JOIN … ON s.b - r.b BETWEEN …"


def _recognise(shape: Shape) -> Select | None:
    if len(shape.relations) != 2 or shape.aggregates or shape.clauses.keep is not None:
        return None
    allow_clauses(shape, ("with",), "a join")
    found = ranges(shape)
    plain = shape.star and not shape.distinct and not shape.group_by
    if plain and len(shape.bands) == 1 and not shape.equalities and not shape.where:
        return _band(shape, shape.bands[0])
    if plain and len(shape.equalities) == 1 and not shape.bands and found is not None and len(found) == 2:
        by_relation = dict(found)
        if set(by_relation) == set(shape.relations):
            left, right = shape.relations
            on = sides(shape, shape.equalities[0].left, shape.equalities[0].right)
            return EqualityJoinSelect(left, right, on, by_relation[left], by_relation[right], shards_of(shape))
    raise StatementError(
        "expected a join on equality with BETWEEN on each side, or a join on a difference BETWEEN two numbers",
        expected=_EXPECTED,
        found="another join",
        span=shape.start,
        hint=_unlimited(shape) if plain and shape.equalities and not shape.where and not shape.bands else "",
    )


def _unlimited(shape: Shape) -> str:
    one, other = shape.relations
    return f"every row of {one} and of {other} would have to be kept, without end: KEEP n ROWS keeps the best n"


def _band(shape: Shape, band: Band) -> BandJoinSelect:
    left, right = shape.relations
    on = sides(shape, band.minuend, band.subtrahend)
    if band.minuend.relation == right:
        return BandJoinSelect(left, right, on, band.low, band.high, *spread_of(shape))
    return BandJoinSelect(left, right, on, _negative(band.high, band), _negative(band.low, band), *spread_of(shape))


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


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    select = query.select
    assert isinstance(select, EqualityJoinSelect | BandJoinSelect)
    left, right = catalogue.table(select.left), catalogue.table(select.right)
    if left.name == right.name:
        raise StatementError(f"{left.name} is joined with itself", found=left.name, about=("JOIN", left.name))
    check_shards(select.shards)
    if isinstance(select, EqualityJoinSelect):
        check_joined(select.on, left, right)
        for part, table in ((select.left_range, left), (select.right_range, right)):
            check_range(part, table)
            check_rounding(query, part, table)
    else:
        for column, table in zip(select.on, (left, right), strict=True):
            check_number(column, table)
        check_ends(ranges_of(query)[0])
        check_stretch(select.stretch)
        _check_reach(select)
    check_parameters(query, ranges_of(query))


def _check_reach(select: BandJoinSelect) -> None:
    reach = reach_of(select)
    for end in (select.low, select.high):
        if isinstance(end, int | float) and not -reach <= end <= reach:
            raise StatementError(
                f"the band ends at {end:g}, beyond its reach of {reach:g}",
                expected=f"numbers from {-reach:g} to {reach:g}",
                about=("WITH", "reach"),
            )


def check_joined(on: tuple[str, str], left: CreateTable, right: CreateTable) -> None:
    """Raise StatementError unless both tables have their column, and the two can be equal."""
    types = []
    for column, table in zip(on, (left, right), strict=True):
        type_name = table.type_of(column)
        if type_name is None:
            names = ", ".join(c.name for c in table.columns)
            raise StatementError(
                f"table {table.name} has no column {column}",
                expected=f"one of {names}",
                found=column,
                about=("JOIN", column),
            )
        types.append(type_name)
    if types[0] != types[1] and not set(types) <= set(NUMERIC):
        raise StatementError(
            f"{left.name}.{on[0]} is {types[0]}, {right.name}.{on[1]} {types[1]}: never equal",
            expected=types[0],
            found=types[1],
            about=("JOIN", on[1]),
        )


KIND = Kind("joins", "new result rows of a join as they appear", True, _covers, _recognise, _check, templates=True)
