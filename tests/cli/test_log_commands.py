"""`tolerant log backup|verify`, commands that make no log, and names that there are not."""

import json
import sqlite3
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tolerant.cli import app
from tolerant.client import Client
from tolerant.edge import Source, SourceError, Table
from tolerant.transport import LogError
from tolerant.transport.versions import sqlite_warning


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_backup_and_verify_of_a_log_in_use(pipeline, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    result = call("log", "backup", backup, "--log", pipeline.log.uri)
    assert result.exit_code == 0, result.output
    assert "entries" in result.output
    for uri in (pipeline.log.uri, f"sqlite:///{backup}"):
        result = call("log", "verify", "--json", "--log", uri)
        assert result.exit_code == 0, result.output
        record = json.loads(result.output)
        assert record["findings"] == []
        assert record["entries"] == 1
    again = call("log", "backup", backup, "--log", pipeline.log.uri)
    assert again.exit_code == 1
    assert "is there already" in again.output


def test_verify_says_what_is_damaged(pipeline) -> None:
    other = sqlite3.connect(pipeline.log.path)
    other.execute("UPDATE entries SET payload = x'00'")
    other.commit()
    other.close()
    result = call("log", "verify", "--log", pipeline.log.uri)
    assert result.exit_code == 1
    assert "entry of topic 'queries' at position 1: the checksum is another" in result.output
    assert "damaged: restore a backup" in result.output
    status = call("status", "--log", pipeline.log.uri)
    assert status.exit_code == 1
    assert "the entry of topic 'queries' at position 1 is damaged" in status.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("sql", "SHOW QUERIES"),
        ("sql", "CREATE STREAM s (k STRING, v DOUBLE) KEY (k)"),
        ("status",),
        ("watch", "q"),
        ("explain", "q"),
        ("dead", "s"),
        ("plan", "q"),
        ("refresh", "v"),
        ("poll", "s"),
        ("agent",),
        ("log", "verify"),
        ("log", "backup", "copy.db"),
        ("replay", "trace.csv", "--stream", "s"),
        ("aggregate", "network.toml", "a"),
    ],
    ids=" ".join,
)
def test_only_run_makes_a_log(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text("at,item,value\n0,a,1\n")
    Path("network.toml").write_text("[aggregators.a]\nitems = { x = 1.0 }\n")
    before = {path.name for path in tmp_path.iterdir()}
    result = call(*arguments, "--log", "sqlite:///none.db")
    assert result.exit_code in (1, 2)
    assert {path.name for path in tmp_path.iterdir()} == before
    if arguments[0] != "aggregate":
        assert "there is no log at sqlite:///none.db; `tolerant run FILE` makes one" in result.output


@pytest.mark.parametrize("make", [lambda uri: Source("s", uri), lambda uri: Table("t", uri), Client])
def test_no_program_but_run_makes_a_log(make, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"there is no log at .*none\.db; `tolerant run FILE` makes one"):
        make(f"sqlite:///{tmp_path}/none.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["watch", "explain", "plan", "refresh"])
def test_a_query_that_there_is_not_is_told_at_once(command: str, traffic) -> None:
    result = call(command, "inbuond", "--log", traffic.log.uri)
    assert result.exit_code in (1, 2)
    assert "inbuond" in result.output
    assert "there are: none" in result.output if command == "refresh" else "did you mean inbound?" in result.output


def test_a_query_that_was_dropped_is_not_waited_for(traffic) -> None:
    traffic.send("DROP QUERY inbound")
    traffic.tick()
    result = CliRunner().invoke(app, ["watch", "inbound", "--log", traffic.log.uri])
    assert result.exit_code != 0
    assert "there is no query inbound" in result.output
    kept = CliRunner().invoke(
        app, ["watch", "inbound", "--log", traffic.log.uri, "--from-start", "--json", "--for", "0.2"]
    )
    assert kept.exit_code == 0
    assert '"query": "inbound"' in kept.output


def test_dead_letters_of_a_stream_that_there_is_not(traffic) -> None:
    result = call("dead", "trafic", "--log", traffic.log.uri)
    assert result.exit_code == 1
    assert "there is no stream or table trafic; did you mean traffic? There are: traffic" in result.output
    assert call("dead", "traffic", "--log", traffic.log.uri).exit_code == 0


@pytest.mark.parametrize("clock", [None, lambda: 1])
def test_a_source_says_at_once_that_its_log_was_deleted(pipeline, clock) -> None:
    source = Source("traffic", pipeline.log.uri, name="x", clock=clock)
    source.set(("a", "in"), 1.0)
    source.flush()
    pipeline.log.path.unlink()
    source.set(("a", "in"), 100.0)
    with pytest.raises(SourceError, match="has been deleted or moved away"):
        source.flush()
    with pytest.raises(SourceError, match="has been deleted or moved away"):
        source.set(("a", "in"), 200.0)
    with pytest.raises(SourceError, match="has been deleted or moved away"):
        source.close()
    assert not pipeline.log.path.exists()


def test_an_old_sqlite_is_warned_of() -> None:
    assert "SQLite 3.40.1" in sqlite_warning((3, 40, 1))
    assert sqlite_warning((3, 51, 3)) is sqlite_warning((3, 50, 7)) is sqlite_warning((3, 54, 1)) is None
    assert sqlite_warning((3, 51, 2)) is not None
