"""The programs of docs/notifications.md about queries, run as they stand."""

import re
import threading
import time
from pathlib import Path

import pytest

from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

PAGE = (Path(__file__).parents[2] / "docs" / "notifications.md").read_text()
(STATEMENTS,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
_, FOLLOWING, FEEDING = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_programs_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    log = open_log("sqlite:///tolerant.db", create=True)
    with LocalPipeline(STATEMENTS, log=log, clock=wall_clock):
        following = threading.Thread(target=exec, args=(compile(FOLLOWING, "page", "exec"), {}), daemon=True)
        following.start()
        end = time.monotonic() + 60
        while not log.read("replies") or not (printed := capsys.readouterr().out):
            assert time.monotonic() < end
            time.sleep(0.05)
        exec(compile(FEEDING, "page", "exec"), {})
        following.join(60)
    log.close()
    printed += capsys.readouterr().out
    assert [line.split()[0] for line in printed.splitlines()] == ["None", "8.0", "5.0", "8.0", "9.0", "None"]
    assert "current" in printed.splitlines()[0]
