"""`tolerant watch` and `status` for queries over a table, fed by its shard without Spark."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import parse
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.changes import clock_row

STOCK = parse("CREATE TABLE stock (id BIGINT, x DOUBLE, name STRING) KEY (id)")
QUERIES = {
    "first": "MIN(x)",
    "names": "DISTINCT name",
    "none": "MAX(x)",
}


@pytest.fixture
def uri(tmp_path):
    log, now = open_log(f"sqlite:///{tmp_path}/log.db", create=True), 1_000_000 * SECOND
    StatementClient(log).send(STOCK)
    for name, what in QUERIES.items():
        end = -1 if name == "none" else 9
        StatementClient(log).send(
            parse(f"CREATE QUERY {name} AS SELECT {what} FROM stock WHERE x BETWEEN -1 AND {end}")
        )
    with Table(STOCK, log, "shop", clock=lambda: now) as table:
        table.insert(id=1, x=4.5, name="b")
        table.insert(id=2, x=7.0, name="a")
    log.append("changes.stock", clock_row(STOCK.columns, now + 20 * SECOND, 1, "checkpoint"))
    outputs = TableShard(STOCK).apply(log.read(["queries", "changes.stock"]))
    log.append_packed([(output.topic, output.payload) for output in outputs])
    log.close()
    return f"sqlite:///{tmp_path}/log.db"


def call(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_watch_shows_an_answer_on_a_line(uri):
    assert call("watch", "first", "--log", uri, "--for", 0).split() == ["4.5"]
    assert call("watch", "names", "--log", uri, "--for", 0).strip() == "a, b"
    assert call("watch", "none", "--log", uri, "--for", 0).strip() == "nothing"


def test_watch_as_json_can_be_resumed_from(uri):
    (said,) = map(json.loads, call("watch", "names", "--log", uri, "--json", "--for", 0).splitlines())
    assert (said["query"], said["value"], said["current"], said["at"]) == ("names", ["a", "b"], True, None)
    assert said["position"].endswith(":2")  # the table's second step


def test_status_says_what_changes_were_to_answers(uri):
    said = " ".join(call("status", "--log", uri).split())
    assert "first: 1 subscription, 2 changes whose new answers were known at once" in said
    assert not {"ignorable", "easy", "difficult", "unheard"} & set(said.replace(",", "").split())
    assert "notices" in said
