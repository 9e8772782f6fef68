import json
import threading

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import standing


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def running(traffic):
    """The pipeline, at work in a thread while commands wait for it."""
    over = threading.Event()

    def work():
        while not over.wait(0.05):
            traffic.work()

    thread = threading.Thread(target=work)
    thread.start()
    yield traffic
    over.set()
    thread.join()


def test_a_query_is_registered_altered_and_dropped(running):
    create = "CREATE QUERY outbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'out' WITHIN 2"
    assert "created" in call("sql", create, "--log", running.uri).stdout
    assert "altered" in call("sql", "ALTER QUERY outbound WITHIN 1", "--log", running.uri).stdout
    assert standing(running.log).queries["outbound"].select.within == 1
    assert "dropped" in call("sql", "DROP QUERY outbound", "--log", running.uri).stdout


def test_the_same_statement_twice_is_no_change(running):
    again = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5"
    result = call("sql", again, "--log", running.uri)
    assert result.exit_code == 0
    assert "unchanged" in result.stdout


def test_a_conflict_is_refused_before_it_is_sent(traffic):
    end = traffic.log.end()
    result = call("sql", "CREATE QUERY inbound AS SELECT MAX(rate) FROM traffic WITHIN 5", "--log", traffic.uri)
    assert result.exit_code == 2
    assert "inbound exists" in result.output
    assert traffic.log.end() == end


def test_without_a_pipeline_it_says_that_the_statement_stands(traffic):
    create = "CREATE QUERY outbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'out' WITHIN 2"
    result = call("sql", create, "--log", traffic.uri, "--timeout", 0.1)
    assert result.exit_code == 1
    assert "nobody runs this" in result.output
    assert "outbound" in standing(traffic.log).queries


def test_show_lists_what_there_is(traffic):
    assert "inbound" in call("sql", "SHOW QUERIES", "--log", traffic.uri).stdout
    found = json.loads(call("sql", "SHOW STREAMS", "--log", traffic.uri, "--json").stdout)
    assert [stream["name"] for stream in found] == ["traffic"]
    assert "no tables" in call("sql", "SHOW TABLES", "--log", traffic.uri).stdout


def test_a_malformed_statement_is_a_wrong_call_with_its_place(traffic):
    result = call("sql", "CREATE QUERY q AS\n SELECT SUM(rate) FROM traffic", "--log", traffic.uri)
    assert result.exit_code == 2
    assert "line" in result.output
    assert "WITHIN" in result.output
    assert "Traceback" not in result.output


def test_no_statement_is_a_wrong_call(traffic):
    assert call("sql", " ; ", "--log", traffic.uri).exit_code == 2
