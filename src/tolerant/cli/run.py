"""`tolerant run FILE`: start the pipelines for a file of statements; run again, it goes on where it was."""

from __future__ import annotations

import signal
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from tolerant.cli.options import DEFAULT_LOG, ForSeconds, LogUri, any_log
from tolerant.cli.reporting import WRONG_CALL, CommandError, wrong_call
from tolerant.cli.sending import submit
from tolerant.client import missing, read, standing, subscribed
from tolerant.sql import StatementError
from tolerant.transport import PipelineLog


class Clock(StrEnum):
    """Who gives the pipelines time."""

    WALL = "wall"
    LOG = "log"


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of statements.")],
    log: LogUri = DEFAULT_LOG,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where checkpoints are kept; default: beside the log.")
    ] = None,
    master: Annotated[str, typer.Option(metavar="M", help="Any Spark master.")] = "local[2]",
    trigger: Annotated[
        str, typer.Option(metavar="T", help="How often a batch begins, '200 ms' say; 0: when the last is done.")
    ] = "0",
    seconds: ForSeconds = None,
    clock: Annotated[
        Clock, typer.Option(help="wall: time is what this machine's clock says; log: what a replay in trace time says.")
    ] = Clock.WALL,
) -> None:
    """Start the pipelines for a file of statements; those that the log holds already change nothing. Ctrl-C ends."""
    interval = _trigger(trigger)
    with_log = any_log(log)
    try:
        _register(with_log, file)
        _serve(with_log, checkpoint or _beside(log), master, interval, clock, seconds)
    finally:
        with_log.close()


def _register(log: PipelineLog, file: Path) -> None:
    """Append those statements of the file that the log does not hold."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wrong_call(f"{file} cannot be read: {error}")
    try:
        fresh = missing(log, read(log, text), file.parent)
    except StatementError as error:
        place = f"{file}:{error.line}:{error.column}: " if error.line is not None else f"{file}: "
        hint = f"hint: {error.hint}" if error.hint else ""
        told = "\n".join(part for part in (place + error.reason, error.excerpt, hint) if part)
        raise CommandError(told, WRONG_CALL) from error
    held = subscribed(log)
    for statement in fresh:
        if statement not in held:
            submit(log, statement, file.parent)
    catalogue = standing(log)
    if not catalogue.streams and not catalogue.queries:
        wrong_call(f"there is nothing to run: neither {file} nor the log has a CREATE STREAM or a query over a table")


def _serve(log: PipelineLog, folder: Path, master: str, trigger: str, clock: Clock, seconds: float | None) -> None:
    from tolerant.spark.java import JavaNotFound
    from tolerant.spark.runner import PipelineFailed, Runner

    console = Console(stderr=True)
    runner = Runner(log, folder, master=master, trigger=trigger, clock="wall" if clock is Clock.WALL else "log")
    signals = _Signals(runner.stop)
    signals.hold()
    try:
        with console.status("Starting Spark") as status:

            def ready(streams: list[str]) -> None:
                signals.hold()
                console.print(f"Running {', '.join(streams)} on {log.uri}, checkpoints in {folder}. Ctrl-C ends.")
                status.update("Running")

            with runner:
                runner.run(seconds, ready)
                status.update("Finishing the batch under way")
    except (PipelineFailed, JavaNotFound) as error:
        raise CommandError(str(error)) from error
    finally:
        signals.release()
        _end_spark()


def _end_spark() -> None:
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


class _Signals:
    """While it is held, Ctrl-C and SIGTERM call `stop`; a second one ends the process at once."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def hold(self) -> None:
        """Take the signals; again after Spark has started, which takes Ctrl-C for itself."""
        for number in self._before:
            signal.signal(number, self._handle)

    def release(self) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.release()
        self._stop()


def _beside(uri: str) -> Path:
    """The checkpoints of an embedded log stand beside its file."""
    return Path(f"{uri.removeprefix('sqlite:///')}.checkpoint")


def _trigger(text: str) -> str:
    """A duration as Spark writes it."""
    from tolerant.sql.durations import read_duration

    if text.strip() == "0":
        return "0 seconds"
    try:
        return f"{read_duration(text) // 1000} milliseconds"
    except ValueError as error:
        wrong_call(f"--trigger: {error}")
