from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tolerant.transport import MemoryLog, PipelineLog, SqliteLog


class Clock:
    """A wall clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: Callable[[], int]) -> Iterator[PipelineLog]:
    opened = MemoryLog(clock) if request.param == "memory" else SqliteLog(tmp_path / "log.db", clock, create=True)
    yield opened
    opened.close()
