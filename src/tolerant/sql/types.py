"""The types that a column can have, under the names that Spark knows them by."""

from __future__ import annotations

import math

from tolerant.sql.errors import StatementError

TYPES = ("STRING", "INT", "BIGINT", "DOUBLE", "FLOAT", "BOOLEAN")
"""The types a column can have."""

NUMERIC = ("INT", "BIGINT", "DOUBLE", "FLOAT")
"""The types of a value that changes."""

_OTHER_NAMES = {
    "VARCHAR": "STRING",
    "CHAR": "STRING",
    "TEXT": "STRING",
    "INTEGER": "INT",
    "SMALLINT": "INT",
    "SHORT": "INT",
    "TINYINT": "INT",
    "BYTE": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "BOOL": "BOOLEAN",
}

_INSTEAD = {
    "DECIMAL": "DOUBLE",
    "DEC": "DOUBLE",
    "NUMERIC": "DOUBLE",
    "TIMESTAMP": "BIGINT, in microseconds",
    "TIMESTAMP_NTZ": "BIGINT, in microseconds",
    "DATE": "STRING",
}

_BITS = {"INT": 31, "BIGINT": 63}


def canonical_type(name: str) -> str:
    """The type that goes by this name, in any case.

    >>> canonical_type("varchar"), canonical_type("Long")
    ('STRING', 'BIGINT')

    Raises:
        StatementError: there is no such type here.
    """
    upper = name.upper()
    if upper in TYPES:
        return upper
    if upper in _OTHER_NAMES:
        return _OTHER_NAMES[upper]
    choices = ", ".join(TYPES)
    hint = f"use {_INSTEAD[upper]}" if upper in _INSTEAD else ""
    raise StatementError(
        f"expected a type ({choices}), found {name}", expected=f"one of {choices}", found=name, hint=hint, about=(name,)
    )


def is_value(type_name: str, value: object) -> bool:
    """Whether a Python value is a value of the type: integers in range, numbers finite, never None.

    >>> is_value("INT", 7), is_value("INT", 2**40), is_value("DOUBLE", float("nan")), is_value("STRING", 7)
    (True, False, False, False)
    """
    if type_name == "STRING":
        return isinstance(value, str)
    if type_name == "BOOLEAN":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if type_name in _BITS:
        return isinstance(value, int) and -(2 ** _BITS[type_name]) <= value < 2 ** _BITS[type_name]
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no double can hold
        return False


def comparable(type_name: str, value: object) -> bool:
    """Whether a constant can be compared with a column of the type: text with text, numbers with numbers.

    >>> comparable("INT", 1.5), comparable("STRING", 1), comparable("BOOLEAN", True)
    (True, False, True)
    """
    return is_value("DOUBLE" if type_name in NUMERIC else type_name, value)
