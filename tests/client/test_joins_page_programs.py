"""The programs of docs/joins.md about queries, run as they stand."""

import re
import threading
import time
from pathlib import Path

import pytest

from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

PAGE = (Path(__file__).parents[2] / "docs" / "joins.md").read_text()
(STATEMENTS,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
_, FOLLOWING, FEEDING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_programs_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = open_log("sqlite:///tolerant.db", create=True)
    with LocalPipeline(STATEMENTS, log=log, clock=wall_clock) as pipeline:
        following = threading.Thread(target=exec, args=(compile(FOLLOWING, "page", "exec"), {}), daemon=True)
        following.start()
        end = time.monotonic() + 60
        while not any(row["message"] == "subscribed to matched" for row in pipeline.rows("replies")):
            assert time.monotonic() < end
            time.sleep(0.05)
        exec(compile(FEEDING, "page", "exec"), {})
        following.join(60)
    log.close()
    printed = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert printed == [["insert", "1", "7"], ["insert", "1", "9"], ["delete", "1", "7"], ["delete", "1", "9"]]
