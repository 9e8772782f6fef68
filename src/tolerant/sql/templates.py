"""Templates: what type each parameter has, and whether values can be given to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Parameter
from tolerant.sql.render import constant
from tolerant.sql.spreads import reach_of
from tolerant.sql.statements import (
    BandJoinSelect,
    CreateQuery,
    CreateTable,
    EqualityJoinSelect,
    KeepJoinSelect,
    Range,
    RangeAggregateSelect,
    RangeSelect,
    Subscribe,
    Unsubscribe,
    ViewSelect,
)
from tolerant.sql.types import comparable, is_value
from tolerant.streams import KeyPart

if TYPE_CHECKING:
    from tolerant.relations import ColumnRange

_INTEGERS = ("INT", "BIGINT")

Tables: TypeAlias = CreateTable | Sequence[CreateTable]
"""The table of a query, or the two that it joins, in any order."""


def ranges_of(query: CreateQuery) -> tuple[Range, ...]:
    """The ranges that a query selects by; of a band join the range of the difference, of a join that keeps rows and of
    a view none.

    Raises:
        StatementError: it selects by something else.
    """
    match query.select:
        case RangeSelect(ranges=ranges):
            return ranges
        case RangeAggregateSelect(range=part):
            return (part,)
        case EqualityJoinSelect(left_range=one, right_range=other):
            return (one, other)
        case BandJoinSelect(left, right, (a, b), low, high):
            return (Range(f"{right}.{b} - {left}.{a}", low, high),)
        case KeepJoinSelect() | ViewSelect():
            return ()
    raise StatementError(f"query {query.name} does not select by a range")


def parameter_types(query: CreateQuery, tables: Tables) -> dict[str, str]:
    """The SQL type of each parameter, in the template's order: BIGINT where it bounds columns of integers only, else
    DOUBLE.
    """
    types = {}
    bounded = list(zip(ranges_of(query), _range_types(query, tables), strict=True))
    for name in query.parameters:
        whole = all(of in _INTEGERS for part, of in bounded if Parameter(name) in (part.low, part.high))
        types[name] = "BIGINT" if whole else "DOUBLE"
    return types


def _range_types(query: CreateQuery, tables: Tables) -> list[str | None]:
    """The SQL type of what each of the query's ranges is of; a difference is a number of floating point."""
    held = {table.name: table for table in ([tables] if isinstance(tables, CreateTable) else tables)}
    match query.select:
        case EqualityJoinSelect(left, right, _, one, other):
            return [held[left].type_of(one.column), held[right].type_of(other.column)]
        case BandJoinSelect():
            return ["DOUBLE"]
        case KeepJoinSelect() | ViewSelect():
            return []
    (table,) = held.values()
    return [table.type_of(part.column) for part in ranges_of(query)]


def column_ranges(query: CreateQuery, table: CreateTable) -> tuple[ColumnRange, ...]:
    """The ranges as `tolerant.relations.RangeSelection` takes them: a parameter has become its name."""
    from tolerant.relations import ColumnRange

    return tuple(
        ColumnRange(part.column, table.type_of(part.column) or "", _end(part.low), _end(part.high))
        for part in ranges_of(query)
    )


def range_ends(query: CreateQuery, size: int, parameters: Mapping[str, Any]) -> tuple[Any, Any]:
    """The ends of a query with one range for `size` subscriptions, float64[size] each, from an array a parameter."""
    import numpy as np

    (part,) = ranges_of(query)
    low, high = (
        np.asarray(parameters[end.name] if isinstance(end, Parameter) else np.full(size, end), np.float64)
        for end in (part.low, part.high)
    )
    return low, high


def _end(end: Any) -> Any:
    return end.name if isinstance(end, Parameter) else end


def bound_parameters(statement: Subscribe | Unsubscribe, query: CreateQuery, tables: Tables) -> dict[str, int | float]:
    """The parameters that a statement's values give to its template, each as a number of its type.

    Raises:
        StatementError: too many or too few values, one of another type, or a low end above its high end.
    """
    names, values = query.parameters, statement.values
    if len(values) != len(names):
        raise StatementError(
            f"{query.name}({', '.join(names)}) takes {_count(len(names))}, found {len(values)}",
            expected=_count(len(names)),
            found=str(len(values)),
            about=(query.name,),
        )
    types = parameter_types(query, tables)
    given = {name: _number(query, name, types[name], value) for name, value in zip(names, values, strict=True)}
    for part in ranges_of(query):
        low, high = _value(part.low, given), _value(part.high, given)
        if low > high:
            raise StatementError(
                f"the range of {part.column} is empty: {_shown(part.low, low)} is above {_shown(part.high, high)}",
                expected="a low end that is not above the high end",
                hint="nothing lies between them; were the ends swapped?",
                about=(query.name,),
            )
        reach = reach_of(query.select)
        if low < -reach or high > reach:
            raise StatementError(
                f"the range of {part.column} is beyond the query's reach: {_shown(part.low, low)},"
                f" {_shown(part.high, high)}",
                expected=f"numbers from {-reach:g} to {reach:g}",
                about=(query.name,),
            )
    return given


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"


def _number(query: CreateQuery, name: str, type_name: str, value: KeyPart) -> int | float:
    if isinstance(value, int | float) and comparable("DOUBLE", value):
        if type_name == "DOUBLE":
            return float(value)
        if value == int(value) and is_value("BIGINT", int(value)):
            return int(value)
    what, found = "a whole number of 64 bits" if type_name == "BIGINT" else "a number", constant(value)
    raise StatementError(
        f"parameter {name} takes {what}, found {found}", expected=what, found=found, about=(query.name, found)
    )


def _value(end: Any, given: Mapping[str, int | float]) -> Any:
    return given[end.name] if isinstance(end, Parameter) else end


def _shown(end: Any, value: object) -> str:
    return f"{end.name} = {value}" if isinstance(end, Parameter) else str(value)
