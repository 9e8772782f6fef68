"""`WITH (shards = n)` of joins."""

from __future__ import annotations

from tolerant.sql.errors import StatementError
from tolerant.sql.shape import Shape

MOST_SHARDS = 64
"""Every one of them reads every row, if not all its columns: more would only read the same."""


def shards_of(shape: Shape) -> int:
    """What `WITH (shards = n)` says; 1 without it.

    Raises:
        StatementError: it says something else.
    """
    found = 1
    for option in shape.clauses.options or ():
        if option.name != "shards":
            raise StatementError(
                f"there is no option {option.name}", expected="shards", found=option.name, span=option.place
            )
        if not isinstance(option.value, int) or not 1 <= option.value <= MOST_SHARDS:
            what = f"a whole number from 1 to {MOST_SHARDS}"
            raise StatementError(
                f"option shards takes {what}, found {option.value!r:.60}", expected=what, span=option.value_place
            )
        found = option.value
    return found


def check_shards(shards: int) -> None:
    """Raise StatementError unless there can be so many."""
    if not 1 <= shards <= MOST_SHARDS:
        raise StatementError(f"option shards takes a whole number from 1 to {MOST_SHARDS}, found {shards}")
