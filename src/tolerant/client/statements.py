"""Sends statements to a log: parses them, checks them against its catalogue, appends them, waits for replies."""

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
    PipelineId,
    Statement,
    StatementError,
    Subscribe,
    Unsubscribe,
    encode,
    parse_many,
    with_files,
    with_network,
)
from tolerant.sql.catalogue_reader import CatalogueReader
from tolerant.sql.differences import Difference, as_created, differences
from tolerant.sql.refusals import no_such
from tolerant.sql.subscriptions import SubscriptionFile, subscription_row
from tolerant.sql.wire import statements_in
from tolerant.transport import Log, rows
from tolerant.transport.log import START
from tolerant.transport.records import skipping
from tolerant.transport.topics import QUERIES, REPLIES_TOPIC, answers_topic, subscriptions_topic

POLL = 0.05
"""Seconds between two reads of the replies."""


@dataclass(frozen=True)
class Reply:
    """The pipeline's reply to a statement: `message` is what was done, or why it was refused."""

    accepted: bool
    message: str


@dataclass(frozen=True)
class Sent:
    """A statement in the log, with the request id that its reply will repeat."""

    statement: Statement
    request: str
    position: int


@dataclass(frozen=True)
class Comparison:
    """A file of statements compared with a log: what to send, and the tolerances that were altered in the log since
    and stay as they are.
    """

    to_send: tuple[Statement, ...]
    altered: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Registered:
    """The effect of a SUBSCRIBE or UNSUBSCRIBE: how many rows were sent, how many refused, and the first of the refused
    ones as (row, reason), counted from 1.
    """

    sent: Sent
    rows: int
    refused: int = 0
    reasons: tuple[tuple[int, str], ...] = ()


class StatementClient:
    """Sends statements to one log.

    It follows the log's statements, so that a call costs what was appended since the one before, not all that there
    is: keep one client for a file of statements. Any thread may use it.

    >>> from tolerant.transport import MemoryLog
    >>> client = StatementClient(MemoryLog())
    >>> text = "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)"
    >>> [sent.statement.about for sent in client.register(text)], client.register(text)
    (['traffic'], [])
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._reader = CatalogueReader(log)

    def catalogue(self) -> Catalogue:
        """The streams, tables and queries at the end of the log, as a copy."""
        return self._reader.current()

    def check_query(self, name: str, *, or_was: bool = False) -> None:
        """Check that there is a query of this name. `or_was`: or that there was one whose answers are still there.

        Raises:
            StatementError: there is none; it lists those that there are.
        """
        queries = self.catalogue().queries
        if name not in queries and not (or_was and self.log.read(answers_topic(name), START, 1)):
            raise StatementError(no_such("query", name, queries))

    def subscribed(self) -> set[Statement]:
        """The SUBSCRIBE statements of the log that no matching UNSUBSCRIBE or DROP follows."""
        subscribed: set[Statement] = set()
        for entry in self.log.read(QUERIES, START):
            for statement in statements_in(entry.payload):
                if isinstance(statement, Subscribe | Unsubscribe):
                    subscribe = Subscribe(statement.name, statement.values, statement.uri)
                    (subscribed.add if isinstance(statement, Subscribe) else subscribed.discard)(subscribe)
                elif isinstance(statement, Drop):
                    subscribed = {kept for kept in subscribed if kept.about != statement.about}
        return subscribed

    def parse(self, text: str) -> list[Statement]:
        """Parse the statements in a text, each checked against the catalogue and the ones before it.

        Raises:
            StatementError: one of them could not be accepted, with line and column.
        """
        return parse_many(text, self.catalogue())

    def missing(
        self, statements: Sequence[Statement], folder: Path | str = ".", catalogue: Catalogue | None = None
    ) -> list[Statement]:
        """Select the statements that the log does not hold yet, in their order, with weights, networks and digests
        read from their files.

        Paths of files start at `folder`. SHOW is never missing. `catalogue`: what to compare with instead of that of
        the log.

        Raises:
            StatementError: one of them could not be accepted.
        """
        catalogue = self.catalogue() if catalogue is None else catalogue.copy()
        missing = []
        for statement in statements:
            if isinstance(statement, LocalStatement) or catalogue.existing(statement) is not None:
                continue
            if isinstance(statement, CreateQuery):
                statement = with_files(statement, catalogue, folder)
            if isinstance(statement, CreateStream):
                statement = _with_network(statement, folder)
            outcome = catalogue.apply(statement)
            if not outcome.accepted:
                raise StatementError(outcome.message, line=statement.line, column=statement.column)
            if outcome.changed:
                missing.append(statement)
        return missing

    def compare(self, text: str, folder: Path | str = ".", apply: bool = False) -> Comparison:
        """Compare the statements of a file with the log.

        A tolerance that was altered since stays as it is. With `apply` the file counts: the tolerance is altered back,
        and a query that is defined otherwise is dropped and created again. Paths of files start at `folder`.

        Raises:
            StatementError: a statement could not be accepted, or the log defines something otherwise; the message shows
                both definitions and the statements that bring the log to the file.
        """
        catalogue, statements = self.catalogue(), parse_many(text)
        differing = differences(catalogue, statements)
        refused = [
            difference
            for difference in differing
            if difference.tolerances is None and not (apply and isinstance(difference.wanted, CreateQuery))
        ]
        if refused:
            first = refused[0].wanted
            raise StatementError("\n".join(map(str, refused)), line=first.line, column=first.column)
        # The CREATE after a DROP is the file's own.
        remedies = [difference.remedy[0] for difference in differing] if apply else []
        created = as_created(catalogue, statements)
        for remedy in remedies:
            if isinstance(remedy, Drop):
                created.record(remedy)
        creations = {statement.name for statement in statements if isinstance(statement, CreateQuery)}
        own = creations & created.queries.keys()
        fresh = self.missing(parse_many(text, created), folder, created)
        fresh = [statement for statement in fresh if not (isinstance(statement, AlterQuery) and statement.name in own)]
        return Comparison((*remedies, *fresh), () if apply else tuple(differing))

    def send(self, statement: Statement) -> Sent:
        """Append a statement that has been checked; it takes effect at its position in the log."""
        request = uuid.uuid4().hex
        row = {
            "kind": statement.kind,
            "key": statement.about,
            "request": request,
            "text": statement.text,
            "body": encode(statement),
        }
        position = self.log.append(QUERIES, pa.RecordBatch.from_pylist([row], schema=rows.STATEMENTS))
        return Sent(statement, request, position)

    def register(self, text: str, folder: Path | str = ".") -> list[Sent]:
        """Send the statements of a text that the log does not hold yet. Paths of files start at `folder`.

        Raises:
            StatementError: one of them could not be accepted; nothing was sent.
        """
        return [self.send(statement) for statement in self.missing(self.parse(text), folder)]

    def send_subscription(self, statement: Subscribe | Unsubscribe, folder: Path | str = ".") -> Registered:
        """Append the subscriptions of a statement, one or a file of them, and then the statement: once the pipeline
        replies, they are in effect. A file is read in pieces; paths start at `folder`.

        Raises:
            StatementError: there is no such template, or the values or the file cannot be used.
        """
        catalogue = self.catalogue()
        catalogue.check(statement)
        query = catalogue.queries[statement.name]
        tables, topic = catalogue.tables_of(query), subscriptions_topic(str(PipelineId.of(query.select)))
        if statement.uri is None:
            self.log.append(topic, subscription_row(statement, query, tables))
            return Registered(self.send(statement), 1)
        file = SubscriptionFile(Path(folder) / statement.uri, query, tables, statement.kind)
        for batch in file:
            self.log.append(topic, batch)
        return Registered(self.send(statement), file.accepted, file.refused, file.reasons)

    def reply_to(self, sent: Sent, timeout: float) -> Reply | None:
        """Wait up to `timeout` seconds for the pipeline's reply; None if there was none."""
        end = time.monotonic() + timeout
        position = sent.position
        while True:
            for entry in self.log.read(REPLIES_TOPIC, position):
                with skipping("an entry of replies"):
                    for row in rows.unpack(entry.payload).to_pylist():
                        if row["request"] == sent.request:
                            return Reply(bool(row["accepted"]), str(row["message"]))
                position = entry.position
            if time.monotonic() >= end:
                return None
            time.sleep(POLL)


def _with_network(statement: CreateStream, folder: Path | str) -> CreateStream:
    try:
        return with_network(statement, folder)
    except StatementError as error:
        raise StatementError(error.reason, hint=error.hint, line=statement.line, column=statement.column) from None
