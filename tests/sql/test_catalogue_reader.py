"""A reader of a log's statements reads each once, and agrees with one that reads them all again."""

import pyarrow as pa
import pytest

from tolerant.client import StatementClient, load_catalogue
from tolerant.sql import parse
from tolerant.sql.catalogue_reader import CatalogueReader
from tolerant.transport import MemoryLog
from tolerant.transport.topics import QUERIES

STREAM = "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)"
QUERY = "CREATE QUERY load_{0} AS SELECT AVG(rate) FROM traffic WITHIN 5"


class CountingLog(MemoryLog):
    """Counts the entries of statements that it gives."""

    def __init__(self):
        super().__init__()
        self.given = 0

    def read(self, topics, position=0, limit=None):
        entries = super().read(topics, position, limit)
        self.given += sum(entry.topic == QUERIES for entry in entries)
        return entries


@pytest.fixture
def log():
    return CountingLog()


def test_each_statement_is_read_once_however_many_are_sent(log):
    client = StatementClient(log)
    for text in (STREAM, *map(QUERY.format, range(20))):
        client.register(text)
    client.check_query("load_19")
    assert log.given == 21


def test_a_reader_that_follows_agrees_with_one_that_begins_at_the_start(log):
    follower = CatalogueReader(log)
    texts = [
        STREAM,
        QUERY.format(1),
        QUERY.format(1),
        QUERY.format(2),
        "ALTER QUERY load_1 WITHIN 3",
        "DROP QUERY load_2",
    ]
    for text in texts:
        StatementClient(log).send(parse(text))
        follower.advance()
        assert follower.catalogue.statements() == load_catalogue(log).statements()
    assert follower.catalogue.queries["load_1"].select.within == 3.0
    assert list(follower.catalogue.queries) == ["load_1"]


def test_what_is_applied_is_told_with_its_request_and_outcome(log):
    sent = [StatementClient(log).send(parse(text)) for text in (STREAM, QUERY.format(1), "DROP QUERY other")]
    applied = CatalogueReader(log).advance()
    assert [(a.position, a.request, a.statement) for a in applied] == [
        (s.position, s.request, s.statement) for s in sent
    ]
    assert [(a.outcome.accepted, a.outcome.changed) for a in applied] == [(True, True), (True, True), (False, False)]


def test_rows_without_a_statement_are_passed_over(log):
    log.append(QUERIES, pa.record_batch({"nothing": [1]}))
    log.append(QUERIES, pa.record_batch({"request": ["r"], "body": ["{}"]}))
    StatementClient(log).send(parse(STREAM))
    reader = CatalogueReader(log)
    assert [applied.statement.about for applied in reader.advance()] == ["traffic"]
    assert (reader.position, reader.advance()) == (log.end(), [])


def test_the_current_catalogue_is_a_copy(log):
    client = StatementClient(log)
    client.register(STREAM)
    client.catalogue().streams.clear()
    assert list(client.catalogue().streams) == ["traffic"]
