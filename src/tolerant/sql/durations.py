"""Durations as text: a number and a unit. In the program they are integers, microseconds."""

from __future__ import annotations

import re
from fractions import Fraction

_UNITS = {"ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_TEXT = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]+)\s*", re.ASCII)

LONGEST = 36_500 * _UNITS["d"]
"""A hundred years: sums of times stay far from the end of 64 bits."""


def read_duration(text: str) -> int:
    """The duration that `text` says, in microseconds.

    >>> read_duration("500 ms"), read_duration("5min"), read_duration("0.5 h")
    (500000, 300000000, 1800000000)

    Raises:
        ValueError: it is no number with a unit, not a whole number of microseconds, or more than a hundred years.
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a duration such as '500 ms', '10 s', '5 min' or '24 h', found {text!r}")
    number, unit = match.groups()
    if unit not in _UNITS:
        raise ValueError(f"expected a unit of time ({', '.join(_UNITS)}), found {unit!r}")
    microseconds = Fraction(number) * _UNITS[unit]
    if microseconds.denominator != 1:
        raise ValueError(f"expected a whole number of microseconds, found {text!r}")
    if microseconds > LONGEST:
        raise ValueError(f"expected a duration of at most 36500 d, found {text!r}")
    return int(microseconds)


def duration_text(microseconds: int) -> str:
    """The duration in the largest unit that says it in whole numbers; `read_duration` gives it back exactly.

    >>> duration_text(300_000_000), duration_text(1_500_000), duration_text(250)
    ('5 min', '1500 ms', '0.25 ms')
    """
    for unit in ("d", "h", "min", "s", "ms"):
        if microseconds and microseconds % _UNITS[unit] == 0:
            # A day is said in hours: '24 h' is how people write it.
            if unit == "d" and microseconds < 2 * _UNITS["d"]:
                continue
            return f"{microseconds // _UNITS[unit]} {unit}"
    if microseconds == 0:
        return "0 s"
    whole, rest = divmod(microseconds, _UNITS["ms"])
    return f"{whole}.{rest:03d}".rstrip("0") + " ms"
