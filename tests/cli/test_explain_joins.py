"""What `explain`, `watch` and `status` say of joins: which state grows, and what share of the results is kept."""

import json

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.sql import AppendOnlyJoinInput, parse
from tolerant.streams import SECOND
from tolerant.transport import open_log
from tolerant.transport.changes import clock_row
from tolerant.transport.topics import changes_topic

TABLES = tuple(parse(f"CREATE TABLE {name} (id BIGINT, k BIGINT, v DOUBLE) KEY (id)") for name in ("r", "s"))
KEPT = parse("CREATE QUERY kept AS SELECT * FROM r JOIN s ON r.k = s.k KEEP 8 ROWS")
RANGED = "SELECT * FROM r JOIN s ON r.k = s.k WHERE r.v BETWEEN 1 AND 2 AND s.v BETWEEN 1 AND 2"


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def uri(tmp_path):
    uri, now = f"sqlite:///{tmp_path}/log.db", 1_000_000 * SECOND
    log = open_log(uri, create=True)
    for statement in (*TABLES, KEPT, parse(f"CREATE QUERY ranged AS {RANGED}")):
        StatementClient(log).send(statement)
    for place, table in enumerate(TABLES):
        clock = iter(range(now + 5 * place, now + SECOND, 2))
        with Table(table, log, "shop", clock=lambda clock=clock: next(clock)) as rows:
            for number in range(20):
                rows.insert(id=number, k=number if number % 2 else 0, v=1.0)
    for table in TABLES:
        log.append(changes_topic(table.name), clock_row(table.columns, now + 30 * SECOND, 1, "checkpoint"))
    shard = AppendOnlyJoinShard(AppendOnlyJoinInput.of(*TABLES))
    outputs = shard.apply(log.read(["queries", "changes.r", "changes.s"]))
    log.append_packed([(output.topic, output.payload) for output in outputs])
    log.close()
    return uri


def test_explain_says_what_is_kept_and_what_share_is_found(uri):
    found = json.loads(call("explain", "kept", "--log", uri, "--json").stdout)
    assert (found["query"], found["keep"], found["kept"], found["grows"]) == ("kept", 8, 8, [])
    assert 10 < found["found"] < 110
    assert 0 < found["share"] < 1
    shown = call("explain", "kept", "--log", uri).stdout
    assert "keeps at most 8 rows of r and s together" in shown
    assert f"It has found {found['found']} results" in shown


@pytest.mark.parametrize("text", ["SELECT * FROM r JOIN s ON r.k = s.k", RANGED, f"CREATE QUERY q AS {RANGED};"])
def test_explain_says_which_state_would_grow_before_a_join_is_started(text, tmp_path):
    found = json.loads(call("explain", text, "--log", f"sqlite:///{tmp_path}/none.db", "--json").stdout)
    assert (found["started"], found["keep"], found["grows"]) == (False, None, ["r", "s"])
    shown = call("explain", text).stdout
    assert "would keep every row of r and every row of s" in shown
    assert "without bound" in shown
    assert "KEEP n ROWS" in shown


def test_explain_of_a_join_without_a_limit_that_runs(uri):
    found = json.loads(call("explain", "ranged", "--log", uri, "--json").stdout)
    assert (found["started"], found["grows"], found["kept"]) == (True, ["r", "s"], None)


@pytest.mark.parametrize(
    ("options", "by", "copies", "shown"),
    [
        ("shards = 4", "subscriptions", [4, 4], "lowest, highest and reach are not given"),
        ("shards = 4, lowest = 0, highest = 100, reach = 5", "ranges", [1, 1.3], "in 1.30 on average"),
        ("shards = 4, lowest = 0, highest = 100, reach = 60", "subscriptions", [4, 4], "reach into all of them too"),
    ],
)
def test_explain_says_how_a_band_join_is_spread(options, by, copies, shown):
    text = f"SELECT * FROM r JOIN s ON s.v - r.v BETWEEN -1 AND 1 WITH ({options})"
    found = json.loads(call("explain", text, "--json").stdout)["spread"]
    assert (found["shards"], found["by"], found["copies"]) == (4, by, copies)
    assert shown in " ".join(call("explain", text).stdout.split())


def test_explain_of_joins_by_value_and_with_one_shard():
    found = json.loads(call("explain", f"{RANGED} WITH (shards = 2)", "--json").stdout)["spread"]
    assert (found["by"], found["copies"]) == ("values", [1, 1])
    assert json.loads(call("explain", RANGED, "--json").stdout)["spread"] is None


def test_explain_of_a_limited_join_and_of_what_is_none():
    shown = call("explain", "SELECT * FROM r JOIN s ON r.k = s.k KEEP 100 ROWS").stdout
    assert "at most 100 rows" in shown
    for text in ("SELECT AVG(v) FROM r WITHIN 5", "SELECT nothing at all"):
        result = call("explain", text)
        assert result.exit_code == 1
        assert "Traceback" not in result.output


def test_watch_and_status_show_the_share(uri):
    shown = call("watch", "kept", "--log", uri, "--for", "0.2")
    assert "results so far, about" in shown.stdout
    status = call("status", "--log", uri)
    assert "r~s" in status.stdout
    assert "% of all results" in status.stdout
