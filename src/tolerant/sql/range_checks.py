"""What the ranges that a query selects by may be: numbers of a table's columns, with numbers or parameters as ends."""

from __future__ import annotations

from tolerant.sql.errors import StatementError
from tolerant.sql.predicates import Parameter
from tolerant.sql.select import Range
from tolerant.sql.statements import CreateQuery, CreateTable
from tolerant.sql.templates import EXACT_ENDS, is_empty, is_end, is_rounded, rounds, why_empty
from tolerant.sql.types import NUMERIC


def check_ranges(query: CreateQuery, parts: tuple[Range, ...], table: CreateTable) -> None:
    """Raise StatementError unless the ranges are on columns of numbers, and their ends numbers or the parameters."""
    for part in parts:
        check_range(part, table)
        check_rounding(query, part, table)
    check_parameters(query, parts)


def check_range(part: Range, table: CreateTable) -> None:
    """Raise StatementError unless the range is on a column of numbers of the table, and its ends can be used."""
    check_number(part.column, table)
    check_ends(part)


def check_number(name: str, table: CreateTable) -> None:
    """Raise StatementError unless the table has such a column of numbers."""
    numeric = [column.name for column in table.columns if column.type in NUMERIC]
    type_name = table.type_of(name)
    if type_name in NUMERIC:
        return
    raise StatementError(
        f"table {table.name} has no column {name}"
        if type_name is None
        else f"BETWEEN takes a column of numbers; {name} is {type_name}",
        expected=f"one of {', '.join(numeric)}" if numeric else "a table with a column of numbers",
        found=name,
        about=("WHERE", name),
    )


def check_ends(part: Range) -> None:
    """Raise StatementError unless the ends are numbers, the lower first, or parameters."""
    low, high = part.low, part.high
    for end in (low, high):
        if not isinstance(end, Parameter) and not is_end(end):
            raise StatementError(
                f"column {part.column} is compared with {end!r}",
                expected="a number or a parameter",
                found=repr(end),
                about=("WHERE", part.column),
            )
    if isinstance(low, int | float) and isinstance(high, int | float) and is_empty(low, high):
        raise StatementError(
            f"the range of {part.column} is empty: {why_empty(low, high)}",
            expected="BETWEEN low AND high, the lower end first",
            found=f"BETWEEN {low} AND {high}",
            hint="nothing lies between them; were the ends swapped?",
            about=("WHERE", part.column),
        )


def check_rounding(query: CreateQuery, part: Range, table: CreateTable) -> None:
    """Raise StatementError if an end would be rounded where the range is compared as floats."""
    for end in (part.low, part.high):
        if rounds(query, table.type_of(part.column)) and not isinstance(end, Parameter) and is_rounded(end):
            raise StatementError(
                f"the range of {part.column} is compared as 64-bit floats, and {end} would be rounded",
                expected=EXACT_ENDS,
                found=str(end),
                about=("WHERE", part.column),
            )


def check_parameters(query: CreateQuery, parts: tuple[Range, ...]) -> None:
    """Raise StatementError unless every parameter is an end of a range, and every end that is named a parameter."""
    used = {end.name for part in parts for end in (part.low, part.high) if isinstance(end, Parameter)}
    if len(set(query.parameters)) != len(query.parameters):
        raise StatementError("a parameter is named twice", about=("QUERY", query.name))
    for name in query.parameters:
        if name not in used:
            raise StatementError(
                f"parameter {name} is not used",
                expected=f"{name} as an end of a BETWEEN",
                about=(query.name, name),
            )
    for name in sorted(used.difference(query.parameters)):
        raise StatementError(
            f"{name} is no parameter of {query.name}", expected=f"one of {', '.join(query.parameters)}", found=name
        )
