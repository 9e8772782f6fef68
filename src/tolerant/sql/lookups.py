"""A growing table joined with one that does not fit: its rows stay in its file, and are looked up.

`KEEP n ROWS` says how many of them are held; the others are fetched. What the file held when the query was created is
what is looked up, whatever becomes of the file: the sender puts its rows into the log under a digest of the file, and
the digest into the statement.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from tolerant.sql.catalogue import Catalogue
from tolerant.sql.errors import StatementError
from tolerant.sql.kinds.retention import looked_up
from tolerant.sql.statements import CreateQuery, CreateTable, KeepJoinSelect

_DIGITS = 16


def with_lookup(query: CreateQuery, catalogue: Catalogue, base_dir: Path | str = ".") -> CreateQuery:
    """See `tolerant.sql.with_lookup`."""
    table = lookup_table(query, catalogue)
    if table is None:
        return query
    assert isinstance(query.select, KeepJoinSelect)
    return replace(query, select=replace(query.select, file=_digest(Path(base_dir) / str(table.uri))))


def lookup_table(query: CreateQuery, catalogue: Catalogue) -> CreateTable | None:
    """The table that a query looks rows up in, if it has one."""
    if not isinstance(query.select, KeepJoinSelect):
        return None
    tables = [catalogue.tables.get(name) for name in (query.select.left, query.select.right)]
    if tables[0] is None or tables[1] is None:
        return None
    place = looked_up(query.select, tables[0], tables[1])
    return None if place is None else tables[place]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    except FileNotFoundError:
        raise StatementError(f"there is no file {path.name}", expected="a file", found=f"nothing at {path}") from None
    except OSError as error:
        raise StatementError(f"{path.name} cannot be read: {error!s:.200}", found=path.name) from None
