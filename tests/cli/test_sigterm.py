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
    return terminated(process)[0]


def terminated(process):
    """What the process has written to its two outputs after SIGTERM."""
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in errors
    return output, errors


def wait_until(condition, process):
    """Wait until the condition holds, while the process runs."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < until
        time.sleep(0.05)


def rows_of(log, topic):
    return [row for entry in log.read(topic) for row in unpack(entry.payload).to_pylist()]


def test_an_agent_sends_what_it_has(log):
    process = start("agent", "--log", log.uri, "--interval", "0.1", "--host", "me", "--json")
    readings = [process.stdout.readline() for _ in range(5)]
    readings += ended(process).splitlines()
    assert process.returncode == 0
    last = json.loads(readings[-1])["cpu"]
    rows = rows_of(log, "updates.hosts")
    assert [row["value"] for row in rows if row["key"] == '["me","cpu"]'][-1] == last


def test_watch_ends_as_at_ctrl_c(log):
    process = start("watch", "load", "--log", log.uri, "--json")
    wait_until(lambda: any(f.path.endswith("log.db") for f in psutil.Process(process.pid).open_files()), process)
    time.sleep(0.5)
    ended(process)
    assert process.returncode in (0, 143)  # 143 if it had not come to its answers


def test_a_replay_ends_without_a_traceback(log, tmp_path):
    (tmp_path / "trace.csv").write_text("me/cpu\n" + "\n".join(map(str, range(1000))) + "\n")
    process = start("replay", str(tmp_path / "trace.csv"), "--stream", "hosts", "--log", log.uri)
    wait_until(lambda: log.read("updates.hosts"), process)
    ended(process)
    assert process.returncode == 143


def test_a_poller_keeps_what_came_and_its_model(log):
    pytest.importorskip("aiohttp")
    from tolerant.testing.faulty_server import FaultyServer, ServerThread

    with ServerThread(FaultyServer({"A": 1.0, "B": 2.0})) as server:
        StatementClient(log).register(
            f"CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM '{server.url}/quote/{{symbol}}'"
            " WITH (path = '$.price', tick = '100 ms');"
            "CREATE QUERY both AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 1 FIDELITY 0.9"
        )
        process = start("poll", "quotes", "--log", log.uri)
        wait_until(lambda: len(log.read("pulls.quotes")) > 2, process)
        _, errors = terminated(process)
    assert process.returncode == 0
    pulls = [row for row in rows_of(log, "pulls.quotes") if row["kind"] == "value"]
    assert f" requests, {len(pulls):,} values, 0 failed" in errors
    assert {row["item"] for row in pulls} == {"A", "B"}
    assert log.read("models.quotes")  # the next one continues with it


NETWORK = "[aggregators.north]\nitems = { A = 0.2, B = 0.2 }\n"


def test_an_aggregator_ends_in_order_and_another_takes_its_place(log, tmp_path):
    file = tmp_path / "network.toml"
    file.write_text(NETWORK)
    StatementClient(log).register(
        "CREATE STREAM prices (symbol STRING, price DOUBLE) KEY (symbol) FROM 'network.toml' WITH (tick = '100 ms')",
        tmp_path,
    )
    for _ in range(2):
        process = start("aggregate", str(file), "north", "--log", log.uri)
        said = process.stderr.readline()
        assert "holds 2 items of prices" in said
        begun = len(rows_of(log, "updates.prices"))
        wait_until(lambda begun=begun: len(rows_of(log, "updates.prices")) > begun, process)
        _, errors = terminated(process)
        assert process.returncode == 0
        assert " rows said, 0 heard too late" in errors


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
