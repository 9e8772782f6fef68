"""What the README shows, run: its statements, its programs, its commands."""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tolerant.cli import app
from tolerant.client import StatementClient
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.streams import SECOND
from tolerant.transport import open_log, rows
from tolerant.transport.rows import clock_batch

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands():
    lines = [line.removeprefix("$ ").split("#")[0] for block in blocks("console") for line in block.splitlines()]
    return [shlex.split(line) for line in lines]


def test_the_programs_run_on_the_statements(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    log = open_log("sqlite:///tolerant.db", create=True)
    StatementClient(log).register(blocks("sql")[0])
    stream = StatementClient(log).parse(blocks("sql")[0])[0].stream
    feed, watch = blocks("python")
    source = subprocess.Popen([sys.executable, "-c", feed])
    try:
        sent = 0
        while sent < 4:  # it keeps running: both items, and each at least once more
            time.sleep(0.1)
            assert source.poll() is None
            sent = sum(len(rows.unpack(entry.payload)) for entry in log.read("updates.traffic"))
    finally:
        source.kill()
        source.wait()
    # The pipeline's part: time passes, and the shard takes what is in the log.
    for seconds in (0, 1, 2):
        log.append("updates.traffic", clock_batch(time.time_ns() // 1000 + seconds * SECOND))
    outputs = BoundedShard(stream, 0, 1, "readme").apply(log.read(["updates.traffic", "queries"]))
    log.append_packed([(output.topic, output.payload) for output in outputs])
    exec(watch, {})
    _, value, _, settled = capsys.readouterr().out.split()
    assert abs(float(value) - 1026) < 50
    assert settled == "False"  # the sources have not confirmed a width yet
    log.close()


def test_every_command_that_it_shows_exists():
    known = get_command(app).commands
    shown = [words for words in commands() if words[0] == "tolerant"]
    assert shown
    for words in shown:
        assert words[1] in known
    for name in re.findall(r"`tolerant ([a-z]+)", README):
        assert name in known


def test_every_target_that_it_shows_exists():
    makefile = (ROOT / "Makefile").read_text()
    for words in commands():
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE)


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", ["traffic.sql", "hosts.sql"])
def test_the_examples_can_be_read(name, tmp_path):
    log = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    assert StatementClient(log).parse((ROOT / "examples" / name).read_text())
    log.close()


def test_no_arguments_show_the_help():
    assert "watch" in CliRunner().invoke(app, []).output
