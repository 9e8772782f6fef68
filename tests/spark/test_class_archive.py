"""Java starts from the archive that another has recorded, and from its jars where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tolerant.spark import class_archive
from tolerant.spark.class_archive import archive, archive_options, recording_options, remove_outdated
from tolerant.spark.java import java_home


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a Java that writes the archive of its own classes when it is asked to, and nothing else."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    touch = 'for a in "$@"; do case $a in -XX:SharedArchiveFile=*) touch "${a#*=}";; esac; done'
    program.write_text(f"#!/bin/sh\n{touch}\n")
    program.chmod(0o755)
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    (tmp_path / "environment").mkdir()
    return home


def test_the_archive_belongs_to_an_environment_and_a_build_of_java(java: Path, tmp_path: Path) -> None:
    before = archive(java)
    assert before.is_relative_to(tmp_path / "environment")
    assert archive(java) == before
    (java / "release").write_text('JAVA_VERSION="17.0.16"\n')
    assert archive(java) != before


def jars(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A jar of ours and one of Spark's, in the places of the installed ones."""
    ours, spark = folder / "local-files.jar", folder / "pyspark" / "jars" / "spark-core_2.13-4.3.0.jar"
    spark.parent.mkdir(parents=True)
    for jar in (ours, spark):
        jar.write_bytes(b"classes")
        os.utime(jar, (1e9, 1e9))
    monkeypatch.setattr(class_archive, "_HELPER", ours)
    monkeypatch.setattr(class_archive, "_spark", lambda: folder / "pyspark")
    return ours, spark


@pytest.mark.parametrize("place", [0, 1])
def test_another_jar_needs_another_archive(
    place: int, java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java compares a jar's size and time with those recorded, and says nothing where they differ."""
    jar = jars(tmp_path / "jars", monkeypatch)[place]
    before = archive(java)
    os.utime(jar, (1e9 + 1, 1e9 + 1))
    touched = archive(java)
    jar.write_bytes(b"more classes")
    os.utime(jar, (1e9, 1e9))
    assert len({before, touched, archive(java)}) == 3


def test_only_what_is_outdated_is_removed(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, _ = jars(tmp_path / "jars", monkeypatch)
    outdated = archive(java)
    outdated.parent.mkdir()
    (tmp_path / "other" / "bin").mkdir(parents=True)
    others = archive(tmp_path / "other")
    os.utime(ours, (2e9, 2e9))
    kept = {archive(java), class_archive._base(archive(java)), others, outdated.parent / "spark.txt"}
    for file in (outdated, class_archive._base(outdated), *kept):
        file.touch()
    remove_outdated(java)
    assert set(outdated.parent.iterdir()) == kept


def test_without_an_environment_it_is_the_users(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert archive(java).parent == tmp_path / "cache" / "tolerant"


def test_what_is_not_there_is_not_asked_for(java: Path) -> None:
    assert archive_options(java) == ""
    archive(java).parent.mkdir()
    archive(java).touch()
    assert archive_options(java).endswith(f"-XX:SharedArchiveFile={archive(java)}")


def test_a_java_without_an_archive_of_its_own_classes_makes_one_first(java: Path, tmp_path: Path) -> None:
    recorded = tmp_path / "recorded.jsa"
    options = recording_options(java, recorded)
    bases = list(archive(java).parent.iterdir())
    assert len(bases) == 1
    assert f"-XX:SharedArchiveFile={bases[0]} -XX:ArchiveClassesAtExit={recorded}" in options
    archive(java).touch()
    assert archive_options(java).endswith(f"-XX:SharedArchiveFile={bases[0]}{os.pathsep}{archive(java)}")


def test_a_java_with_one_records_upon_it(java: Path, tmp_path: Path) -> None:
    (java / "lib" / "server").mkdir(parents=True)
    (java / "lib" / "server" / "classes.jsa").touch()
    assert "SharedArchiveFile" not in recording_options(java, tmp_path / "recorded.jsa")


def test_java_takes_an_archive_that_fits_and_leaves_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Spark's own launcher, which is a Java program that is quick to start."""
    pyspark = Path(pytest.importorskip("pyspark").__file__).parent
    home, file = java_home(), tmp_path / "classes.jsa"
    monkeypatch.setattr(class_archive, "archive", lambda home: file)
    environment = os.environ | {"SPARK_HOME": str(pyspark), "SPARK_SCALA_VERSION": "2.13"}

    def run(options: str, first: str = "") -> tuple[int, str]:
        classes = ["-cp", f"{first}{pyspark}/jars/*", "org.apache.spark.launcher.Main"]
        command = [str(home / "bin" / "java"), *options.split(), *classes, "org.apache.spark.deploy.SparkSubmit"]
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, env=environment, timeout=60)
        return done.returncode, done.stdout

    plain = run("")
    assert plain[0] == 0
    assert run(recording_options(home, file)) == plain
    mapped = archive_options(home)
    strict = mapped.replace("-Xshare:auto", "-Xshare:on")
    assert run(mapped) == run(strict) == plain
    assert run(mapped, first="/elsewhere.jar:") == plain
    file.write_bytes(b"no archive")
    assert run(mapped) == plain
    assert run(strict)[0] != 0


_SESSION = """
import os, sys
from pathlib import Path
import tolerant.spark.class_archive as archives
import tolerant.spark.session as sessions
file = Path(sys.argv[1])
archives.archive = lambda home: file
spark = sessions.session("local[1]", recorded=None if file.exists() else file)
java = sessions.SparkContext._gateway.proc.pid
print(spark.range(7).count(), str(file) in Path(f"/proc/{java}/maps").read_text())
sessions.end_java()
print(file.exists())
"""


@pytest.mark.spark
def test_a_session_maps_what_another_has_recorded(tmp_path: Path) -> None:
    def run() -> list[str]:
        command = [sys.executable, "-c", _SESSION, str(tmp_path / "classes.jsa")]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.split()

    assert run() == ["7", "False", "True"]
    assert run() == ["7", "True", "True"]
