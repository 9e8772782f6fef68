import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import load_catalogue
from tolerant.transport import open_log


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def running(traffic):
    """The pipeline, at work in a thread while commands wait for it."""
    with traffic:
        yield traffic


def test_a_query_is_registered_altered_and_dropped(running):
    create = "CREATE QUERY outbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'out' WITHIN 2"
    assert "created" in call("sql", create, "--log", running.log.uri).stdout
    assert "altered" in call("sql", "ALTER QUERY outbound WITHIN 1", "--log", running.log.uri).stdout
    assert load_catalogue(running.log).queries["outbound"].select.within == 1
    assert "dropped" in call("sql", "DROP QUERY outbound", "--log", running.log.uri).stdout


def test_the_same_statement_twice_is_no_change(running):
    again = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5"
    result = call("sql", again, "--log", running.log.uri)
    assert result.exit_code == 0
    assert "unchanged" in result.stdout


def test_a_conflict_is_refused_before_it_is_sent(traffic):
    end = traffic.log.end()
    result = call("sql", "CREATE QUERY inbound AS SELECT MAX(rate) FROM traffic WITHIN 5", "--log", traffic.log.uri)
    assert result.exit_code == 2
    assert "inbound exists" in result.output
    assert traffic.log.end() == end


def test_without_a_pipeline_it_says_that_the_statement_stands(traffic):
    create = "CREATE QUERY outbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'out' WITHIN 2"
    result = call("sql", create, "--log", traffic.log.uri, "--timeout", 0.1)
    assert result.exit_code == 1
    assert "no pipeline since" in result.output
    assert "outbound" in load_catalogue(traffic.log).queries


def test_show_lists_what_there_is(traffic):
    assert "inbound" in call("sql", "SHOW QUERIES", "--log", traffic.log.uri).stdout
    found = json.loads(call("sql", "SHOW STREAMS", "--log", traffic.log.uri, "--json").stdout)
    assert [stream["name"] for stream in found] == ["traffic"]
    assert "no tables" in call("sql", "SHOW TABLES", "--log", traffic.log.uri).stdout


def test_a_malformed_statement_is_a_wrong_call_with_its_place(traffic):
    result = call("sql", "CREATE QUERY q AS\n SELECT SUM(rate) FROM traffic", "--log", traffic.log.uri)
    assert result.exit_code == 2
    assert "line" in result.output
    assert "WITHIN" in result.output
    assert "Traceback" not in result.output


def test_no_statement_is_a_wrong_call(traffic):
    assert call("sql", " ; ", "--log", traffic.log.uri).exit_code == 2


# -- tables ----------------------------------------------------------------------------------------------------------

STOCK = "CREATE TABLE stock (id INT, x DOUBLE, name STRING) KEY (id)"
AREA = "CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high"


@pytest.fixture
def stock(tmp_path):
    """A log with a table and a template over it, which nobody runs."""
    uri = f"sqlite:///{tmp_path}/log.db"
    open_log(uri, create=True).close()
    for text in (STOCK, AREA):
        assert "no pipeline has run" in call("sql", text, "--log", uri, "--timeout", 0).output
    return uri


def test_rows_are_inserted_selected_and_deleted_without_a_pipeline(stock):
    inserted = call("sql", "INSERT INTO stock VALUES (1, 2.5, 'bolt'), (2, 3, '[red]nut')", "--log", stock)
    assert inserted.stdout == "2 rows inserted into stock\n"
    assert inserted.exit_code == 0
    assert (
        "1 row inserted" in call("sql", "INSERT INTO stock (name, id, x) VALUES ('saw', 3, 9)", "--log", stock).stdout
    )
    select = "SELECT name, x FROM stock WHERE x < 5 ORDER BY x DESC"
    assert json.loads(call("sql", select, "--log", stock, "--json").stdout) == [
        {"name": "[red]nut", "x": 3.0},
        {"name": "bolt", "x": 2.5},
    ]
    assert "[red]nut" in call("sql", select, "--log", stock).stdout
    deleted = call("sql", "DELETE FROM stock WHERE id IN (1, 3, 7)", "--log", stock, "--json")
    assert json.loads(deleted.stdout)["message"] == "3 keys deleted from stock"
    assert json.loads(call("sql", "SELECT COUNT(*) AS n FROM stock", "--log", stock, "--json").stdout) == [{"n": 1}]


def test_rows_that_do_not_fit_are_a_wrong_call_and_nothing_is_taken(stock):
    for text, word in (
        ("INSERT INTO stock VALUES (1, 2.5, 'a'), (2, 'b', 'c')", "row 2, column x takes DOUBLE"),
        ("INSERT INTO stok VALUES (1)", "did you mean stock?"),
        ("DELETE FROM stock WHERE x = 1", "names keys of stock"),
        ("SELECT y FROM stock", "table stock has no column y"),
    ):
        result = call("sql", text, "--log", stock)
        assert result.exit_code == 2, result.output
        assert word in result.output
    assert json.loads(call("sql", "SELECT COUNT(*) AS n FROM stock", "--log", stock, "--json").stdout) == [{"n": 0}]


def test_subscriptions_are_shown_by_page(stock):
    for low in range(3):
        call("sql", f"SUBSCRIBE area({low}, INFINITY)", "--log", stock, "--timeout", 0)
    found = json.loads(call("sql", "SHOW SUBSCRIPTIONS", "--log", stock, "--json").stdout)
    assert sorted(one["statement"] for one in found) == [f"SUBSCRIBE area({low}.0, INFINITY)" for low in range(3)]
    page = call("sql", "SHOW SUBSCRIPTIONS TO area LIMIT 2", "--log", stock)
    assert "1 to 2 of 3 subscriptions" in page.output
    assert "next: SHOW SUBSCRIPTIONS TO area LIMIT 2 OFFSET 2" in page.output
    assert len(json.loads(call("sql", "SHOW SUBSCRIPTIONS LIMIT 2 OFFSET 2", "--log", stock, "--json").stdout)) == 1


def test_what_exists_is_left_as_it_is(stock):
    result = call("sql", STOCK.replace("TABLE", "TABLE IF NOT EXISTS").replace(", name STRING", ""), "--log", stock)
    assert result.exit_code == 0
    assert f"unchanged: table stock exists, and is another: {STOCK}" in result.output
