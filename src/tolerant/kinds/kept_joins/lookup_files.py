"""A growing table joined with one that does not fit: its rows stay in its file, and are looked up.

`KEEP n ROWS` says how many of them are held; the others are fetched. What the file held when the query was created is
what is looked up, whatever becomes of the file: the sender puts its rows into the log under a digest of the file, and
the digest into the statement.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tolerant.sql.errors import StatementError

_DIGITS = 16


def digest_of(path: Path) -> str:
    """What a file holds, as a digest.

    Raises:
        StatementError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:_DIGITS]
    except FileNotFoundError:
        raise StatementError(f"there is no file {path.name}", expected="a file", found=f"nothing at {path}") from None
    except OSError as error:
        raise StatementError(f"{path.name} cannot be read: {error!s:.200}", found=path.name) from None
