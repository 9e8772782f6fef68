"""The program of docs/applications.md, run as it stands: killed, started again, and nothing heard twice."""

import dataclasses
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tolerant.client import Client, StatementClient, Subscription
from tolerant.queries import Answer
from tolerant.sql import parse
from tolerant.testing import LocalPipeline
from tolerant.transport import MemoryLog, open_log, rows
from tolerant.transport.common import wall_clock
from tolerant.transport.feeds import Feed, Listener
from tolerant.transport.positions import Position

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "applications.md").read_text()
(STATEMENTS,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
PROGRAM, MANY, RESUMED, SELECTED, EXTRACTOR = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PATIENCE = 180.0


class Pipelines(LocalPipeline):
    """The page's table with its pipeline, and what the pipeline of its stream would publish."""

    def put(self, key: int, x: float) -> None:
        """A row, and enough time for it to count."""
        self.table().update(id=key, x=x)
        self.tick()

    def answer(self, at: int, value: float, settling: bool = False) -> None:
        """What the stream's pipeline would publish."""
        row = dataclasses.asdict(Answer("inbound", at, value - 5, value, value + 5, settling=settling))
        batch = pa.RecordBatch.from_pylist([row], schema=rows.ANSWERS)
        current = rows.compacted([("", at, rows.current_body(row))])
        self.log.append_packed([("answers.inbound", rows.pack(batch)), ("current.inbound", rows.pack(current))])


@pytest.fixture
def pipelines(tmp_path: Path) -> Iterator[Pipelines]:
    log = open_log(f"sqlite:///{tmp_path}/log.db", create=True)
    with Pipelines(STATEMENTS, log=log, pipeline="stock", now=wall_clock()) as pipelines:
        yield pipelines
    log.close()


class Application:
    """The page's program as a process, in a folder of its own."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder, self._uri, self._starts = folder, uri, 0
        (folder / "application.py").write_text(PROGRAM)

    def start(self) -> None:
        self._starts += 1
        command = [sys.executable, "application.py", self._uri, "kept.db"]
        with open(self._said, "wb") as output:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=output, stderr=subprocess.STDOUT)

    def end(self, how: signal.Signals) -> int:
        self._process.send_signal(how)
        return self._process.wait(PATIENCE)

    def kept(self, table: str) -> list[tuple]:
        try:
            kept = sqlite3.connect(f"file:{self._folder}/kept.db?mode=ro", uri=True, timeout=30)
        except sqlite3.OperationalError:
            return []  # it has not begun
        try:
            return kept.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            kept.close()

    @property
    def said(self) -> list[str]:
        return self._said.read_text().splitlines()

    def wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end or self._process.poll() is not None:
                raise AssertionError(f"the program did not get there; it said {self.said}, kept {self.kept('heard')}")
            time.sleep(0.05)

    @property
    def _said(self) -> Path:
        return self._folder / f"said-{self._starts}.txt"


@pytest.mark.timeout(300)
def test_the_program_hears_everything_once_through_a_kill(pipelines: Pipelines, tmp_path: Path) -> None:
    application = Application(tmp_path, pipelines.log.uri)
    for key, x in [(1, 25.0), (2, 75.0), (3, 60.0)]:
        pipelines.put(key, x)
    pipelines.answer(1, 100.0)
    pipelines.answer(2, 101.0, settling=True)

    application.start()
    application.wait(lambda: len(application.kept("heard")) == 2 and len(application.kept("rates")) == 1)
    assert application.kept("heard") == [("insert", 1, 25.0, 1), ("insert", 3, 60.0, 1)]
    assert application.kept("rates") == [(2, 96.0, 101.0, 106.0, 0)]
    pipelines.put(2, 30.0)
    pipelines.answer(3, 102.0)
    application.wait(lambda: len(application.kept("heard")) == 3 and len(application.kept("rates")) == 2)
    application.wait(lambda: len(application.said) == 5)
    assert sorted(application.said) == [
        "area insert 1 25.0 True",
        "area insert 2 30.0 False",
        "area insert 3 60.0 True",
        "inbound 96.0 101.0 106.0 not settled",
        "inbound 97.0 102.0 107.0 ",
    ]
    application.end(signal.SIGKILL)

    pipelines.put(1, 61.0)
    pipelines.put(3, 20.0)
    pipelines.answer(4, 103.0)
    application.start()
    application.wait(lambda: len(application.kept("heard")) == 6 and len(application.kept("rates")) == 3)
    pipelines.put(2, 10.0)
    application.wait(lambda: len(application.kept("heard")) == 7)
    assert application.kept("heard")[3:] == [
        ("delete", 1, 25.0, 0),
        ("delete", 3, 60.0, 0),
        ("insert", 3, 20.0, 0),
        ("delete", 2, 30.0, 0),
    ]
    assert [at for at, *_ in application.kept("rates")] == [2, 3, 4]
    assert application.end(signal.SIGINT) == 0
    assert not any("Traceback" in line for line in application.said)


def test_many_subscriptions_are_heard_over_one_client(
    pipelines: Pipelines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pipelines.put(1, 50.0)
    client = Client(pipelines.log)
    wide = client.subscribe("area", low=40, high=90)
    client.subscribe("area", low=20, high=60)
    monkeypatch.chdir(tmp_path)
    here = MANY.replace("sqlite:///tolerant.db", pipelines.log.uri)
    exec(here.replace("client.changes(areas)", "client.changes(areas, stop=lambda: True)"), {"Client": Client})
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert f"{wide.number} insert {{'id': 1, 'x': 50.0}}" in said


def test_many_are_resumed_from_what_was_kept(pipelines: Pipelines, capsys: pytest.CaptureFixture[str]) -> None:
    client = Client(pipelines.log)
    for low, high in ((0, 10), (20, 60)):
        client.subscribe("area", low=low, high=high)
    pipelines.put(1, 5.0)
    (area,) = client.subscriptions("area", low=[20], high=[60])
    kept = area.position
    pipelines.put(2, 50.0)
    here = RESUMED.replace("sqlite:///tolerant.db", pipelines.log.uri).replace("17:1:3", str(kept))
    exec(here.replace("client.changes(areas)", "client.changes(areas, stop=lambda: True)"), {"Client": Client})
    said = capsys.readouterr().out.splitlines()
    assert sorted(line.partition(" ")[2] for line in said) == [
        "insert {'id': 1, 'x': 5.0}",
        "insert {'id': 2, 'x': 50.0}",
    ]


def test_rows_are_asked_for_once(pipelines: Pipelines, capsys: pytest.CaptureFixture[str]) -> None:
    for key, x in ((1, 25.0), (2, 75.0), (3, 59.5)):
        pipelines.put(key, x)
    exec(SELECTED.replace("sqlite:///tolerant.db", pipelines.log.uri), {"Client": Client})
    assert capsys.readouterr().out == "2 59.5\n"


def test_one_unsubscribes_for_all(pipelines: Pipelines) -> None:
    both = [Client(pipelines.log).subscribe("area", low=20, high=60) for _ in range(2)]
    pipelines.put(1, 30.0)
    assert [heard(one) for one in both] == [["insert"], ["insert"]]
    sent = StatementClient(pipelines.log).send_subscription(parse("UNSUBSCRIBE area(20, 60)")).sent
    reply = StatementClient(pipelines.log).reply_to(sent, PATIENCE)
    assert reply is not None
    assert reply.accepted
    pipelines.put(2, 30.0)
    assert [heard(one) for one in both] == [[], []]


def heard(subscription: Subscription) -> list[str]:
    while subscription.poll():
        pass
    return [change.kind for change in subscription.ready()]


def test_the_extractor_tells_everybody() -> None:
    names: dict[str, type] = {}
    exec(EXTRACTOR, names)
    log = MemoryLog()
    feed = Feed(log, names["NoticeExtractor"]())
    listeners = [Listener(Position()) for _ in range(2)]
    for number, listener in enumerate(listeners):
        feed.join(number, listener)
    log.append("answers.notices", pa.RecordBatch.from_pylist([{"step": 1}, {"step": 2}, {"step": 2}]))
    assert feed.poll()
    assert [[what["step"] for what, _ in listener.waiting] for listener in listeners] == [[1, 2], [1, 2]]


def test_every_link_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
