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
    CreateStream,
    Drop,
    Show,
    Statement,
    StatementError,
    Subscribe,
    Unsubscribe,
    decode,
    encode,
    home_of,
    parse_many,
    with_lookup,
    with_network,
    with_weights,
)
from tolerant.sql.subscriptions import SubscriptionFile, subscription_row
from tolerant.transport import Log, rows
from tolerant.transport.log import QUERIES, START
from tolerant.transport.subscriptions import topic_of

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


def subscribed(log: Log) -> set[Statement]:
    """The SUBSCRIBE statements of the log that no same UNSUBSCRIBE has taken back."""
    found: set[Statement] = set()
    for entry in log.read(QUERIES, START):
        batch = rows.unpack(entry.payload)
        for kind, body in zip(batch.column("kind").to_pylist(), batch.column("body").to_pylist(), strict=True):
            if kind in (Subscribe.kind, Unsubscribe.kind):
                statement = decode(body)
                assert isinstance(statement, Subscribe | Unsubscribe)
                held = Subscribe(statement.name, statement.values, statement.uri)
                found.add(held) if isinstance(statement, Subscribe) else found.discard(held)
            elif kind == Drop.kind:
                found = {held for held in found if held.about != decode(body).about}
    return found


def read(log: Log, text: str) -> list[Statement]:
    """The statements in a text, each checked against what the log holds and the ones before it.

    Raises:
        StatementError: one of them could not be accepted, with line and column.
    """
    return parse_many(text, standing(log))


def missing(log: Log, statements: Sequence[Statement], folder: Path | str = ".") -> list[Statement]:
    """Those of the statements that the log does not hold yet, in their order, with weights, networks and digests read
    from their files.

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
            statement = with_lookup(with_weights(statement, catalogue, folder), catalogue, folder)
        if isinstance(statement, CreateStream):
            statement = _located(statement, folder)
        outcome = catalogue.apply(statement)
        if not outcome.accepted:
            raise StatementError(outcome.message, line=statement.line, column=statement.column)
        if outcome.changed:
            found.append(statement)
    return found


def _located(statement: CreateStream, folder: Path | str) -> CreateStream:
    try:
        return with_network(statement, folder)
    except StatementError as error:
        raise StatementError(error.reason, hint=error.hint, line=statement.line, column=statement.column) from None


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


@dataclass(frozen=True)
class Registered:
    """What became of the rows of a SUBSCRIBE or UNSUBSCRIBE: how many were sent, how many refused, and the first of
    those as (row, reason), counted from 1.
    """

    sent: Sent
    rows: int
    refused: int = 0
    reasons: tuple[tuple[int, str], ...] = ()


def send_subscription(log: Log, statement: Subscribe | Unsubscribe, folder: Path | str = ".") -> Registered:
    """Append the subscriptions that a statement gives, one or a file of them, and then the statement: by the time that
    the pipeline replies they have taken effect. A file is read in pieces; paths start at `folder`.

    Raises:
        StatementError: there is no such template, or the values or the file cannot be used.
    """
    catalogue = standing(log)
    catalogue.check(statement)
    query = catalogue.queries[statement.name]
    tables, topic = catalogue.tables_of(query), topic_of(home_of(query.select))
    if statement.uri is None:
        log.append(topic, subscription_row(statement, query, tables))
        return Registered(send(log, statement), 1)
    file = SubscriptionFile(Path(folder) / statement.uri, query, tables, statement.kind)
    for batch in file:
        log.append(topic, batch)
    return Registered(send(log, statement), file.accepted, file.refused, file.reasons)


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
