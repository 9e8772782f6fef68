from pathlib import Path

import pytest

from tolerant.transport import MemoryLog, SqliteLog, open_log


def test_absolute_and_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for uri in (f"sqlite:///{tmp_path}/a.db", "sqlite:///b.db"):
        log = open_log(uri, create=True)
        assert isinstance(log, SqliteLog)
        assert log.uri == uri
        log.close()
    assert {p.name for p in tmp_path.iterdir()} >= {"a.db", "b.db"}


def test_memory_is_new_each_time() -> None:
    first = open_log("memory:")
    first.next_epoch("x")
    assert isinstance(first, MemoryLog)
    assert open_log("memory:").end() == 0


def test_kafka_is_to_come() -> None:
    with pytest.raises(ValueError, match="kafka is not available yet"):
        open_log("kafka://broker:9092/prefix")


@pytest.mark.parametrize(
    "uri", ["", "log.db", "sqlite:", "sqlite://log.db", "sqlite:///", "sqlite:///dir/", "mysql://x/y"]
)
def test_a_malformed_uri_says_what_was_expected(uri: str) -> None:
    with pytest.raises(ValueError, match=r"expected sqlite:///path/to/log\.db"):
        open_log(uri)
