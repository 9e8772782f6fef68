"""The archive of Spark's classes that Java maps into memory (class data sharing), instead of reading them from jars.

Until the first answer Java reads, checks and links more than ten thousand classes from nearly 300 jars: most of what
a start costs. What it has loaded once can be kept in a file that later processes map as it is. Java checks itself that
the file fits: another build of Java, another jar or another order of jars, and it goes without. So the file's name
says which they were, and a change of them is a reason to record again.

The file is recorded by a process of its own (`tolerant.demo.prepare`), because a Java that records unloads no class.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path

from tolerant.spark.java import user_cache

_LOGGER = logging.getLogger(__name__)

_HELPER = Path(__file__).parent / "jars" / "local-files.jar"

_QUIET = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""An archive that does not fit is left alone, and Java's standard output, where it would say so, is ours."""


def archive(home: Path) -> Path:
    """The place of the archive for the Java in `home` and the installed Spark, whether or not it is there.

    It lies in the virtual environment, and goes with it; without one in the user's cache directory. Its name changes
    with the build of Java and with the jars: Java would leave alone, without a word, what was recorded from others.
    """
    own = Path(sys.prefix)
    folder = own / "var" if sys.prefix != sys.base_prefix and os.access(own, os.W_OK) else user_cache()
    spark = importlib.metadata.version("pyspark")
    built = (home / "release").read_bytes() if (home / "release").exists() else b""
    return folder / f"spark-{spark}-classes-{_installation(home)}-{_digest(f'{spark} {_jars()} '.encode() + built)}.jsa"


def remove_outdated(home: Path) -> None:
    """Remove the archives of this installation from before its Spark, Java or jars changed."""
    file = archive(home)
    for other in file.parent.glob(f"spark-*-classes-{_installation(home)}-*.jsa"):
        if other not in (file, _base(file)):
            other.unlink(missing_ok=True)


def _installation(home: Path) -> str:
    """Where Java, Spark and Tolerant are, as on the classpath."""
    return _digest(f"{[home.resolve(), Path(__file__).parent, _spark()]}".encode())


def _jars() -> list[tuple[str, int, int]]:
    """Our jar and one of Spark's, by which Java knows whether the archive is of these."""
    jars = [_HELPER, *sorted((_spark() / "jars").glob("spark-core_*.jar"))]
    return [(jar.name, jar.stat().st_size, jar.stat().st_mtime_ns) for jar in jars if jar.exists()]


def _spark() -> Path:
    package = importlib.util.find_spec("pyspark")
    return Path(package.origin).parent if package and package.origin else Path()


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:8]


def archive_options(home: Path) -> str:
    """Java's options for starting from the archive; none if it is not there."""
    file = archive(home)
    if not file.exists():
        _LOGGER.info("no archive of Spark's classes: `python -m tolerant.demo.prepare` makes %s", file)
        return ""
    _LOGGER.debug("Spark's classes from %s", file)
    files = [base for base in (_base(file),) if base.exists()] + [file]
    return f"{_QUIET} -XX:SharedArchiveFile={os.pathsep.join(map(str, files))}"


def recording_options(home: Path, file: Path) -> str:
    """Java's options for writing the classes that it has loaded to `file` when it ends.

    Raises:
        OSError, subprocess.SubprocessError: this Java cannot.
    """
    base = _base(archive(home))
    base.parent.mkdir(parents=True, exist_ok=True)
    if not (home / "lib" / "server" / "classes.jsa").exists():
        # A runtime that was cut down comes without the archive of Java's own classes, which ours builds upon.
        command = [str(home / "bin" / "java"), "-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={base}"]
        subprocess.run(command, capture_output=True, check=True, timeout=120)
    beneath = f"-XX:SharedArchiveFile={base} " if base.exists() else ""
    return f"{beneath}-XX:ArchiveClassesAtExit={file} {_QUIET}"


def _base(file: Path) -> Path:
    return file.with_suffix(".base.jsa")
