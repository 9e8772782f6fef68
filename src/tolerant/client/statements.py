"""Sends statements: checked against what the log holds, appended, the pipeline's reply waited for."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tolerant.sql import (
    AlterQuery,
    Catalogue,
    CreateQuery,
    CreateStream,
    Drop,
    LocalStatement,
    Statement,
    StatementError,
    Subscribe,
    Unsubscribe,
    encode,
    home_of,
    parse_many,
    with_lookup,
    with_network,
    with_weights,
)
from tolerant.sql.differences import Difference, as_created, differences
from tolerant.sql.refusals import no_such
from tolerant.sql.subscriptions import SubscriptionFile, subscription_row
from tolerant.sql.wire import statements_in
from tolerant.transport import Log, rows
from tolerant.transport.log import QUERIES, START
from tolerant.transport.records import skipping
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
        for statement in statements_in(entry.payload):
            catalogue.apply(statement)
    return catalogue


def check_query(log: Log, name: str) -> None:
    """Nothing, if there is a query of this name, answered already or not, or was one whose answers are still there.

    Raises:
        StatementError: there is none; it lists those that there are.
    """
    queries = standing(log).queries
    if name not in queries and not log.read(f"answers.{name}", START, 1):
        raise StatementError(no_such("query", name, queries))


def subscribed(log: Log) -> set[Statement]:
    """The SUBSCRIBE statements of the log that no same UNSUBSCRIBE has taken back."""
    found: set[Statement] = set()
    for entry in log.read(QUERIES, START):
        for statement in statements_in(entry.payload):
            if isinstance(statement, Subscribe | Unsubscribe):
                held = Subscribe(statement.name, statement.values, statement.uri)
                found.add(held) if isinstance(statement, Subscribe) else found.discard(held)
            elif isinstance(statement, Drop):
                found = {held for held in found if held.about != statement.about}
    return found


def read(log: Log, text: str) -> list[Statement]:
    """The statements in a text, each checked against what the log holds and the ones before it.

    Raises:
        StatementError: one of them could not be accepted, with line and column.
    """
    return parse_many(text, standing(log))


def missing(
    log: Log, statements: Sequence[Statement], folder: Path | str = ".", catalogue: Catalogue | None = None
) -> list[Statement]:
    """Those of the statements that the log does not hold yet, in their order, with weights, networks and digests read
    from their files.

    Paths of files start at `folder`. SHOW is never missing. `catalogue`: what to compare with instead of what the log
    holds.

    Raises:
        StatementError: one of them could not be accepted.
    """
    catalogue = standing(log) if catalogue is None else catalogue.copy()
    found = []
    for statement in statements:
        if isinstance(statement, LocalStatement) or catalogue.existing(statement) is not None:
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


@dataclass(frozen=True)
class Comparison:
    """A file of statements beside a log: what to send, and the tolerances that were altered in the log since and stay
    as they are.
    """

    to_send: tuple[Statement, ...]
    altered: tuple[Difference, ...] = ()


def compare(log: Log, text: str, folder: Path | str = ".", apply: bool = False) -> Comparison:
    """Compare the statements of a file with what the log holds.

    A tolerance that was altered since stays as it is; with `apply` the log comes to the file: the tolerance is altered
    back, and a query that is defined otherwise is dropped and created anew. Paths of files start at `folder`.

    Raises:
        StatementError: a statement could not be accepted, or the log defines something otherwise; the message shows
            both definitions and the statements that bring the log to the file.
    """
    catalogue, statements = standing(log), parse_many(text)
    found = differences(catalogue, statements)
    refused = [one for one in found if one.tolerances is None and not (apply and isinstance(one.wanted, CreateQuery))]
    if refused:
        first = refused[0].wanted
        raise StatementError("\n".join(map(str, refused)), line=first.line, column=first.column)
    remedies = [one.remedy[0] for one in found] if apply else []  # the CREATE behind a DROP is the file's own
    created = as_created(catalogue, statements)
    for remedy in remedies:
        if isinstance(remedy, Drop):
            created.record(remedy)
    own = {statement.name for statement in statements if isinstance(statement, CreateQuery)} & created.queries.keys()
    fresh = missing(log, parse_many(text, created), folder, created)
    fresh = [one for one in fresh if not (isinstance(one, AlterQuery) and one.name in own)]
    return Comparison((*remedies, *fresh), () if apply else tuple(found))


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
            with skipping("an entry of replies"):
                for row in rows.unpack(entry.payload).to_pylist():
                    if row["request"] == sent.request:
                        return Reply(bool(row["accepted"]), str(row["message"]))
            position = entry.position
        if time.monotonic() >= end:
            return None
        time.sleep(POLL)
