"""The commands that feed a log: replay and agent; and reproduce, which needs none."""

import json
import sys

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.edge import replay
from tolerant.kernels.versions import version
from tolerant.transport import rows
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import Heartbeat, heartbeat_batch
from tolerant.transport.topics import HEARTBEATS


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def keys(log, topic):
    return {key for entry in log.read(topic) for key in rows.unpack(entry.payload).column("key").to_pylist() if key}


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("web-1/in,web-1/out\n1,2\n3,4\n5,6\n")
    return path


def test_replay_offers_every_value(pipeline, trace):
    result = call("replay", trace, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", "50", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["values"] == 6
    assert keys(pipeline.log, "updates.traffic") == {'["web-1","in"]', '["web-1","out"]'}


@pytest.mark.parametrize("speed", ["0", "-1", "fast", "inf"])
def test_a_speed_that_is_none_is_a_wrong_call(pipeline, trace, speed):
    result = call("replay", trace, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", speed)
    assert result.exit_code == 2
    assert "--speed" in result.output


def test_a_file_that_is_no_trace_is_a_wrong_call(pipeline, tmp_path):
    (tmp_path / "bad.csv").write_text("at,item,value\n1,a,hello\n")
    for name in ("bad.csv", "missing.csv"):
        result = call("replay", tmp_path / name, "--stream", "traffic", "--log", pipeline.log.uri)
        assert result.exit_code == 2
        assert name in result.output
        assert "Traceback" not in result.output


def test_the_agent_offers_this_hosts_metrics(pipeline):
    result = call(
        "agent",
        "--stream",
        "traffic",
        "--log",
        pipeline.log.uri,
        "--interval",
        0.1,
        "--for",
        0.35,
        "--host",
        "me",
        "--json",
    )
    assert result.exit_code == 0, result.output
    assert '["me","cpu"]' in keys(pipeline.log, "updates.traffic")
    assert "memory" in json.loads(result.stdout.splitlines()[0])


def test_experiments_are_listed():
    result = call("reproduce", "--list")
    assert result.exit_code == 0
    assert "filters-fig7" in result.stdout


def test_an_unknown_experiment_is_a_wrong_call():
    result = call("reproduce", "nonsense")
    assert result.exit_code == 2
    assert "filters-fig7" in result.output


def test_every_command_has_help():
    commands = ["run", "sql", "status", "watch", "explain", "demo", "replay", "agent", "dead", "reproduce"]
    for command in commands:
        assert call(command, "--help").exit_code == 0
        assert command in call("--help").stdout
    assert call("no-such-command").exit_code == 2


def test_replay_says_which_tick_it_assumes(pipeline, trace, tmp_path):
    result = call("replay", trace, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", "50")
    assert "trace.csv is taken for one of traffic, 1 s (the file has no timestamps)" in " ".join(result.stderr.split())
    stamped = tmp_path / "stamped.csv"
    stamped.write_text("at,web-1/in\n2024-01-01T00:00:00,1\n2024-01-01T00:05:00,2\n2024-01-01T00:10:00,3\n")
    result = call("replay", stamped, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", "50")
    assert result.exit_code == 0, result.output
    text = " ".join(result.stderr.split())
    assert "though they are 5 min apart" in text
    assert "WITH (tick = '5 min')" in text


def test_a_replay_that_waits_says_so(pipeline, trace, monkeypatch):
    monkeypatch.setattr(sys.modules["tolerant.cli.replay"], "PATIENT", 0.0)
    result = call("replay", trace, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", "max", "--for", "0.3")
    assert "Waiting for the pipeline" in result.stderr
    assert "no pipeline has followed" in result.stdout


def beat(log):
    log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("traffic", wall_clock()), version(1, 1))]))


def test_a_replay_in_real_time_says_whether_there_is_a_pipeline(pipeline, trace):
    words = ("replay", trace, "--stream", "traffic", "--log", pipeline.log.uri, "--speed", "50")
    result = call(*words)
    assert "No pipeline runs traffic yet" in result.stderr
    assert "no pipeline has followed" in result.stdout
    beat(pipeline.log)
    result = call(*words)
    assert "No pipeline runs traffic yet" not in result.stderr
    assert "no pipeline has followed" not in result.stdout


def test_a_replay_waits_for_a_pipeline_that_is_starting(pipeline, trace):
    """As long as it is alive, however long that takes; without one it waits for as long as its patience lasts."""
    beat(pipeline.log)
    done = replay(trace, "traffic", pipeline.log, "max", seconds=1.0, patience=0.0)
    assert done.ticks < 3
    pipeline.log.append(HEARTBEATS, heartbeat_batch([(Heartbeat("traffic", 0), version(1, 2))]))
    done = replay(trace, "traffic", pipeline.log, "max", patience=0.0)
    assert done.ticks == 3
    assert not done.followed
