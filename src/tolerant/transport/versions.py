"""Which SQLite this Python has, and whether it can be trusted with a log that many processes write."""

from __future__ import annotations

import sqlite3

Version = tuple[int, ...]

FIXED = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""The first versions without the WAL-reset bug (sqlite.org/wal.html#walresetbug): two of older series, then all."""


def has_wal_reset_bug(version: Version) -> bool:
    """Whether a version of SQLite can damage a file that several connections write and checkpoint at one moment.

    >>> [has_wal_reset_bug(v) for v in ((3, 40, 1), (3, 44, 6), (3, 50, 6), (3, 51, 3))]
    [True, False, True, False]
    """
    return version < FIXED[-1] and not any(fixed <= version < (fixed[0], fixed[1] + 1) for fixed in FIXED)


def sqlite_warning(version: Version = sqlite3.sqlite_version_info) -> str | None:
    """What to tell who starts a pipeline on this SQLite; None: nothing."""
    if not has_wal_reset_bug(version):
        return None
    return (
        f"Warning: this Python has SQLite {'.'.join(map(str, version))}, which can, very rarely, damage a log that"
        " several processes write at once (fixed in 3.51.3, 3.50.7 and 3.44.6). Use a Python with a newer one; until"
        " then make backups (`tolerant log backup FILE`). Damage is noticed, never answered from."
    )
