"""Rows of the SQLite log, each checked when it is read: its checksum, and that none before or after it is missing.

A damaged page of SQLite may lose rows as well as change them. Entries are chained (`previous`, and `last` of their
topic), and the records of compacted topics stand in two trees, which must agree.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from tolerant.transport.checksums import checksum, is_intact
from tolerant.transport.common import Change, compacted_entry
from tolerant.transport.log import START, Damaged, Entry, Record
from tolerant.transport.schema import damaged

_AFTER = (
    "SELECT position, previous, at, checksum, payload FROM entries WHERE topic = ? AND position > ?"
    " ORDER BY position LIMIT ?"
)
_SIZES = (
    "SELECT position, previous, length(payload) FROM entries WHERE topic = ? AND position > ? ORDER BY position LIMIT ?"
)
_CHANGED = (
    "SELECT position, key, version, at, checksum, body FROM compacted WHERE topic = ? AND position > ?"
    " ORDER BY position, key"
)
_BY_CHANGE = "SELECT count(*) FROM compacted INDEXED BY compacted_by_change WHERE topic = ? AND position > ?"
# `at` and `key >= ''` make it walk the table itself: SQLite would count in the index, NOT INDEXED or not.
_BY_KEY = "SELECT count(at) FROM compacted NOT INDEXED WHERE topic = ? AND key >= ''"
_UPSERT = """
    INSERT INTO compacted (topic, key, version, position, at, checksum, body) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (topic, key) DO UPDATE SET version = excluded.version, position = excluded.position, at = excluded.at,
        checksum = excluded.checksum, body = excluded.body
    WHERE excluded.version >= version
"""


_WHOLE = ""  # no topic: the whole log


class Tail(NamedTuple):
    """How far a topic reaches: the positions of its last entry, and of the last that retention has deleted."""

    last: int = START
    trimmed: int = START


# -- topics ----------------------------------------------------------------------------------------------------------


def read_tail(connection: sqlite3.Connection, topic: str) -> Tail | None:
    """The tail of a topic; None: it never held anything."""
    row = connection.execute("SELECT last, trimmed, checksum FROM topics WHERE topic = ?", (topic,)).fetchone()
    return None if row is None else _tail(topic, *row)


def all_tails(connection: sqlite3.Connection) -> dict[str, Tail]:
    """The tails of all topics."""
    rows = connection.execute("SELECT topic, last, trimmed, checksum FROM topics WHERE topic != ?", (_WHOLE,))
    return {topic: _tail(topic, *row) for topic, *row in rows}


def _tail(topic: str, last: int, trimmed: int, stored: int) -> Tail:
    if not is_intact(stored, None, topic, last, trimmed):
        raise damaged(f"what the log says of topic {topic!r} is damaged", topic)
    return Tail(last, trimmed)


def write_tails(connection: sqlite3.Connection, tails: Iterable[tuple[str, Tail]]) -> None:
    """Record how far topics reach now."""
    rows = ((topic, *tail, checksum(None, topic, *tail)) for topic, tail in tails)
    connection.executemany("INSERT OR REPLACE INTO topics (topic, last, trimmed, checksum) VALUES (?, ?, ?, ?)", rows)


def log_end(connection: sqlite3.Connection) -> int:
    """The last position that was given out."""
    return (read_tail(connection, _WHOLE) or Tail()).last


def take_positions(connection: sqlite3.Connection, count: int) -> int:
    """The last of `count` new positions."""
    last = log_end(connection) + count
    write_tails(connection, [(_WHOLE, Tail(last))])
    return last


# -- entries ---------------------------------------------------------------------------------------------------------


def insert_entries(connection: sqlite3.Connection, at: int, entries: Iterable[tuple[int, str, bytes]]) -> None:
    """Append entries (position, topic, payload), in the order of their positions."""
    tails: dict[str, Tail] = {}
    rows = []
    for position, topic, payload in entries:
        tail = tails[topic] if topic in tails else read_tail(connection, topic) or Tail()
        sum_ = checksum(payload, position, topic, tail.last, at)
        rows.append((position, topic, tail.last, at, sum_, payload))
        tails[topic] = tail._replace(last=position)
    if rows:
        connection.executemany(
            "INSERT INTO entries (position, topic, previous, at, checksum, payload) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
        write_tails(connection, tails.items())


def entries_after(
    connection: sqlite3.Connection, topic: str, position: int, limit: int | None = None
) -> Iterator[Entry]:
    """The entries of a topic after a position.

    Raises:
        Damaged: when it comes to an entry that is not what was appended, or is missing.
    """
    for reached, previous, at, stored, payload in _chained(connection, _AFTER, topic, position, limit):
        if not is_intact(stored, payload, reached, topic, previous, at):
            raise damaged(
                f"the entry of topic {topic!r} at position {reached} is damaged: its checksum is another",
                topic,
                reached,
            )
        yield Entry(topic, 0, reached, payload)


def sizes_after(connection: sqlite3.Connection, topic: str, position: int, limit: int) -> Iterator[tuple[int, int]]:
    """Position and bytes of the entries of a topic after a position; those that are missing are noticed."""
    return ((reached, size or 0) for reached, _, size in _chained(connection, _SIZES, topic, position, limit))


def _chained(
    connection: sqlite3.Connection, statement: str, topic: str, position: int, limit: int | None
) -> Iterator[tuple[Any, ...]]:
    """Rows that begin with (position, previous), none missing between them, before them or behind them."""
    tail = read_tail(connection, topic)
    reached, trimmed = position, START if tail is None else tail.trimmed
    count = 0
    for count, row in enumerate(connection.execute(statement, (topic, position, -1 if limit is None else limit)), 1):
        previous = row[1]
        if not isinstance(previous, int):
            raise damaged(f"the entry of topic {topic!r} at position {row[0]} is damaged", topic, row[0])
        if previous != reached and not (count == 1 and previous <= max(position, trimmed)):
            raise _gap(topic, reached, row[0])
        reached = row[0]
        yield row
    last = START if tail is None else tail.last
    if count != limit and last != reached and (count or last > max(position, trimmed)):
        raise _gap(topic, reached, last)


def _gap(topic: str, after: int, before: int) -> Damaged:
    return damaged(
        f"the log is damaged: entries of topic {topic!r} after position {after}, up to {before}, are missing", topic
    )


# -- records of compacted topics -------------------------------------------------------------------------------------


def upsert(connection: sqlite3.Connection, position: int, at: int, changed: Iterable[Change]) -> None:
    """Write records of compacted topics, each unless a newer version is there."""
    rows = [
        (topic, key, version, position, at, checksum(body, topic, key, version, position, at), body)
        for topic, key, version, body in changed
    ]
    connection.executemany(_UPSERT, rows)
    refresh_tails(connection, {row[0] for row in rows})


def refresh_tails(connection: sqlite3.Connection, topics: Iterable[str]) -> None:
    """Record how far compacted topics reach, from their records."""
    newest = "SELECT max(position) FROM compacted WHERE topic = ?"
    tails = [(topic, Tail(connection.execute(newest, (topic,)).fetchone()[0] or START)) for topic in topics]
    write_tails(connection, tails)


def changed_after(connection: sqlite3.Connection, topic: str, position: int) -> Iterator[Entry]:
    """The records of a compacted topic that changed after a position, as entries, one for each append.

    Raises:
        Damaged: when it comes to a record that is not what was written, or at the end if one is missing.
    """
    for reached, rows in groupby(_records(connection, topic, position), key=itemgetter(0)):
        yield compacted_entry(topic, reached, [row[1:] for row in rows])


def _records(connection: sqlite3.Connection, topic: str, position: int) -> Iterator[tuple[int, str, int, bytes | None]]:
    count, reached, before = 0, position, (position, "")
    rising = True
    for reached, key, version, at, stored, body in connection.execute(_CHANGED, (topic, position)):
        check_record(stored, topic, key, version, reached, at, body)
        count += 1
        rising = rising and before < (reached, key)  # else one may stand there twice, in the place of another
        before = (reached, key)
        yield reached, key, version, body
    tail = read_tail(connection, topic)
    last = START if tail is None else tail.last
    whole = rising and count == connection.execute(_BY_CHANGE, (topic, position)).fetchone()[0]
    if position == START:
        whole = whole and count == connection.execute(_BY_KEY, (topic,)).fetchone()[0]
    if not whole or (last != reached and (count or last > position)):
        raise damaged(f"the log is damaged: records of the compacted topic {topic!r} are missing", topic)


def check_record(stored: int, topic: str, key: str, version: int, position: int, at: int, body: bytes | None) -> None:
    """Nothing, if a record is what was written.

    Raises:
        Damaged: it is not.
    """
    if not is_intact(stored, body, topic, key, version, position, at):
        raise damaged(
            f"the record of {key!r} in the compacted topic {topic!r}, at position {position}, is damaged: its checksum"
            " is another",
            topic,
            position,
            key,
        )


def latest_record(connection: sqlite3.Connection, topic: str, key: str) -> Record | None:
    """The record of a key; None: there is none, or the key is forgotten.

    Raises:
        Damaged: it is not what was written, or is missing.
    """
    statement = "SELECT version, position, at, checksum, body FROM compacted WHERE topic = ? AND key = ?"
    row = connection.execute(statement, (topic, key)).fetchone()
    if row is None:
        other = "SELECT count(*) FROM compacted INDEXED BY compacted_by_change WHERE topic = ? AND key = ?"
        if connection.execute(other, (topic, key)).fetchone()[0]:
            raise damaged(f"the record of {key!r} in the compacted topic {topic!r} is missing", topic, None, key)
        return None
    version, position, at, stored, body = row
    check_record(stored, topic, key, version, position, at, body)
    return None if body is None else Record(key, version, body)


# -- batches ---------------------------------------------------------------------------------------------------------


def last_batch(connection: sqlite3.Connection, checkpoint: str) -> int | None:
    """The number of the last batch of a checkpoint whose outputs are in the log."""
    statement = "SELECT batch, checksum FROM batches WHERE checkpoint = ?"
    row = connection.execute(statement, (checkpoint,)).fetchone()
    if row is None:
        return None
    if not is_intact(row[1], None, checkpoint, row[0]):
        raise damaged(f"what the log says of the batches of checkpoint {checkpoint} is damaged")
    return int(row[0])


def record_batch(connection: sqlite3.Connection, checkpoint: str, batch: int) -> None:
    """Record the number of the last batch of a checkpoint."""
    connection.execute(
        "INSERT OR REPLACE INTO batches (checkpoint, batch, checksum) VALUES (?, ?, ?)",
        (checkpoint, batch, checksum(None, checkpoint, batch)),
    )
