"""The programs of docs/notifications.md about queries, run as they stand."""

import re
import threading
import time
from pathlib import Path

import pytest

from tolerant.client import StatementClient
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import CreateTable, parse_many
from tolerant.transport import open_log
from tolerant.transport.changes import clock_row

PAGE = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
(STATEMENTS,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
_, FOLLOWING, FEEDING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


class Pipeline(threading.Thread):
    """What `tolerant run` does for the page's table, without Spark."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.log, self.over = open_log("sqlite:///tolerant.db", create=True), threading.Event()
        self.statements = parse_many(STATEMENTS)
        for statement in self.statements:
            StatementClient(self.log).send(statement)

    def run(self) -> None:
        (table,) = (found for found in self.statements if isinstance(found, CreateTable))
        shard, position = TableShard(table), 0
        while not self.over.wait(0.05):
            self.log.append("changes.stock", clock_row(table.columns, time.time_ns() // 1000, 1, "checkpoint"))
            entries = self.log.read(["queries", "changes.stock", "subscriptions.stock"], position)
            position = entries[-1].position
            outputs = shard.apply(entries)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])


def test_the_programs_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline()
    pipeline.start()
    following = threading.Thread(target=exec, args=(compile(FOLLOWING, "page", "exec"), {}), daemon=True)
    following.start()
    end = time.monotonic() + 60
    while not pipeline.log.read("replies") or not (said := capsys.readouterr().out):
        assert time.monotonic() < end
        time.sleep(0.05)
    exec(compile(FEEDING, "page", "exec"), {})
    following.join(60)
    pipeline.over.set()
    pipeline.join()
    pipeline.log.close()
    said += capsys.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == ["None", "8.0", "5.0", "8.0", "9.0", "None"]
    assert "current" in said.splitlines()[0]
