"""The pages of docs/tutorial, run from the first to the last: statements, programs and commands, in one folder.

The pipeline's part is done by its shards in this process, so that no Spark is started; everything else is what the
reader runs.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tolerant.cli import app, health
from tolerant.cli.extras import EXTRAS
from tolerant.cli.figures import stream_figures
from tolerant.cli.run import _register
from tolerant.spark.runner import _is_ours, _reply
from tolerant.sql.catalogue_reader import CatalogueReader
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport import PipelineLog, open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.rows import REPLIES

TUTORIAL = Path(__file__).parent.parent / "docs" / "tutorial"
PAGES = ("five-minutes.md", "half-an-hour.md", "operate.md")
_BLOCK = re.compile(r"^```(\w+)(?: title=\"(.+?)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PATIENCE = 240.0


class Pipelines(threading.Thread):
    """What `tolerant run` does: a stream's or a table's pipeline starts when its statement is in the log."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self.over, self._uri = threading.Event(), uri
        self._pipelines: dict[str, LocalPipeline] = {}
        self.failure: Exception | None = None
        self.steps = 0

    def run(self) -> None:
        log = open_log(self._uri)
        statements = CatalogueReader(log)
        try:
            while not self.over.wait(0.05):
                self._step(log, statements)
                self.steps += 1
        except Exception as error:
            self.failure = error
        finally:
            log.close()

    def _step(self, log: PipelineLog, statements: CatalogueReader) -> None:
        replies = [_reply(applied) for applied in statements.advance() if _is_ours(applied.statement)]
        if replies:
            log.append("replies", pa.RecordBatch.from_pylist(replies, REPLIES))
        for name in (*statements.catalogue.streams, *statements.catalogue.tables):
            if name not in self._pipelines:
                clock = _whole_seconds if name in statements.catalogue.streams else wall_clock
                self._pipelines[name] = LocalPipeline(log=log, pipeline=name, clock=clock, checkpoint="tutorial")
            self._pipelines[name].tick()


def _whole_seconds() -> int:
    return wall_clock() // SECOND * SECOND


class Reader:
    """Somebody who does what the pages say."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.pipelines = folder, Pipelines("sqlite:///tolerant.db")
        self._programs: list[subprocess.Popen[bytes]] = []
        self.ran: list[str] = []

    def follow(self, page: str) -> None:
        """Do what a page says, block by block."""
        for language, title, text in _BLOCK.findall(page):
            if title:
                (self._folder / title).write_text(text)
            elif language == "console":
                for line in text.splitlines():
                    self._command(shlex.split(line.removeprefix("$ ")))
            else:
                assert language == "python"
                self._program(text)
                time.sleep(2.0)  # what it said takes effect when its event time has passed
            self._let_work()

    def _let_work(self) -> None:
        """Wait until the pipelines have taken what is in the log; on a busy machine they may compile for a while."""
        end, steps = time.monotonic() + _PATIENCE, self.pipelines.steps + 2
        while self.pipelines.is_alive() and self.pipelines.steps < steps:
            assert time.monotonic() < end, "the pipelines are stuck"
            time.sleep(0.05)
        assert self.pipelines.failure is None, self.pipelines.failure

    def leave(self) -> None:
        """End everything that still runs."""
        for program in self._programs:
            program.kill()
            program.wait()
        self.pipelines.over.set()
        if self.pipelines.is_alive():
            self.pipelines.join(30)

    def _command(self, words: list[str]) -> None:
        self.ran.append(words[1])
        if words[0] == "pip":
            assert set(re.findall(r"\w+", words[2].partition("[")[2])) <= set(EXTRAS)
        elif words[0] == "python":
            self._programs.append(subprocess.Popen([sys.executable, *words[1:]], cwd=self._folder))
            self._wait_for_answers()
        elif words[:2] == ["tolerant", "run"]:
            log = open_log("sqlite:///tolerant.db", create=True)
            _register(log, Path(words[2]))
            log.close()
            self.pipelines.start()
        else:
            assert words[0] == "tolerant"
            limit = ["--for", "1"] if words[1] == "watch" and "--for" not in words else []
            if words[1] == "sql":
                limit = ["--timeout", str(_PATIENCE)]
            done = CliRunner().invoke(app, [*words[1:], *limit])
            assert done.exit_code == 0, (words, done.output, done.exception)
            assert done.output.strip() or words[1] == "watch", words

    def _program(self, text: str) -> None:
        done = subprocess.run(
            [sys.executable, "-c", text],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        assert done.returncode == 0, (text, done.stderr)
        assert done.stdout.strip() or "print(" not in text, text

    def _wait_for_answers(self) -> None:
        """The reader looks a moment later: the pipeline has answered, and has ended a period."""
        end, log = time.monotonic() + _PATIENCE, open_log("sqlite:///tolerant.db")
        try:
            while not log.read("answers.inbound") or stream_figures(log, "traffic") is None:
                assert time.monotonic() < end, "no answer came"
                assert self.pipelines.failure is None, self.pipelines.failure
                time.sleep(0.2)
        finally:
            log.close()


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOLERANT_LOG", raising=False)
    monkeypatch.setattr(health, "FREE", 0)  # this machine's disk is not what is tested
    reader = Reader(tmp_path)
    yield reader
    reader.leave()


def test_the_ladder(reader: Reader) -> None:
    for name in PAGES:
        reader.follow((TUTORIAL / name).read_text())
    assert {"run", "watch", "sql", "explain", "status", "dead", "log", "doctor", "feed.py"} <= set(reader.ran)


def test_every_page_is_a_step_of_the_ladder() -> None:
    assert {file.name for file in TUTORIAL.iterdir()} == set(PAGES)
    for name, following in pairwise(PAGES):
        assert f"]({following})" in (TUTORIAL / name).read_text()
