import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.cli.run import _register, _trigger
from tolerant.client import Client, StatementClient, list_subscriptions, load_catalogue
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
    assert not load_catalogue(open_log(uri)).streams


def test_a_conflict_with_the_log_is_shown_with_what_resolves_it(place, pipeline):
    file, _ = place
    pipeline.send(QUERY)
    file.write_text(STREAM + QUERY.replace("SUM", "MAX"))
    result = call("run", file, "--log", pipeline.log.uri)
    assert result.exit_code == 2
    assert f"{file}:2:1: query inbound differs" in result.output
    assert "DROP QUERY inbound; CREATE QUERY inbound AS SELECT MAX(rate)" in result.output


@pytest.fixture
def tour(tmp_path):
    """The README's own file of statements, its ALTER, and a log's URI."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    file = tmp_path / "app.sql"
    file.write_text(re.findall(r"```sql\n(.*?)```", readme, re.DOTALL)[0])
    (alter,) = re.findall(r'tolerant sql "(ALTER [^"]*)"', readme)
    return file, alter, f"sqlite:///{tmp_path}/tolerant.db"


def say(log, text):
    StatementClient(log).register(text)


def test_the_tour_is_registered_again_after_its_alter(tour, capsys):
    file, alter, uri = tour
    log = open_log(uri, create=True)
    _register(log, file)
    say(log, alter)
    _register(log, file)
    assert f"query inbound: {file} says WITHIN 5, the log WITHIN 3 since an ALTER" in capsys.readouterr().err
    assert load_catalogue(log).queries["inbound"].select.within == 3.0
    _register(log, file, apply=True)
    assert load_catalogue(log).queries["inbound"].select.within == 5.0
    log.close()


def test_apply_brings_the_log_to_the_file(place, monkeypatch):
    file, uri = place
    served = []
    monkeypatch.setattr("tolerant.cli.run._serve", lambda log, *_: served.append(log.uri))
    assert call("run", file, "--log", uri).exit_code == 0
    with closing(open_log(uri)) as log:
        say(log, "ALTER QUERY inbound WITHIN 3")
        told = call("run", file, "--log", uri)
        assert (told.exit_code, load_catalogue(log).queries["inbound"].select.within) == (0, 3.0)
        assert "--apply alters it to WITHIN 5" in told.output
        assert call("run", file, "--log", uri, "--apply").exit_code == 0
        assert load_catalogue(log).queries["inbound"].select.within == 5.0
        file.write_text(STREAM + QUERY.replace("SUM", "MAX"))
        assert call("run", file, "--log", uri).exit_code == 2
        assert load_catalogue(log).queries["inbound"].select.fn == "sum"
        assert call("run", file, "--log", uri, "--apply").exit_code == 0
        assert load_catalogue(log).queries["inbound"].select.fn == "max"
    assert served == [uri] * 4


def test_nothing_to_run_is_a_wrong_call(tmp_path):
    (tmp_path / "empty.sql").write_text("-- nothing\n")
    for name, word in (("empty.sql", "nothing to run"), ("missing.sql", "cannot be read")):
        result = call("run", tmp_path / name, "--log", f"sqlite:///{tmp_path}/log.db")
        assert result.exit_code == 2
        assert word in result.output


TABLE = "CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);\n"
TEMPLATES = """
CREATE QUERY wide(first, last) AS SELECT * FROM stock WHERE id BETWEEN first AND last;
CREATE QUERY counted(first, last) AS SELECT COUNT(*) FROM stock WHERE id BETWEEN first AND last;
SUBSCRIBE wide FROM 'ends.parquet';
SUBSCRIBE counted FROM 'ends.parquet';
"""


def test_ends_of_64_bits_in_a_file_are_taken_exactly_or_refused_by_row(tmp_path, capsys):
    ends = {"first": [0, 2**53 + 1, -(2**63), 9], "last": [1, 2**53 + 2, 2**63 - 1, 8]}
    parquet.write_table(pa.table(ends), tmp_path / "ends.parquet")
    file, log = tmp_path / "app.sql", open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    file.write_text(TABLE + TEMPLATES)
    _register(log, file)
    told = capsys.readouterr().err
    assert "subscribe wide: 3 from ends.parquet, 1 refused" in told
    assert "subscribe counted: 2 from ends.parquet, 2 refused" in told
    assert "row 2: the range of id is compared as 64-bit floats" in " ".join(told.split())
    assert sorted(list_subscriptions(log, "wide").texts()) == [
        "SUBSCRIBE wide(-9223372036854775808, 9223372036854775807)",
        "SUBSCRIBE wide(0, 1)",
        "SUBSCRIBE wide(9007199254740993, 9007199254740994)",
    ]
    log.close()


@pytest.mark.parametrize(
    "text", ["INSERT INTO stock VALUES (1, 2)", "DELETE FROM stock WHERE id = 1", "SELECT * FROM stock"]
)
def test_rows_are_not_for_a_file_that_is_run_again(place, text):
    file, uri = place
    file.write_text(STREAM + QUERY + TABLE + text)
    result = call("run", file, "--log", uri)
    assert result.exit_code == 2
    assert f"{file}:4:1: {text.split()[0]} is not for a file that is run again" in result.output
    assert not load_catalogue(open_log(uri)).streams


def test_triggers():
    assert _trigger("0") == "0 seconds"
    assert _trigger("0.2 s") == "200 milliseconds"
    assert call("run", "x.sql", "--trigger", "soon").exit_code == 2


class Runs:
    """`tolerant run` as processes, each the leader of a group, and a source whose items they answer."""

    def __init__(self, place):
        self.file, self.uri = place
        self.log = open_log(self.uri, create=True)
        self.processes = []
        self.value = 0.0

    def start(self, *options):
        command = [sys.executable, "-m", "tolerant", "run", str(self.file), "--log", self.uri, *options]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.processes.append(process)
        return process

    def feed(self, source, process, condition):
        """Set values until the condition holds."""
        deadline = time.monotonic() + 240
        while not condition():
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            self.value += 1.0
            source.set_many([("web-1", "in"), ("web-2", "in")], [self.value % 20, 10.0])
            time.sleep(0.2)

    def feed_for_a_while(self, source, process):
        """Set values until one that is set from now on is in an answer, twice: by then it has said that it runs."""
        for _ in range(2):
            moment = time.time_ns() // 1000
            self.feed(source, process, lambda moment=moment: self.is_settled(moment))

    def is_settled(self, after=0):
        return any(answer.settled and answer.at > after for answer in Client(self.log).current("inbound"))

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stderr.close()
        self.log.close()


@pytest.fixture
def runs(place):
    made = Runs(place)
    yield made
    made.close()


def end(process, number):
    """Signal a run's group, as a terminal and a service manager do; what it said: Java and the Python workers must not
    hear of it.
    """
    os.killpg(process.pid, number)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "Exception" not in said
    return said


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_tour_runs_answers_ends_and_runs_again_after_its_alter(tour):
    file, alter, uri = tour
    runs = Runs((file, uri))
    try:
        process = runs.start()
        with Source("traffic", runs.log, name="test", timeout=60) as source:
            runs.feed(source, process, runs.is_settled)
        said = end(process, signal.SIGTERM)
        lines = [line.split(" s  ")[-1] for line in said.splitlines()]
        assert [line for line in lines if line.startswith("Starting stream traffic")]
        running = next(line for line in lines if line.startswith("Running traffic"))
        assert lines.index("Waiting for the first batch") < lines.index(running)
        assert "for up to 30 s" in said
        say(runs.log, alter)
        again = runs.start("--for", "1")
        said = again.communicate(timeout=240)[1]
        assert again.returncode == 0, said
        assert "going on with WITHIN 3" in said
        assert load_catalogue(runs.log).queries["inbound"].select.within == 3.0
    finally:
        runs.close()


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_ctrl_c_while_spark_starts_ends_it_without_a_traceback(runs):
    process = runs.start()
    said = ""
    while "Starting stream traffic" not in said:
        said += process.stderr.readline()
    time.sleep(5.0)  # Java is up, and has taken the first calls
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    assert "Traceback" not in said
    assert "for up to 30 s" in said


@dataclass
class Continued:
    """How a run began on the checkpoint of another: how many batches were `done`, how many it must read `again`."""

    lines: list[str]
    done: int
    again: int

    @property
    def steps(self):
        """What it said that it does."""
        return [line.split(" s  ")[1] for line in self.lines if " s  " in line]


def continued(runs, process):
    """Read what a run says until it has the checkpoint to itself, and what is in there then."""
    lines = []
    while not (lines and "Starting stream traffic" in lines[-1]):
        lines.append(process.stderr.readline())
        assert lines[-1], lines
    folder = Path(f"{runs.uri.removeprefix('sqlite:///')}.checkpoint/traffic/spark/queries/0")
    begun, done = (
        {int(path.name) for path in (folder / name).iterdir() if path.name.isdecimal()}
        for name in ("offsets", "commits")
    )
    return Continued([line.rstrip() for line in lines], max(done), len({batch for batch in begun if batch > max(done)}))


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_second_run_takes_over_only_if_it_is_told_to(runs):
    first = runs.start()
    with Source("traffic", runs.log, name="test", timeout=60) as source:
        runs.feed(source, first, runs.is_settled)
        begun = time.time_ns() // 1000
        second = runs.start()
        said = second.communicate(timeout=120)[1]
        assert second.returncode == 1
        assert f"process {first.pid} runs it on the same checkpoint folder" in said
        assert "--take-over" in said
        assert " s old" in said
        third = runs.start("--take-over")
        taking_over = continued(runs, third)
        assert "has been taken over" in first.communicate(timeout=240)[1]
        runs.feed_for_a_while(source, third)
        third.kill()  # a restart after a crash is refused by nobody
        taking_over.lines += third.communicate(timeout=240)[1].splitlines()
        fourth = runs.start()
        restarting = continued(runs, fourth)
        runs.feed_for_a_while(source, fourth)
    answers = [answer for answer in Client(runs.log).history("inbound") if answer.at > begun]
    assert len(answers) > 10
    assert all(answer.settled for answer in answers)  # no width had to be confirmed anew
    assert len(list(Path(f"{runs.uri.removeprefix('sqlite:///')}.checkpoint").glob("traffic/tolerant.json"))) == 1
    restarting.lines += end(fourth, signal.SIGINT).splitlines()
    # It takes the steps of a restart, and reads again what that would: the batch that the other one was at.
    announced, *steps = taking_over.steps
    assert announced.startswith("Taking over stream traffic")
    assert steps == [step for step in restarting.steps if not step.startswith("Ending")]
    assert taking_over.done > 0
    assert max(taking_over.again, restarting.again) <= 1
    assert restarting.done > taking_over.done  # the batches of one follow those of the other
