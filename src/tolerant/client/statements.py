"""Sends statements: checked against what the log holds, appended, the pipeline's reply waited for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tolerant.sql import (
    Catalogue,
    CreateQuery,
    Show,
    Statement,
    StatementError,
    decode,
    encode,
    parse_many,
    with_weights,
)
from tolerant.transport import Log, rows
from tolerant.transport.log import QUERIES, START

POLL = 0.05
"""Seconds between two looks for a reply."""


@dataclass(frozen=True)
class Reply:
    """What became of a statement: `message` says what was done, or why it was refused."""

    accepted: bool
    message: str


@dataclass(frozen=True)
class Sent:
    """A statement that stands in the log, under the request that its reply will repeat."""

    statement: Statement
    request: str
    position: int


def standing(log: Log) -> Catalogue:
    """The streams, tables and queries that the log's statements have left standing."""
    catalogue = Catalogue()
    for entry in log.read(QUERIES, START):
        for body in rows.unpack(entry.payload).column("body").to_pylist():
            try:
                catalogue.apply(decode(body))
            except ValueError:
                continue  # not a statement: the pipeline refuses it too, and says so
    return catalogue


def read(log: Log, text: str) -> list[Statement]:
    """The statements in a text, each checked against what the log holds and the ones before it.

    Raises:
        StatementError: one of them could not be accepted, with line and column.
    """
    return parse_many(text, standing(log))


def missing(log: Log, statements: Sequence[Statement], folder: Path | str = ".") -> list[Statement]:
    """Those of the statements that the log does not hold yet, in their order, with weights read from their files.

    Paths of files start at `folder`. SHOW is never missing.

    Raises:
        StatementError: one of them could not be accepted.
    """
    catalogue = standing(log)
    found = []
    for statement in statements:
        if isinstance(statement, Show):
            continue
        if isinstance(statement, CreateQuery):
            statement = with_weights(statement, catalogue, folder)
        outcome = catalogue.apply(statement)
        if not outcome.accepted:
            raise StatementError(outcome.message, line=statement.line, column=statement.column)
        if outcome.changed:
            found.append(statement)
    return found


def send(log: Log, statement: Statement) -> Sent:
    """Append the statement, which has been checked; it takes effect where it stands in the log."""
    request = uuid.uuid4().hex
    row = {
        "kind": statement.kind,
        "key": statement.about,
        "request": request,
        "text": statement.text,
        "body": encode(statement),
    }
    position = log.append(QUERIES, pa.RecordBatch.from_pylist([row], schema=rows.STATEMENTS))
    return Sent(statement, request, position)


def reply_to(log: Log, sent: Sent, timeout: float) -> Reply | None:
    """The pipeline's reply, waited for `timeout` seconds at most; None: nobody has replied."""
    end = time.monotonic() + timeout
    position = sent.position
    while True:
        for entry in log.read("replies", position):
            for row in rows.unpack(entry.payload).to_pylist():
                if row["request"] == sent.request:
                    return Reply(row["accepted"], row["message"])
            position = entry.position
        if time.monotonic() >= end:
            return None
        time.sleep(POLL)
