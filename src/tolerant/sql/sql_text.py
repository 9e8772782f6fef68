"""Parts of statements as SQL: constants, conditions, ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from tolerant.sql.names import quoted
from tolerant.sql.predicates import And, Between, Compare, In, Like, Not, Operand, Or, Parameter, Predicate
from tolerant.sql.select import Range, Tally, Trigger
from tolerant.streams import KeyPart


def trigger_text(trigger: Trigger) -> str:
    """The condition of a view as SQL."""
    tallies = [_tally(tally) for tally in trigger.tallies]
    return predicate_text(trigger.condition, named=lambda name: tallies[int(name)])


def _tally(tally: Tally) -> str:
    what = "*" if tally.column is None else quoted(tally.column)
    where = "" if tally.where is None else f" WHERE {predicate_text(tally.where)}"
    return f"(SELECT {tally.fn.upper()}({what}) FROM {quoted(tally.table)}{where})"


def predicate_text(predicate: Predicate, qualifier: str = "", named: Callable[[str], str] = quoted) -> str:
    """The predicate as SQL; `qualifier` goes before each column, which `named` makes SQL of."""

    def nested(part: Predicate) -> str:
        text = predicate_text(part, qualifier, named)
        chained = isinstance(part, Not) and isinstance(predicate, Not)  # parentheses would nest without end
        return f"({text})" if isinstance(part, And | Or | Not) and not chained else text

    match predicate:
        case And(parts):
            return " AND ".join(map(nested, parts))
        case Or(parts):
            return " OR ".join(map(nested, parts))
        case Not(part):
            return f"NOT {nested(part)}"
    column = f"{qualifier}{named(predicate.column)}"
    match predicate:
        case Compare(_, op, value):
            return f"{column} {op} {operand_text(value)}"
        case In(_, values):
            return f"{column} IN ({', '.join(map(operand_text, values))})"
        case Between(_, low, high):
            return f"{column} BETWEEN {operand_text(low)} AND {operand_text(high)}"
        case Like(_, pattern, escape):
            suffix = "" if escape == "\\" else f" ESCAPE {constant(escape)}"
            return f"{column} LIKE {constant(pattern)}{suffix}"


def constant(value: KeyPart) -> str:
    r"""A constant as SQL.

    >>> constant("it's"), constant(5.0), constant(-7), constant(True), constant(float("-inf"))
    ("'it\\'s'", '5.0', '-7', 'TRUE', '-INFINITY')
    """
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


def number(value: float) -> str:
    """A number that is a float wherever it is read, so that whole ones need no point.

    >>> number(5.0), number(0.25), number(1e300)
    ('5', '0.25', '1e+300')
    """
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def operand_text(operand: Operand) -> str:
    """A constant or a parameter as SQL."""
    return quoted(operand.name) if isinstance(operand, Parameter) else constant(operand)


def qualifier_of(relation: str, columns: Iterable[str | None], parameters: tuple[str, ...]) -> str:
    """What has to stand before columns lest they be taken for parameters: the relation, or nothing."""
    return relation if not set(parameters).isdisjoint(columns) else ""


def range_text(where: Range, relation: str = "") -> str:
    """The range as SQL, its column behind the name of the relation, if one is given."""
    qualifier = f"{quoted(relation)}." if relation else ""
    return predicate_text(Between(where.column, where.low, where.high), qualifier)
