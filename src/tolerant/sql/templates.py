"""Templates: what type each parameter has, and whether values can be given to it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Parameter
from tolerant.sql.select import Range
from tolerant.sql.sql_text import constant
from tolerant.sql.statements import CreateQuery, CreateTable, Subscribe, Tables, Unsubscribe
from tolerant.sql.types import comparable, is_value

if TYPE_CHECKING:
    from tolerant.relations import ColumnRange

_INTEGERS = ("INT", "BIGINT")


def ranges_of(query: CreateQuery) -> tuple[Range, ...]:
    """The ranges that a query selects by; of a band join the range of the difference, of a join that keeps rows and of
    a view none.

    Raises:
        StatementError: it selects by something else.
    """
    ranges = query.select.selected_ranges
    if ranges is not None:
        return ranges
    raise StatementError(f"query {query.name} does not select by a range")


def parameter_types(query: CreateQuery, tables: Tables) -> dict[str, str]:
    """The SQL type of each parameter, in the template's order: BIGINT where it bounds columns of integers only, else
    DOUBLE.
    """
    types = {}
    bounded = list(zip(ranges_of(query), query.select.range_types(tables), strict=True))
    for name in query.parameters:
        whole = all(of in _INTEGERS for part, of in bounded if Parameter(name) in (part.low, part.high))
        types[name] = "BIGINT" if whole else "DOUBLE"
    return types


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
    given = {name: parameter_number(query, name, types[name], value) for name, value in zip(names, values, strict=True)}
    for part, of in zip(ranges_of(query), query.select.range_types(tables), strict=True):
        low, high = _value(part.low, given), _value(part.high, given)
        for end, value in ((part.low, low), (part.high, high)):
            if rounds(query, of) and is_rounded(value):
                shown = _shown(end, value)
                raise StatementError(
                    f"the range of {part.column} is compared as 64-bit floats, and {shown} would be rounded",
                    expected=EXACT_ENDS,
                    found=str(value),
                    about=(query.name,),
                )
        if is_empty(low, high):
            why = why_empty(low, high, _shown(part.low, low), _shown(part.high, high))
            raise StatementError(
                f"the range of {part.column} is empty: {why}",
                expected="a low end that is not above the high end",
                hint="nothing lies between them; were the ends swapped?",
                about=(query.name,),
            )
        reach = query.select.reach
        if low < -reach or high > reach:
            raise StatementError(
                f"the range of {part.column} is beyond the query's reach: {_shown(part.low, low)},"
                f" {_shown(part.high, high)}",
                expected=f"numbers from {-reach:g} to {reach:g}",
                about=(query.name,),
            )
    return given


def is_end(value: object) -> bool:
    """Whether a constant can be an end of a range: a number, or an infinity, which is no limit."""
    return comparable("DOUBLE", value) or (isinstance(value, float) and math.isinf(value))


def is_empty(low: float, high: float) -> bool:
    """Whether no number at all lies between the ends."""
    return low > high or low == math.inf or high == -math.inf


def why_empty(low: float, high: float, low_text: str = "", high_text: str = "") -> str:
    """What makes the range empty, in words."""
    low_text, high_text = low_text or constant(low), high_text or constant(high)
    return f"{low_text} is above {high_text}" if low > high else f"no number lies between {low_text} and {high_text}"


EXACT_ENDS = "whole numbers from -(2^53 - 1) to 2^53 - 1, or the least or the greatest BIGINT"
"""What the ends of a range of integers must be where it is compared as floats."""


def rounds(query: CreateQuery, type_name: str | None) -> bool:
    """Whether a range of a column of this type is compared as 64-bit floats, which cannot tell all integers apart."""
    return type_name in _INTEGERS and not query.select.compares_exactly


def is_rounded(end: Any) -> bool:
    """Whether rows beyond this end could be taken for rows before it where both are 64-bit floats.

    >>> is_rounded(2**53 - 1), is_rounded(2**53), is_rounded(2**63 - 1), is_rounded(float("-inf"))
    (False, True, False, False)
    """
    return 2**53 <= abs(end) < math.inf and not (end <= -(2**63) or end >= 2**63 - 1)


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"


def check_names(query: CreateQuery, given: Iterable[str]) -> None:
    """Raise StatementError unless these are the names of the template's parameters, in any order."""
    names = list(given)
    if sorted(names) != sorted(query.parameters):
        wanted = ", ".join(query.parameters) or "no parameters"
        raise StatementError(f"{query.name} takes {wanted}, found {', '.join(names) or 'none'}")


def parameter_number(query: CreateQuery, name: str, type_name: str, value: Any) -> int | float:
    """A value as the number that a parameter of this type takes; one of NumPy's is a number too.

    Raises:
        StatementError: it is none.
    """
    value = value.item() if hasattr(value, "dtype") and hasattr(value, "item") else value
    if is_end(value):
        number: Any = value
        if type_name == "DOUBLE":
            return float(number)
        if not math.isinf(number) and number == int(number) and is_value("BIGINT", int(number)):
            return int(number)
    what = "a whole number of 64 bits" if type_name == "BIGINT" else "a number"
    given = constant(value) if isinstance(value, str | int | float) else repr(value)
    raise StatementError(
        f"parameter {name} takes {what}, found {given}", expected=what, found=given, about=(query.name, given)
    )


def _value(end: Any, given: Mapping[str, int | float]) -> Any:
    return given[end.name] if isinstance(end, Parameter) else end


def _shown(end: Any, value: object) -> str:
    return f"{end.name} = {value}" if isinstance(end, Parameter) else str(value)
