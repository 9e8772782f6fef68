"""`tolerant explain` and `status` of a query whose subscriptions share channels, fed by its shard without Spark."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import Subscribe, parse
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.changes import clock_row

REPORTS = parse("CREATE TABLE reports (id BIGINT, x DOUBLE, y DOUBLE, z INT) KEY (id)")
AREA = parse(
    "CREATE QUERY area(x1, y1, x2, y2) AS SELECT * FROM reports WHERE x BETWEEN x1 AND x2 AND y BETWEEN y1 AND y2"
    " WITH (channel = 20, transfer = 1, waste = 0.1)"
)
LEFT = parse("CREATE QUERY left_of(x2) AS SELECT * FROM reports WHERE x BETWEEN 0 AND x2")
PARTS = parse(
    "CREATE QUERY parts(x1, x2) AS SELECT * FROM reports WHERE x BETWEEN x1 AND x2"
    " WITH (channel = 0.1, procedure = 'pieces')"
)
LEVEL = parse(
    "CREATE QUERY level(z1, z2) AS SELECT * FROM reports WHERE z BETWEEN z1 AND z2 WITH (channel = 100, waste = 0.01)"
)
COUNT = parse("CREATE QUERY number AS SELECT COUNT(*) FROM reports WHERE x BETWEEN 0 AND 9")


@pytest.fixture
def uri(tmp_path):
    log, now = open_log(f"sqlite:///{tmp_path}/log.db", create=True), 1_000_002 * SECOND
    for statement in (REPORTS, AREA, LEFT, PARTS, LEVEL, COUNT):
        StatementClient(log).send(statement)
    for low in (0.0, 1.0, 2.0, 50.0):
        statement = Subscribe("area", (low, 0.0, low + 5.0, 5.0))
        log.append("subscriptions.reports", subscription_row(statement, AREA, REPORTS))
    for high in (4.0, 5.0):
        log.append("subscriptions.reports", subscription_row(Subscribe("left_of", (high,)), LEFT, REPORTS))
    for low, high in ((0.0, 30.0), (20.0, 50.0)):
        log.append("subscriptions.reports", subscription_row(Subscribe("parts", (low, high)), PARTS, REPORTS))
    for top in (3, 4):
        log.append("subscriptions.reports", subscription_row(Subscribe("level", (3, top)), LEVEL, REPORTS))
    with Table(REPORTS, log, "cars", clock=lambda: now) as table:
        for key in range(200):
            table.insert(id=key, x=key % 60, y=key % 7, z=key % 7)
    log.append("changes.reports", clock_row(REPORTS.columns, now + 20 * SECOND, 1, "checkpoint"))
    outputs = TableShard(REPORTS).apply(log.read(["queries", "changes.reports", "subscriptions.reports"]))
    log.append_packed([(output.topic, output.payload) for output in outputs])
    log.close()
    return f"sqlite:///{tmp_path}/log.db"


def call(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.stdout + (result.stderr if code else "")


def test_explain_says_who_shares_and_what_that_saves(uri, tmp_path):
    picture = tmp_path / "area.png"
    said = call("explain", "area", "--log", uri, "--picture", picture)
    assert "4 subscriptions on 2 channels, 1 of them shared" in said
    assert "0…7 × 0…5" in said
    assert "sharing saves" in said
    assert picture.read_bytes().startswith(b"\x89PNG")
    told = json.loads(call("explain", "area", "--log", uri, "--json"))
    assert (told["query"], told["subscriptions"], told["channels"]) == ("area", 4, 2)
    shared = told["largest"][0]
    assert (shared["members"], shared["regions"]) == (3, [[0.0, 0.0, 7.0, 5.0]])
    assert told["cost"] < told["cost_apart"]
    assert told["rows_sent"] < told["rows_apart"]
    assert sum(told["bill"].values()) == pytest.approx(told["cost"])
    assert told["lower_bound"] == pytest.approx(told["cost"])  # the plan is the best there is
    assert "No grouping can cost less than" in said


def test_explain_counts_pieces_as_channels_and_integers_as_wide_as_one(uri):
    said = call("explain", "parts", "--log", uri)
    assert "2 subscriptions on 3 channels, 1 of them shared" in said
    assert "3 pieces" in said
    told = json.loads(call("explain", "parts", "--log", uri, "--json"))
    assert told["rows_in_vain"] == pytest.approx(0, abs=1e-9)
    assert told["rows_sent"] > 0
    assert told["lower_bound"] is None
    flat = json.loads(call("explain", "level", "--log", uri, "--json"))
    assert flat["shared"] == 1
    assert flat["rows_sent"] == pytest.approx(2 * flat["rows_in_vain"], rel=0.05)  # one of them wants half
    assert flat["rows_apart"] == pytest.approx(3 * flat["rows_in_vain"], rel=0.05)


def test_a_range_of_one_column_is_drawn_too(uri, tmp_path):
    picture = tmp_path / "left.png"
    assert "2 subscriptions on 1 channels" in call("explain", "left_of", "--log", uri, "--picture", picture)
    assert picture.exists()


def test_what_has_no_channels_has_no_picture(uri, tmp_path):
    said = call("explain", "number", "--log", uri, "--picture", tmp_path / "no.png", code=1)
    assert "no picture of query number" in said


def test_status_counts_channels_and_what_goes_over_them(uri):
    figures = json.loads(call("status", "--log", uri, "--json"))["reports"]["figures"]["area"]
    assert figures["channels"] == 2
    assert figures["moves"] == 3
    assert figures["versions"] == 1
    assert "2 channels" in call("status", "--log", uri)
