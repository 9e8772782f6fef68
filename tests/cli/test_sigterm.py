"""SIGTERM ends commands as Ctrl-C does: what a source has is sent, and no process is left behind."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tolerant.client import StatementClient
from tolerant.transport import open_log
from tolerant.transport.rows import unpack

PATIENCE = 120.0


@pytest.fixture
def log(tmp_path):
    opened = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    StatementClient(opened).register(
        "CREATE STREAM hosts (host STRING, metric STRING, v DOUBLE) KEY (host, metric) WITH (policy = 'exact');"
        "CREATE QUERY load AS SELECT MAX(v) FROM hosts WITHIN 1"
    )
    yield opened
    opened.close()


def start(*arguments, **options):
    command = [sys.executable, "-m", "tolerant", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def ended(process):
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors
    return output


def test_an_agent_sends_what_it_has(log):
    process = start("agent", "--log", log.uri, "--interval", "0.1", "--host", "me", "--json")
    readings = [process.stdout.readline() for _ in range(5)]
    readings += ended(process).splitlines()
    assert process.returncode == 0
    last = json.loads(readings[-1])["cpu"]
    rows = [row for entry in log.read("updates.hosts") for row in unpack(entry.payload).to_pylist()]
    assert [row["value"] for row in rows if row["key"] == '["me","cpu"]'][-1] == last


def test_watch_ends_as_at_ctrl_c(log):
    process = start("watch", "load", "--log", log.uri, "--json")
    until = time.monotonic() + PATIENCE
    while not any(file.path.endswith("log.db") for file in psutil.Process(process.pid).open_files()):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    ended(process)
    assert process.returncode in (0, 143)  # 143 if it had not come to its answers


def test_a_replay_ends_without_a_traceback(log, tmp_path):
    (tmp_path / "trace.csv").write_text("me/cpu\n" + "\n".join(map(str, range(1000))) + "\n")
    process = start("replay", str(tmp_path / "trace.csv"), "--stream", "hosts", "--log", log.uri)
    until = time.monotonic() + PATIENCE
    while not log.read("updates.hosts"):
        assert time.monotonic() < until
        time.sleep(0.05)
    ended(process)
    assert process.returncode == 143


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_demo_leaves_no_pipeline_behind(tmp_path):
    process = start("demo", "--out", str(tmp_path / "out"), start_new_session=True)
    until = time.monotonic() + PATIENCE
    while not (runs := [child for child in psutil.Process(process.pid).children() if "run" in child.cmdline()]):
        assert time.monotonic() < until
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    gone, alive = psutil.wait_procs(runs, timeout=60.0)
    assert (len(gone), alive) == (1, [])
    assert process.returncode == 143
