"""How subscriptions share channels, `WITH (channel = 1, transfer = 1, …)`: what each option takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Literal

from tolerant.sql.errors import StatementError
from tolerant.sql.shape import Given
from tolerant.sql.sql_text import constant, number


@dataclass(frozen=True)
class Sharing:
    """How the subscriptions to a template share channels, `WITH (channel = …, …)`.

    The prices are in any one currency, only their ratios count: `channel` of a channel per period, `transfer` of a
    row sent, `waste` of a row that a subscriber receives and did not ask for. By default a channel costs as much as a
    row sent, and so do twenty wasted rows, as in [CBGM]. `procedure`: what a channel carries. `method`
    "none": nothing is shared.
    """

    channel: float = 1.0
    transfer: float = 1.0
    waste: float = 0.05
    procedure: Literal["box", "union", "pieces"] = "box"
    method: Literal["pairs", "none"] = "pairs"


NAMES = tuple(field.name for field in fields(Sharing))
"""The options that a query for everything in a range has."""

_WORDS = {"procedure": ("box", "union", "pieces"), "method": ("pairs", "none")}


def read_sharing(options: Iterable[Given]) -> Sharing:
    """What the options say.

    Raises:
        StatementError: names the option, what it takes and what it was given.
    """
    return Sharing(**{option.name: _read(option) for option in options})


def check_sharing(sharing: Sharing) -> None:
    """Raise StatementError, naming the option, unless the prices are prices."""
    for name in NAMES:
        if name not in _WORDS:
            _read(Given(name, getattr(sharing, name)))


def _read(option: Given) -> Any:
    name, value = option.name, option.value
    if name not in NAMES:
        raise StatementError(
            f"there is no option {name}",
            expected=f"one of {', '.join(NAMES)}",
            found=name,
            span=option.place,
            hint=f"the options are {', '.join(NAMES)}",
        )
    if name in _WORDS:
        what = f"one of {', '.join(_WORDS[name])}"
        if isinstance(value, str) and value.lower() in _WORDS[name]:
            return value.lower()
    else:
        what = "a price, a number that is not negative"
        if not isinstance(value, str) and 0 <= value < float("inf"):
            return float(value)
    raise StatementError(
        f"option {name} takes {what}, found {value!r:.60}",
        expected=what,
        found=f"{value!r:.60}",
        span=option.value_place,
    )


def sharing_text(sharing: Sharing) -> str:
    """The options that are not the default, as SQL; none: nothing."""
    given = []
    for field in fields(Sharing):
        value = getattr(sharing, field.name)
        if value != field.default:
            given.append(f"{field.name} = {number(value) if isinstance(value, float) else constant(value)}")
    return f" WITH ({', '.join(given)})" if given else ""
