"""The programs of docs/joins.md about queries, run as they stand."""

import re
import threading
import time
from pathlib import Path

import pytest

from tolerant.client import StatementClient
from tolerant.kinds.joins.shard import PairShard
from tolerant.sql import CreateTable, JoinInput, parse_many
from tolerant.transport import Log, open_log
from tolerant.transport.changes import clock_row
from tolerant.transport.rows import unpack
from tolerant.transport.topics import changes_topic

PAGE = (Path(__file__).parents[2] / "docs" / "joins.md").read_text()
(STATEMENTS,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
_, FOLLOWING, FEEDING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


class Pipeline(threading.Thread):
    """What `tolerant run` does for the page's tables, without Spark."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.log, self.over = open_log("sqlite:///tolerant.db", create=True), threading.Event()
        self.statements = parse_many(STATEMENTS)
        for statement in self.statements:
            StatementClient(self.log).send(statement)

    def run(self) -> None:
        pair = JoinInput.of(*(found for found in self.statements if isinstance(found, CreateTable)))
        shard, position = PairShard(pair), 0
        topics = ["queries", *(changes_topic(table.name) for table in pair.tables), f"subscriptions.{pair.name}"]
        while not self.over.wait(0.05):
            for table in pair.tables:
                clock = clock_row(table.columns, time.time_ns() // 1000, 1, "checkpoint")
                self.log.append(changes_topic(table.name), clock)
            entries = self.log.read(topics, position)
            position = entries[-1].position
            outputs = shard.apply(entries)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])


def replies(log: Log) -> list[str]:
    return [text for entry in log.read("replies") for text in unpack(entry.payload).column("message").to_pylist()]


def test_the_programs_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline()
    pipeline.start()
    following = threading.Thread(target=exec, args=(compile(FOLLOWING, "page", "exec"), {}), daemon=True)
    following.start()
    end = time.monotonic() + 60
    while "subscribed to matched" not in replies(pipeline.log):
        assert time.monotonic() < end
        time.sleep(0.05)
    exec(compile(FEEDING, "page", "exec"), {})
    following.join(60)
    pipeline.over.set()
    pipeline.join()
    pipeline.log.close()
    said = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert said == [["insert", "1", "7"], ["insert", "1", "9"], ["delete", "1", "7"], ["delete", "1", "9"]]
