"""`WITH (shards = n)` of joins; of band joins also what is known of their columns."""

from __future__ import annotations

import math
from dataclasses import astuple, fields

from tolerant.sql.errors import StatementError
from tolerant.sql.join_spreads import Stretch
from tolerant.sql.shape import Given, Shape
from tolerant.sql.sql_text import number

MOST_SHARDS = 64
"""Every one of them reads every row, if not all its columns: more would only read the same."""


def shards_of(shape: Shape) -> int:
    """What `WITH (shards = n)` says; 1 without it.

    Raises:
        StatementError: it says something else.
    """
    return _shards(_options(shape, ("shards",)))


def spread_of(shape: Shape) -> tuple[int, Stretch | None]:
    """What `WITH (shards = n, lowest = x, highest = y, reach = z)` says of a band join; the last three go together.

    Raises:
        StatementError: it says something else.
    """
    given = _options(shape, ("shards", *_STRETCH))
    known = [given[name] for name in _STRETCH if name in given]
    if not known:
        return _shards(given), None
    for option in known:
        if isinstance(option.value, str) or not math.isfinite(option.value):
            what = "a number"
            raise StatementError(
                f"option {option.name} takes {what}, found {option.value!r:.60}",
                expected=what,
                span=option.value_place,
            )
    missing = [name for name in _STRETCH if name not in given]
    if missing:
        raise StatementError(
            f"option {known[0].name} needs option {missing[0]}", expected=", ".join(_STRETCH), span=known[0].place
        )
    stretch = Stretch(*(float(given[name].value) for name in _STRETCH))
    check_stretch(stretch)
    return _shards(given), stretch


def check_stretch(stretch: Stretch | None) -> None:
    """Raise StatementError unless it can be one."""
    if stretch is None:
        return
    if not all(map(math.isfinite, astuple(stretch))) or stretch.lowest >= stretch.highest or stretch.reach < 0:
        raise StatementError(
            "options lowest, highest and reach take a stretch and how far bands reach at most",
            expected="lowest below highest, and a reach that is not negative",
            found=", ".join(f"{name} = {value:g}" for name, value in zip(_STRETCH, astuple(stretch), strict=True)),
            about=("WITH",),
        )


_STRETCH = tuple(field.name for field in fields(Stretch))


def _options(shape: Shape, names: tuple[str, ...]) -> dict[str, Given]:
    given = {option.name: option for option in shape.clauses.options or ()}
    for option in given.values():
        if option.name not in names:
            raise StatementError(
                f"there is no option {option.name}", expected=", ".join(names), found=option.name, span=option.place
            )
    return given


def _shards(given: dict[str, Given]) -> int:
    option = given.get("shards")
    if option is None:
        return 1
    if not isinstance(option.value, int) or not 1 <= option.value <= MOST_SHARDS:
        what = f"a whole number from 1 to {MOST_SHARDS}"
        raise StatementError(
            f"option shards takes {what}, found {option.value!r:.60}", expected=what, span=option.value_place
        )
    return option.value


def check_shards(shards: int) -> None:
    """Raise StatementError unless there can be so many."""
    if not 1 <= shards <= MOST_SHARDS:
        raise StatementError(f"option shards takes a whole number from 1 to {MOST_SHARDS}, found {shards}")


def spread_text(shards: int, stretch: Stretch | None = None) -> str:
    """The options that are not the default, as SQL; none: nothing."""
    given = [f"shards = {shards}"] if shards != 1 else []
    if stretch is not None:
        given += [f"{field.name} = {number(getattr(stretch, field.name))}" for field in fields(Stretch)]
    return f" WITH ({', '.join(given)})" if given else ""
