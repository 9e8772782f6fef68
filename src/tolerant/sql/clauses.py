"""Our own clauses, peeled off the end of a select: WITHIN, FIDELITY, OTHERWISE, KEEP n ROWS, REFRESH WITHIN t, WHEN
condition and WITH (option = value, …).
"""

from __future__ import annotations

from sqlglot import Token

from tolerant.sql.cursor import Cursor
from tolerant.sql.durations import read_duration
from tolerant.sql.errors import StatementError
from tolerant.sql.select import Trigger
from tolerant.sql.shape import Clauses, Given
from tolerant.sql.tokens import depths, source
from tolerant.sql.triggers import read_trigger

WORDS = ("WITHIN", "FIDELITY", "OTHERWISE", "KEEP", "REFRESH", "WITH")
_WHEN = "WHEN"
"""A clause only behind another: before the first it is that of a CASE."""
_ANY = "WITHIN, FIDELITY, OTHERWISE, KEEP, REFRESH, WITH or ';'"


def peel(text: str, tokens: list[Token]) -> tuple[list[Token], Clauses]:
    """The tokens before the first of our clauses, and the clauses.

    Outside parentheses our words are always clauses; a column of such a name goes in backticks, or behind its table's
    name.
    """
    for i, (depth, token) in enumerate(depths(tokens)):
        named = i and source(text, tokens[i - 1]).upper() in (".", "AS")
        word = source(text, token).upper()
        # Spark's own WITH begins a select, or says what follows: ROLLUP, CUBE.
        theirs = word == "WITH" and (i == 0 or i + 1 == len(tokens) or source(text, tokens[i + 1]) != "(")
        if depth == 0 and not named and not theirs and word in WORDS:
            return tokens[:i], _clauses(Cursor(text, tokens[i:]))
    return tokens, Clauses()


def take_within(cursor: Cursor) -> float:
    """The number behind WITHIN: a tolerance, not negative."""
    place = cursor.here()
    within = float(cursor.take_number("a number after WITHIN"))
    if within < 0:
        raise StatementError(
            f"expected a tolerance that is not negative, found {within:g}",
            expected="a number, 0 or more",
            found=f"{within:g}",
            span=place,
        )
    return abs(within)  # -0 is 0


def take_duration(cursor: Cursor, what: str) -> int:
    """A duration in quotes, in microseconds, more than nothing."""
    place = cursor.here()
    written = cursor.take_string(
        what, hint="a duration is a number and a unit in quotes: '500 ms', '10 s', '5 min', '24 h'"
    )
    try:
        duration = read_duration(written)
    except ValueError as error:
        raise StatementError(str(error), expected=what, found=repr(written), span=place) from None
    if duration == 0:
        raise StatementError(f"expected {what}, more than nothing; found {written!r}", found=repr(written), span=place)
    return duration


def take_options(cursor: Cursor) -> tuple[Given, ...]:
    """`(name = value, …)`: none of them twice."""
    cursor.take_symbol("(")
    given: dict[str, Given] = {}
    while True:
        place = cursor.here()
        name = cursor.take_name("the name of an option").lower()
        if name in given:
            raise StatementError(f"option {name} is given twice", found=name, span=place)
        cursor.take_symbol("=")
        value_place = cursor.here()
        given[name] = Given(name, _option_value(cursor, name), place, value_place)
        if cursor.take_symbol(",", ")") == ")":
            return tuple(given.values())


def _option_value(cursor: Cursor, name: str) -> str | int | float:
    if cursor.word() or cursor.at_symbol("`") or (cursor.token and source(cursor.text, cursor.token)[0] == "`"):
        return cursor.take_name(f"a value for option {name}")
    if cursor.token is not None and source(cursor.text, cursor.token)[0] in "'\"":
        return cursor.take_string(f"a value for option {name}")
    return cursor.take_number(f"a value for option {name}")


def _take_trigger(cursor: Cursor) -> Trigger:
    """The condition behind WHEN: everything up to the next clause."""
    rest = cursor.rest()
    words = [depth == 0 and source(cursor.text, token).upper() in WORDS for depth, token in depths(rest)]
    taken = rest[: words.index(True)] if any(words) else rest
    if not taken:
        raise cursor.fail("a condition after WHEN", hint="such as WHEN (SELECT COUNT(*) FROM orders) > 10")
    cursor.index += len(taken)
    return read_trigger(cursor.text, taken)


def _clauses(cursor: Cursor) -> Clauses:
    clauses: dict[str, object] = {}
    spans: dict[str, tuple[int, int]] = {}
    while not cursor.done:
        place = cursor.here()
        name = cursor.word().lower()
        if name.upper() not in (*WORDS, _WHEN):
            raise cursor.fail(_ANY)
        if name in clauses:
            raise StatementError(f"{name.upper()} is said twice", found=name.upper(), span=place)
        cursor.index += 1
        clauses[name] = _value(cursor, name)
        spans[name] = place
    if "with" in clauses:
        clauses["options"] = clauses.pop("with")
    return Clauses(**clauses, spans=spans)  # type: ignore[arg-type]


def _value(cursor: Cursor, name: str) -> object:
    if name == "within":
        return take_within(cursor)
    if name == "with":
        return take_options(cursor)
    if name == "otherwise":
        return cursor.take_word("WIDEN", "WITHHOLD").lower()
    if name == "when":
        return _take_trigger(cursor)
    if name == "refresh":
        cursor.take_word("WITHIN")
        return take_duration(cursor, "a duration after REFRESH WITHIN")
    place = cursor.here()
    value = cursor.take_number(f"a number after {name.upper()}")
    if name == "fidelity":
        if not 0 < value <= 1:
            raise StatementError(
                f"expected a fidelity above 0 and at most 1, found {value}",
                expected="a number above 0 and at most 1",
                found=str(value),
                span=place,
                hint="fidelity is the fraction of time that the bound holds; 1 is a guarantee",
            )
        return float(value)
    if not isinstance(value, int) or not 1 <= value < 2**63:
        raise StatementError(f"expected a whole number of rows after KEEP, found {value}", found=str(value), span=place)
    cursor.take_word("ROWS")
    return value
