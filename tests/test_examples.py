"""Every program in examples/ runs, and does what its first line says."""

import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

EXAMPLES = Path(__file__).parent.parent / "examples"


def settled(pipeline: LocalPipeline) -> bool:
    """Whether the newest answer of `inbound` is settled, and of items."""
    answers = pipeline.rows("answers.inbound")
    last = answers[-1] if answers else {"value": None}
    return last["value"] is not None and not last["settling"] and not last["stale"]


def example(name: str) -> Any:
    """The function `main` of an example."""
    return runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="example")["main"]


def test_adaptive_filters() -> None:
    sent = example("adaptive_filters")(items=40, ticks=400)
    assert sent["predictive"] < sent["uniform"] < sent["exact"]


def test_web_polling() -> None:
    asked, fidelity = example("web_polling")(1_000)
    assert asked < 0.1
    assert fidelity > 0.9


def test_query_planning(capsys: pytest.CaptureFixture[str]) -> None:
    assert example("query_planning")() == (198, 1415)
    assert "north answers a within 13.1" in capsys.readouterr().out


def test_subscription_merging() -> None:
    shared, alone = example("subscription_merging")(60)
    assert shared < alone


def test_continuous_joins() -> None:
    assert example("continuous_joins")() == [(1, 7, 9), (1, 8, 9), (-1, 7, 9)]


def test_retained_join() -> None:
    found = example("retained_join")(400)
    assert found["learned"] > found["rand"] > found["prob"]


def test_scheduled_view() -> None:
    pushes, longest = example("scheduled_view")()
    assert pushes > 0
    assert longest <= 8.0


def test_range_notices() -> None:
    assert example("range_notices")() == {"ann": 8.0, "bob": 6.0, "cid": 6.0}


def test_a_source_and_a_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    uri = "sqlite:///tolerant.db"
    log = open_log(uri, create=True)
    pipeline = LocalPipeline(
        (EXAMPLES / "traffic.sql").read_text(), log=log, clock=lambda: wall_clock() // SECOND * SECOND
    )
    feeding = subprocess.Popen([sys.executable, EXAMPLES / "feed.py", "600"])
    try:
        while not settled(pipeline):
            pipeline.tick()
            time.sleep(0.1)
        example("answer_client")("inbound", 1, uri)
    finally:
        feeding.kill()
        feeding.wait()
        log.close()
    (line,) = capsys.readouterr().out.splitlines()
    low, value, high = (float(part) for part in line.split(",")[0].split(" ≤ "))
    assert low <= value <= high
    assert 250 < value < 350  # of 100, 200, … 500
    assert (tmp_path / "inbound.position").exists()


def test_the_page_lists_every_example() -> None:
    page = (EXAMPLES / "README.md").read_text()
    for file in EXAMPLES.iterdir():
        assert file.name == "README.md" or f"({file.name})" in page or file.suffix == ".pyc" or file.is_dir()
