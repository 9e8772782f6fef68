"""What commands show when a pipeline is dead, when answers are not settled, and when rows were late or dead."""

import json

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.figures import stream_figures
from tolerant.cli.unsettled import unsettled_reason
from tolerant.edge import ConflictWarning, Source
from tolerant.kernels.versions import version
from tolerant.streams import SECOND
from tolerant.transport import rows
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import LEASE, Heartbeat, heartbeat_batch
from tolerant.transport.topics import HEARTBEATS

QUERY = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5;"
SINCE = 1_700_000_000_000_000


def call(*arguments):
    result = CliRunner(env={"COLUMNS": "160"}).invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def beat(log, at, processed, count=1, stopped=False):
    log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("traffic", at, processed, stopped), version(1, count))]))


def test_watch_and_status_of_a_dead_pipeline_say_so(traffic):
    beat(traffic.log, SINCE, SINCE)
    line = json.loads(call("watch", "inbound", "--log", traffic.log.uri, "--json", "--for", 0))
    assert line["stale"]
    assert line["no_pipeline_since"] == SINCE
    watched = call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)
    assert "not current" in watched
    assert "no pipeline since 2023-11-14 22:13:20 UTC" in watched
    shown = call("status", "--log", traffic.log.uri)
    assert "no pipeline since 2023-11-14 22:13:20 UTC" in shown
    assert "live" not in shown
    assert "settled" not in shown
    record = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]
    assert record["outage"]["since"] == SINCE


def test_status_of_a_live_pipeline_says_how_old_answers_are(traffic):
    now = wall_clock()
    beat(traffic.log, now, now - SECOND)
    record = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]
    assert record["outage"] is None
    assert 0 <= record["lag"] < LEASE / SECOND
    assert "answers are" in call("status", "--log", traffic.log.uri)


def test_watch_shows_the_age_of_the_answer_itself(traffic):
    old = {"query": "inbound", "group": "", "at": wall_clock() - 7200 * SECOND, "low": 1.0, "value": 2.0, "high": 3.0}
    body = rows.current_body({**old, "stale": False, "settling": False})
    traffic.log.append("current.inbound", rows.compacted([("", 2**61, body)]))
    assert "2.0 h" in call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)


def test_a_silent_source_is_the_reason(traffic):
    for _ in range(30):
        traffic.tick()
    reason = unsettled_reason(traffic.log, "inbound")
    assert "source test not heard since" in reason
    assert "(2 items)" in reason
    assert f"not settled: {reason}" in call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)
    assert "source test not heard since" in call("status", "--log", traffic.log.uri)


def test_a_conflict_is_shown_at_once_and_is_the_reason(traffic):
    with Source("traffic", traffic.log, name="test", clock=lambda: traffic.now) as source:
        source.set_many([("web-1", "in"), ("web-2", "in"), ("web-1", "out")], [10.0, 20.0, 5.0])
        source.advance()
        traffic.tick()
        with Source("traffic", traffic.log, name="intruder", clock=lambda: traffic.now) as intruder:
            taken = intruder.set(("web-1", "in"), 500.0)
            intruder.advance()
        traffic.tick()
        found = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]["conflicts"]
        conflict = {"item": '["web-1","in"]', "owner": "intruder", "other": "test", "since": taken}
        assert found == [conflict]
        shown = call("status", "--log", traffic.log.uri)
        assert """conflict: item '["web-1","in"]' belongs to source 'intruder' since""" in shown
        reason = """item ["web-1","in"] is claimed by sources intruder and test"""
        assert unsettled_reason(traffic.log, "inbound").startswith(reason)
        source.flush()  # it takes what is new in the log
        with pytest.warns(ConflictWarning):
            source.advance()
        for _ in range(25):
            traffic.tick()
            source.advance()
        assert json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]["conflicts"] == []


def test_an_item_that_never_sent_is_the_reason(traffic):
    traffic.send(
        "CREATE QUERY pair AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' AND host IN ('web-1', 'web-9') WITHIN 5;"
    )
    for _ in range(12):
        traffic.tick()
    assert 'no value yet of ["web-9","in"]' in unsettled_reason(traffic.log, "pair")


def test_a_tightening_is_the_reason(traffic):
    with Source("traffic", traffic.log, name="test", clock=lambda: traffic.now) as source:
        source.set_many([("web-1", "in"), ("web-2", "in"), ("web-1", "out")], [10.0, 20.0, 5.0])
        source.advance()
        for _ in range(25):
            traffic.tick()
            source.advance()
        traffic.send("CREATE QUERY narrow AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 0.01;")
        # The grants go out, and nobody confirms them before the next report.
        for _ in range(12):
            traffic.now += 8 * SECOND // 10
            traffic.append_clocks()
            traffic.read()
        assert "tightening under way: 2 of 2 items" in unsettled_reason(traffic.log, "narrow")


def test_an_answer_says_why_before_its_pipeline_has_reported(traffic):
    """A pipeline reports once per period; what an answer itself says is known at once."""
    assert "not settled" not in call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)
    settling = {"query": "inbound", "group": "", "at": traffic.now, "low": 1.0, "value": 2.0, "high": 3.0}
    body = rows.current_body({**settling, "stale": False, "settling": True})
    traffic.log.append("current.inbound", rows.compacted([("", 2**61, body)]))
    assert "not settled: a tightening is under way" in call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)


def test_an_answer_that_is_not_there_says_why(pipeline):
    pipeline.send(QUERY)
    assert "not settled: no pipeline has run it yet" in call(
        "watch", "inbound", "--log", pipeline.log.uri, "--for", 0.3
    )
    beat(pipeline.log, wall_clock(), 0)
    assert "not settled: the pipeline is starting" in call("watch", "inbound", "--log", pipeline.log.uri, "--for", 0.3)


def test_late_rows_are_listed_by_source_with_their_delay(traffic):
    late = rows.updates_batch(
        kind="update", keys=['["web-1","in"]'], at=[traffic.now - 4 * SECOND], source="test",
        sequence=[version(1, 10**6)], through=traffic.now - 4 * SECOND, value=[11.0],
    )  # fmt: skip
    traffic.log.append("updates.traffic", late)
    for _ in range(12):
        traffic.tick()
    assert stream_figures(traffic.log, "traffic").late_sources == {"test": (1, 4 * SECOND)}
    shown = call("status", "--log", traffic.log.uri)
    assert "1 late rows" in shown
    assert "test: 1, up to 4.0 s late" in shown


def test_dead_letters_are_grouped_by_reason_with_a_count_and_an_example(traffic):
    letter = {"kind": "update", "key": "k", "at": 1, "source": "s", "sequence": 1, "value": 1.0, "payload": b""}
    letters = [{**letter, "reason": f"at is {n} µs ahead of the pipeline's clock"} for n in range(300)]
    letters.append({**letter, "reason": "value must be a finite number, got nan"})
    traffic.log.append("dead_letters.traffic", pa.RecordBatch.from_pylist(letters, schema=rows.DEAD))
    shown = call("dead", "traffic", "--log", traffic.log.uri)
    assert "301 rows" in shown
    assert "at is 299 µs ahead" in shown
    assert "at is 7 µs" not in shown
    assert "at is 7 µs" in call("dead", "traffic", "--log", traffic.log.uri, "--all")
    record = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]
    assert [group["count"] for group in record["dead_reasons"]] == [300, 1]


def test_a_dead_letter_that_sums_up_others_counts_for_all_of_them(traffic):
    letter = {"kind": "update", "key": "k", "at": 1, "source": "s", "sequence": 1, "value": 1.0, "payload": b""}
    letters = [{**letter, "reason": "source is missing", "count": 1} for _ in range(100)]
    letters.append({**letter, "reason": "and 299,900 more: source is missing", "count": 299_900})
    letters += [{**letter, "reason": "kind must be update", "count": count} for count in (None, 0, -5)]
    traffic.log.append("dead_letters.traffic", pa.RecordBatch.from_pylist(letters, schema=rows.DEAD))
    old = rows.DEAD.remove(rows.DEAD.get_field_index("count"))
    traffic.log.append("dead_letters.traffic", pa.RecordBatch.from_pylist([letter | {"reason": "old"}], schema=old))
    shown = call("dead", "traffic", "--log", traffic.log.uri)
    assert "300,004 rows" in shown
    record = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]
    found = [(group["count"], group["example"]) for group in record["dead_reasons"]]
    assert found == [(300_000, "source is missing"), (3, "kind must be update"), (1, "old")]


def test_messages_saved_are_told_in_total_and_per_query(traffic):
    record = json.loads(call("status", "--log", traffic.log.uri, "--json"))["traffic"]
    figures = stream_figures(traffic.log, "traffic")
    # Two items are needed from the second on; the first two periods had 10 ticks each.
    assert figures.total("readings") == 2 * 10 * 2
    assert record["saved_so_far"] == pytest.approx(max(0.0, 1 - record["messages"]["total"] / 40))
    assert set(record["queries"]) == {"inbound"}
    assert 0 <= record["queries"]["inbound"]["saved"] <= 1
    # The third item is in no query: its silence saves nobody anything.
    assert len(figures.items) == 3
    assert record["unfiltered_per_second"] == 2.0
    assert "from 2 items" in call("status", "--log", traffic.log.uri)


@pytest.mark.filterwarnings("ignore::tolerant.transport.records.BadRecord")
@pytest.mark.parametrize(("key", "body"), [("summary/0", b'{"watermark": 5}'), ("items/0", None)])
def test_figures_that_make_no_sense_are_none(traffic, key, body):
    record = traffic.log.latest("status.traffic", key)
    if body is None:  # a key that no item can have
        body = record.body.replace(b'["web-1"', b'["web-1 ')
        assert body != record.body
    traffic.log.append("status.traffic", rows.compacted([(key, record.version + 1, body)]))
    assert "inbound" in call("watch", "inbound", "--log", traffic.log.uri, "--for", 0.3)
    assert "traffic: no pipeline has run it yet" in call("status", "--log", traffic.log.uri)
