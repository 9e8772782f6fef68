"""`tolerant status` and `dead` of a table: whose rows were late, and why rows could not be used."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.pipeline.late_sources import MOST, LateSources
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.changes import changes_schema, clock_row, read_changes
from tolerant.transport.rows import unpack

STOCK = parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id) WITH (max_dead_letters = 3)")
AREA = parse("CREATE QUERY area AS SELECT * FROM stock WHERE x BETWEEN 0 AND 9")
BAD = 50


@pytest.fixture
def uri(tmp_path):
    """A table with two late rows of one feeder, and an entry of rows that cannot be used."""
    log, now = open_log(f"sqlite:///{tmp_path}/log.db", create=True), 1_000_000 * SECOND
    for statement in (STOCK, AREA):
        StatementClient(log).send(statement)
    log.append("changes.stock", clock_row(STOCK.columns, now + 12 * SECOND, 1, "checkpoint"))
    with Table(STOCK, log, "tills", clock=lambda: now) as table:
        table.insert(id=1, x=1.0)
        table.insert(id=2, x=2.0)
    row = unpack(log.read("changes.stock")[-1].payload)
    assert len(read_changes(row, STOCK.columns).changes)
    bad = [{**row.to_pylist()[0], "kind": "forged"}] * BAD
    log.append("changes.stock", type(row).from_pylist(bad, changes_schema(STOCK.columns)))
    log.append("changes.stock", clock_row(STOCK.columns, now + 30 * SECOND, 1, "checkpoint"))
    shard = TableShard(STOCK)
    entries = log.read(["queries", "changes.stock"])
    outputs = shard.apply(entries[:4])
    again = TableShard(STOCK)
    again.restore(shard.snapshot())
    more = again.apply(entries[4:])
    log.append_packed([(output.topic, output.payload) for output in (*outputs, *more)])
    log.close()
    return f"sqlite:///{tmp_path}/log.db"


def call(*arguments):
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_status_lists_late_sources_and_reasons(uri):
    shown = call("status", "--log", uri)
    assert "2 late rows, 50 dead letters" in shown
    assert "tills: 2, up to 12.0 s late" in shown
    assert "50 × kind must be" in shown
    record = json.loads(call("status", "--log", uri, "--json"))["stock"]
    assert record["late_sources"] == {"tills": {"rows": 2, "longest_delay": 12 * SECOND}}
    assert [group["count"] for group in record["dead_reasons"]] == [BAD]


def test_dead_counts_the_rows_that_one_letter_sums_up(uri):
    shown = call("dead", "stock", "--log", uri)
    assert "50 rows of stock could not be used" in shown
    assert "and 47 more" in call("dead", "stock", "--log", uri, "--all")
    letters = [json.loads(line) for line in call("dead", "stock", "--log", uri, "--json").splitlines()]
    assert [letter["count"] for letter in letters] == [1, 1, 1, 47]


def test_late_rows_of_more_sources_than_are_told_apart_are_counted_together():
    late = LateSources()
    for number in range(MOST + 5):
        late.count(f"source-{number}", number)
    late.count("source-0", 7)
    assert len(late.record()) == MOST + 1
    assert late.record()[""] == [5, MOST + 4]
    assert late.record()["source-0"] == [2, 7]
