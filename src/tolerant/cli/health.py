"""Checks of what a command needs here: Python, Java, Spark, extras, log, checkpoints, clocks, ports, disk."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tolerant.cli.extras import EXTRAS, install_command, missing_modules
from tolerant.cli.figures import stream_figures, streams_with_figures
from tolerant.cli.reporting import CommandError
from tolerant.client import load_catalogue
from tolerant.client.liveness import outage_text, pipeline_outage
from tolerant.spark.class_archive import archive
from tolerant.spark.java import JavaNotFound, java_home, java_version
from tolerant.streams import SECOND
from tolerant.transport import Log, LogError, SqliteLog, open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.files import RESTORE
from tolerant.transport.heartbeats import latest_heartbeat, pipelines
from tolerant.transport.versions import sqlite_warning

SPARK_FROM, SPARK_BELOW = (4, 2), (4, 4)
"""The releases of Spark that pipelines run on; `pyproject.toml` asks for the same."""

FREE = 500_000_000
"""Bytes that should be free where a log or a checkpoint grows."""

_AHEAD = 2 * SECOND
"""How far a heartbeat may be ahead of this machine's clock."""

_WRITTEN = 65_536


class Health(StrEnum):
    """How a check ended; only what is wrong makes `tolerant doctor` fail."""

    OK = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What a check has found, and what to do about it."""

    check: str
    state: Health
    what: str
    to_do: str = ""


def examine(log: str, named: bool, checkpoint: Path) -> Iterator[Finding]:
    """Yield a finding or more per check. `named`: somebody gave the URI of the log, so it should be there."""
    yield from _python()
    yield from _extras()
    if not missing_modules("spark"):
        yield from _spark()
        yield from _java()
    yield from _log(log, named, checkpoint)
    yield from _ports()
    file = Path(log.removeprefix("sqlite:///"))
    yield from _disk({file.absolute().parent, checkpoint.absolute().parent, Path(tempfile.gettempdir())})


def _python() -> Iterator[Finding]:
    yield Finding("python", Health.OK, f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    if warning := sqlite_warning():
        what, _, to_do = warning.removeprefix("Warning: ").partition(". ")
        yield Finding("python", Health.NOTE, what, to_do)


def _extras() -> Iterator[Finding]:
    for extra, modules in EXTRAS.items():
        missing = missing_modules(extra)
        if not missing:
            yield Finding("extras", Health.OK, f"{extra} is installed")
        elif modules[0] in missing:
            yield Finding(
                "extras",
                Health.NOTE,
                f"{extra} is not installed",
                f"where it is needed: {install_command(extra)}",
            )
        else:
            broken = f"{extra} is not whole: {', '.join(missing)} cannot be imported"
            yield Finding("extras", Health.WRONG, broken, install_command(extra))


def _spark() -> Iterator[Finding]:
    version = importlib.metadata.version("pyspark")
    numbers = tuple(int(part) for part in version.split(".")[:2])
    if SPARK_FROM <= numbers < SPARK_BELOW:
        yield Finding("spark", Health.OK, f"Spark {version}")
    else:
        yield Finding(
            "spark", Health.WRONG, f"Spark {version} is not one that pipelines run on", install_command("spark")
        )


def _java() -> Iterator[Finding]:
    try:
        home = java_home()
    except JavaNotFound as error:
        what, _, to_do = str(error).rpartition(": ")
        yield Finding("java", Health.WRONG, what, to_do)
    else:
        yield Finding("java", Health.OK, f"Java {java_version(home / 'bin' / 'java')} in {home}")
        if not archive(home).exists():
            without = "no class archive: pipelines start slower"
            yield Finding("java", Health.NOTE, without, "run `python -m tolerant.demo.prepare`")


def _log(uri: str, named: bool, checkpoint: Path) -> Iterator[Finding]:
    path = uri.removeprefix("sqlite:///")
    if path != uri and not Path(path).exists():
        state = Health.WRONG if named else Health.NOTE
        yield Finding("log", state, f"there is no log at {uri}", "`tolerant run FILE` makes one, --log names another")
        return
    try:
        log = open_log(uri)
    except (LogError, OSError, ValueError) as error:
        what, to_do = _parted(str(error))
        yield Finding("log", Health.WRONG, what, to_do)
        return
    try:
        if isinstance(log, SqliteLog):
            yield from _whole(log, path)
            yield from _checkpoints(log, checkpoint)
        yield from _pipelines(log)
        yield from _clocks(log)
    except (LogError, CommandError) as error:  # a damaged log can fail anywhere
        what, to_do = _parted(str(error))
        yield Finding("log", Health.WRONG, what, to_do)
    finally:
        log.close()


def _whole(log: SqliteLog, path: str) -> Iterator[Finding]:
    verified = log.verify()
    if verified.findings:
        more = f" (and {len(verified.findings) - 1} more findings)" if len(verified.findings) > 1 else ""
        yield Finding(
            "log",
            Health.WRONG,
            f"it is damaged: {verified.findings[0]}{more}",
            f"{RESTORE}; all: tolerant log verify",
        )
    else:
        what = f"{verified.entries:,} entries and {verified.records:,} records, all of them whole"
        yield Finding("log", Health.OK, what)
    if not os.access(path, os.W_OK):
        yield Finding(
            "log",
            Health.WRONG,
            f"{path} cannot be written",
            "run as the user who owns it, or give it to this one",
        )


def _checkpoints(log: SqliteLog, folder: Path) -> Iterator[Finding]:
    if not folder.exists():
        yield Finding(
            "checkpoint", Health.NOTE, f"there are no checkpoints in {folder}", "`tolerant run` begins without"
        )
        return
    if not os.access(folder, os.W_OK | os.X_OK):
        own = "run as the user who owns it, or give it to this one"
        yield Finding("checkpoint", Health.WRONG, f"{folder} cannot be written", own)
        return
    files = sorted(folder.glob("*/tolerant.json"))
    yield Finding("checkpoint", Health.OK, f"{len(files)} pipelines have checkpoints in {folder}")
    for file in files:
        name = file.parent.name
        try:
            owner = json.loads(file.read_text())["log"]
        except (OSError, ValueError, KeyError, TypeError):
            yield Finding(
                "checkpoint", Health.WRONG, f"{file} cannot be read", f"delete {file.parent}: it is made again"
            )
            continue
        if owner != log.id:
            what = f"{name} belongs to another log"
            yield Finding("checkpoint", Health.NOTE, what, "`tolerant run` empties it and begins again with this log")


def _pipelines(log: Log) -> Iterator[Finding]:
    for name in pipelines(log):
        outage = pipeline_outage(log, name)
        if outage is None:
            yield Finding("pipelines", Health.OK, f"{name} runs")
        elif outage.stopped or outage.alive:
            yield Finding("pipelines", Health.NOTE, f"{name}: {outage_text(outage)}")
        else:
            yield Finding(
                "pipelines", Health.WRONG, f"{name}: {outage_text(outage)}", "start it again: tolerant run FILE"
            )


def _clocks(log: Log) -> Iterator[Finding]:
    synchronise = "let NTP set the clock of every machine (`timedatectl` says whether it does)"
    ahead = [(name, beat.at - wall_clock()) for name in pipelines(log) if (beat := latest_heartbeat(log, name))]
    wrong = [
        f"the clock of pipeline {name} is {by / SECOND:.1f} s ahead of this machine's"
        for name, by in ahead
        if by > _AHEAD
    ]
    streams = load_catalogue(log).streams
    for stream in sorted(set(streams) & set(streams_with_figures(log))):
        figures = stream_figures(log, stream)
        allowed = streams[stream].options.latency
        for summary in figures.summaries if figures else ():
            for source, known in summary.get("sources", {}).items():
                if known["skew"] > allowed:
                    wrong.append(f"the clock of source {source} of {stream} is {known['skew'] / SECOND:.1f} s ahead")
    for what in wrong:
        yield Finding("clocks", Health.WRONG, what, synchronise)
    if not wrong:
        yield Finding("clocks", Health.OK, "no clock is ahead of its pipeline's")


def _ports() -> Iterator[Finding]:
    """Spark's processes on one machine talk over loopback; of a cluster over `SPARK_LOCAL_IP`."""
    given = os.environ.get("SPARK_LOCAL_IP")
    for address in ("127.0.0.1", *([given] if given else [])):
        try:
            with contextlib.closing(socket.create_server((address, 0))) as server:
                socket.create_connection(server.getsockname(), timeout=5).close()
        except OSError as error:
            where = "SPARK_LOCAL_IP is no address of this machine" if address == given else "is loopback up? `ip link`"
            yield Finding("ports", Health.WRONG, f"no port of {address} can be used: {error.strerror or error}", where)
        else:
            yield Finding("ports", Health.OK, f"ports of {address} can be used")


def _disk(folders: Iterable[Path]) -> Iterator[Finding]:
    for folder in sorted(folders):
        if not folder.is_dir():
            yield Finding("disk", Health.WRONG, f"there is no folder {folder}", "make it, or name another")
            continue
        free = shutil.disk_usage(folder).free
        failure = _cannot_write(folder)
        if failure:
            yield Finding(
                "disk",
                Health.WRONG,
                f"nothing can be written to {folder}: {failure}",
                "free space, or rights to it",
            )
        elif free < FREE:
            few = f"only {free / 1e6:,.0f} MB are free in {folder}"
            yield Finding(
                "disk",
                Health.WRONG,
                few,
                f"free some: a log and checkpoints grow, {FREE / 1e6:,.0f} MB should be",
            )
        else:
            yield Finding("disk", Health.OK, f"{free / 1e9:,.1f} GB are free in {folder}")


def _cannot_write(folder: Path) -> str | None:
    """Why not even a small file can be written; None: it can."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tolerant-doctor-") as file:
            file.write(bytes(_WRITTEN))
            file.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def _parted(message: str) -> tuple[str, str]:
    """An error's message as what is wrong and what to do, which follows its first sentence."""
    what, _, to_do = message.partition(". ")
    return what, to_do or RESTORE
