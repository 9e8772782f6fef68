"""Conditions on an item's key columns, as frozen dataclasses, and whether a key satisfies them.

SQL's rules: text compares by code point, numbers by value; what compares unlike kinds is neither true nor false, and
`matches` takes it, like SQL's WHERE, for false.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

from tolerant.sql.limits import DEEPEST_CONDITION
from tolerant.streams import KeyPart

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Parameter:
    """A value that a subscription to a template will give."""

    name: str


Operand: TypeAlias = str | int | float | bool | Parameter
"""What a column is compared with: a constant, or a template's parameter."""


@dataclass(frozen=True)
class Compare:
    """`column op value`."""

    column: str
    op: Operator
    value: Operand


@dataclass(frozen=True)
class In:
    """`column IN (value, …)`."""

    column: str
    values: tuple[Operand, ...]


@dataclass(frozen=True)
class Between:
    """`column BETWEEN low AND high`: both ends belong to it."""

    column: str
    low: Operand
    high: Operand


@dataclass(frozen=True)
class Like:
    """`column LIKE pattern`: `%` is any text, `_` any one character.

    `escape` before one of them (or itself) takes it literally.
    """

    column: str
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True)
class And:
    """All parts hold."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Predicate


Predicate: TypeAlias = Compare | In | Between | Like | And | Or | Not

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(predicate: Predicate | None, row: Mapping[str, KeyPart | None]) -> bool:
    """Whether the row, given as column → value, satisfies the predicate; None is satisfied by every row.

    >>> matches(And((Compare("kind", "=", "in"), Like("host", "web-%"))), {"host": "web-7", "kind": "in"})
    True

    Raises:
        KeyError: the row lacks a column that the predicate names.
        ValueError: the predicate has a parameter that is not bound.
    """
    return predicate is None or _truth(predicate, row) is True


def columns(predicate: Predicate | None) -> Iterator[str]:
    """The columns that a predicate names, in the order it names them; repeated where it repeats them.

    >>> list(columns(Not(Or((Compare("a", "<", 1), In("b", ("x",)))))))
    ['a', 'b']
    """
    for leaf in leaves(predicate):
        yield leaf.column


def leaves(predicate: Predicate | None) -> Iterator[Compare | In | Between | Like]:
    """The comparisons that a predicate is made of, in order."""
    match predicate:
        case None:
            return
        case And(parts) | Or(parts):
            for part in parts:
                yield from leaves(part)
        case Not(part):
            yield from leaves(part)
        case leaf:
            yield leaf


def operands(leaf: Compare | In | Between | Like) -> tuple[Operand, ...]:
    """The constants and parameters of one comparison.

    >>> operands(Between("id", 1, Parameter("last")))
    (1, Parameter(name='last'))
    """
    match leaf:
        case Compare():
            return (leaf.value,)
        case In():
            return leaf.values
        case Between():
            return (leaf.low, leaf.high)
        case Like():
            return (leaf.pattern,)


def conjuncts(predicate: Predicate | None) -> tuple[Predicate, ...]:
    """The parts that all have to hold: those of a top-level AND, or the predicate itself."""
    if predicate is None:
        return ()
    return predicate.parts if isinstance(predicate, And) else (predicate,)


def check_predicate(predicate: Predicate | None) -> None:
    """Raise ValueError unless a predicate has parts wherever it needs them, and is not nested too deeply."""
    level = [] if predicate is None else [predicate]
    for _ in range(DEEPEST_CONDITION + 1):  # and one AND of all
        inner: list[Predicate] = []
        for part in level:
            match part:
                case And(()) | Or(()) | In(_, ()):
                    raise ValueError(f"expected at least one part in {type(part).__name__.upper()}, found none")
                case And(parts) | Or(parts):
                    inner += parts
                case Not(negated):
                    inner.append(negated)
        level = inner
    if level:
        raise ValueError(f"conditions are nested deeper than {DEEPEST_CONDITION}")


def check_pattern(pattern: str, escape: str) -> None:
    """Raise ValueError if an escape character in a LIKE pattern stands before nothing that it could escape."""
    _pattern(pattern, escape)


def _truth(predicate: Predicate, row: Mapping[str, KeyPart | None]) -> bool | None:
    """Three-valued: None where unlike kinds are compared."""
    match predicate:
        case And(parts):
            return _all(_truth(part, row) for part in parts)
        case Or(parts):
            some = _all(_negated(_truth(part, row)) for part in parts)
            return _negated(some)
        case Not(part):
            return _negated(_truth(part, row))
        case Compare(column, op, value):
            return _compared(op, row[column], value)
        case Between(column, low, high):
            return _all((_compared(">=", row[column], low), _compared("<=", row[column], high)))
        case In(column, values):
            return _negated(_all(_compared("<>", row[column], value) for value in values))
        case Like(column, pattern, escape):
            text = row[column]
            return _pattern(pattern, escape).fullmatch(text) is not None if isinstance(text, str) else None


def _all(truths: Iterator[bool | None] | tuple[bool | None, ...]) -> bool | None:
    result: bool | None = True
    for truth in truths:
        if truth is False:
            return False
        if truth is None:
            result = None
    return result


def _negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def _compared(op: str, left: KeyPart | None, right: Operand) -> bool | None:
    if isinstance(right, Parameter):
        raise ValueError(f"parameter {right.name!r} has no value")
    if _family(left) != _family(right):
        return None
    return _OPERATORS[op](left, right)


def _family(value: KeyPart | None) -> str:
    if value is None:  # an aggregate of nothing
        return "nothing"
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


@lru_cache(maxsize=1024)
def _pattern(pattern: str, escape: str) -> re.Pattern[str]:
    if len(escape) != 1:
        raise ValueError(f"the escape of LIKE must be one character, got {escape!r}")
    runs = [""]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped == "" or escaped not in ("%", "_", escape):
                raise ValueError(f"in the pattern {pattern!r} the escape {escape!r} must stand before %, _ or itself")
            runs[-1] += re.escape(escaped)
        elif character == "%":
            runs.append("")
        else:
            runs[-1] += "." if character == "_" else re.escape(character)
    first, *rest = runs
    if rest:
        # Each run between two % may be taken where it first occurs, for good (an atomic group): no backtracking,
        # linear time.
        first += "".join(f"(?>.*?{run})" for run in rest[:-1] if run) + ".*" + rest[-1]
    return re.compile(first, re.DOTALL)
