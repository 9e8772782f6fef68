import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.run import _trigger
from tolerant.client import Client, standing
from tolerant.edge import Source
from tolerant.transport import open_log

STREAM = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind);\n"
QUERY = "CREATE QUERY inbound AS SELECT SUM(rate) FROM traffic WHERE kind = 'in' WITHIN 5;\n"


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(tmp_path):
    """A file of statements, and the log's URI."""
    file = tmp_path / "app.sql"
    file.write_text(STREAM + QUERY)
    return file, f"sqlite:///{tmp_path}/log.db"


def test_an_error_in_the_file_names_file_line_and_column(place):
    file, uri = place
    file.write_text(STREAM + "CREATE QUERY q AS SELECT SUM(rate) FROM trafic WITHIN 5;\n")
    result = call("run", file, "--log", uri)
    assert result.exit_code == 2
    assert f"{file}:2:" in result.output
    assert "trafic" in result.output
    assert not standing(open_log(uri)).streams


def test_a_conflict_with_the_log_is_an_error_that_says_so(place, pipeline):
    file, _ = place
    pipeline.say(QUERY)
    file.write_text(STREAM + QUERY.replace("WITHIN 5", "WITHIN 3"))
    result = call("run", file, "--log", pipeline.uri)
    assert result.exit_code == 2
    assert "ALTER QUERY inbound WITHIN 3" in result.output


def test_nothing_to_run_is_a_wrong_call(tmp_path):
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    for name, word in (("empty.sql", "nothing to run"), ("missing.sql", "cannot be read")):
        result = call("run", tmp_path / name, "--log", f"sqlite:///{tmp_path}/log.db")
        assert result.exit_code == 2
        assert word in result.output


def test_triggers():
    assert _trigger("0") == "0 seconds"
    assert _trigger("0.2 s") == "200 milliseconds"
    assert call("run", "x.sql", "--trigger", "soon").exit_code == 2


@pytest.mark.spark
def test_run_answers_and_ends_cleanly_by_signal(place):
    file, uri = place
    command = [sys.executable, "-m", "tolerant", "run", str(file), "--log", uri]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        log, deadline, value = open_log(uri), time.monotonic() + 120, 0.0
        with Source("traffic", log, name="test", timeout=60) as source:
            while not any(answer.settled for answer in Client(log).current("inbound")):
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < deadline
                value += 1.0
                source.set_many([("web-1", "in"), ("web-2", "in")], [value, 10.0])
                time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "Running traffic" in said
