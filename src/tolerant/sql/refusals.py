"""The reasons for which a catalogue refuses a statement that is right in itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from tolerant.sql.errors import StatementError
from tolerant.sql.names import quoted
from tolerant.sql.sql_text import number
from tolerant.sql.statements import CreateQuery

_COMPARED = 200
"""Names that a misspelt one is compared with, at most."""
_LISTED = 30
"""Names in a message at most."""


def unknown(what: str, name: str, known: Iterable[str], *about: str) -> StatementError:
    """Nothing goes by this name."""
    close = difflib.get_close_matches(name, islice(known, _COMPARED), n=1, cutoff=0.7)
    plural = "QUERIES" if what == "query" else f"{what.upper()}S"
    hint = f"did you mean {close[0]}?" if close else f"SHOW {plural} says which there are"
    return StatementError(f"there is no {what} {name}", expected=f"a {what}", found=name, hint=hint, about=about)


def no_such(what: str, name: str, known: Iterable[str]) -> str:
    """That nothing goes by this name, what might be meant, and which names there are.

    >>> no_such("query", "inbuond", ["inbound", "outbound"])
    'there is no query inbuond; did you mean inbound? There are: inbound, outbound'
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else "")
    return (
        f"there is no {what} {name}; {f'did you mean {close[0]}? There' if close else 'there'} are: {listed or 'none'}"
    )


def conflict(what: str, name: str, existing: str, hint: str = "") -> StatementError:
    """Something else goes by this name."""
    return StatementError(
        f"{what} {name} exists, and is another: {existing}",
        expected=existing,
        hint=hint or f"DROP {what.upper()} {quoted(name)} first, or take another name",
        about=(what.upper(), name),
    )


def in_use(what: str, name: str, users: list[str]) -> StatementError:
    """Queries read it."""
    drops = "; ".join(f"DROP QUERY {quoted(user)}" for user in users)
    return StatementError(
        f"{what} {name} is used by {', '.join(users)}", hint=f"drop first: {drops}", about=("DROP", name)
    )


def how_to_change(existing: CreateQuery, query: CreateQuery) -> str:
    """The statement that makes `held` into `query`, if there is one: ALTER changes the tolerance alone."""
    within = query.select.tolerance
    if within is None or replace(existing, select=existing.select.with_tolerance(within)) != query:
        return ""
    return f"ALTER QUERY {quoted(query.name)} WITHIN {number(within)}"
