"""Follows the statements of a log: every statement is decoded and applied once, however often the catalogue is needed.

Apart from `tolerant.sql.catalogue` because a log needs Arrow, which a catalogue does not.
"""

from __future__ import annotations

import threading
from typing import NamedTuple

from tolerant.sql.catalogue import Catalogue, Outcome
from tolerant.sql.statements import Statement
from tolerant.sql.wire import decode
from tolerant.transport.log import START, Entry, Log
from tolerant.transport.statements import read_statement_rows
from tolerant.transport.topics import QUERIES


class AppliedStatement(NamedTuple):
    """A statement of the log: where it is, under which request it was sent, and its effect on the catalogue."""

    position: int
    request: str
    statement: Statement
    outcome: Outcome


class CatalogueReader:
    """Folds the topic `queries` of a log into a catalogue, and continues at its position.

    `catalogue` and `position` are as of the last `advance`; `current` reads on and returns a copy, which any thread
    may use while others call it too.

    >>> from tolerant.client import StatementClient
    >>> from tolerant.sql import parse
    >>> from tolerant.transport import MemoryLog
    >>> log = MemoryLog()
    >>> reader = CatalogueReader(log)
    >>> sent = StatementClient(log).send(parse("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)"))
    >>> [applied.outcome.message for applied in reader.advance()], reader.advance()
    (['stream traffic created'], [])
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.catalogue = Catalogue()
        self.position = START
        self._lock = threading.Lock()

    def advance(self) -> list[AppliedStatement]:
        """Apply the statements that were appended since; returns them in the order of the log.

        Rows that hold no statement are left out: the pipelines report them as dead letters.
        """
        with self._lock:
            return self._advance()

    def current(self) -> Catalogue:
        """The catalogue at the end of the log, as a copy."""
        with self._lock:
            self._advance()
            return self.catalogue.copy()

    def _advance(self) -> list[AppliedStatement]:
        applied: list[AppliedStatement] = []
        for entry in self.log.read(QUERIES, self.position):
            applied += self._apply(entry)
            self.position = entry.position
        return applied

    def _apply(self, entry: Entry) -> list[AppliedStatement]:
        applied = []
        try:
            rows, _ = read_statement_rows(entry.payload)
        except ValueError:
            return []
        for request, body in rows:
            try:
                statement = decode(body)
            except ValueError:
                continue
            outcome = self.catalogue.apply(statement)
            applied.append(AppliedStatement(entry.position, request, statement, outcome))
        return applied


def load_catalogue(log: Log) -> Catalogue:
    """The streams, tables and queries that the statements of a log define. Reads all of them; who needs the catalogue
    again keeps a `CatalogueReader`.
    """
    return CatalogueReader(log).current()
