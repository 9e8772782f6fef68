"""`tolerant run FILE`: starts the pipelines for a file of statements; run again, it continues where it stopped."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from tolerant.cli.extras import need_extra
from tolerant.cli.options import DEFAULT_LOG, Checkpoint, ForSeconds, LogUri, Master, any_log, beside
from tolerant.cli.reporting import WRONG_CALL, CommandError, wrong_call
from tolerant.cli.statement_output import submit
from tolerant.cli.text import Screen, shown, visible
from tolerant.client import Comparison, StatementClient
from tolerant.sql import LocalStatement, Show, Statement, StatementError, parse_many
from tolerant.sql.sql_text import number as number_text
from tolerant.transport import PipelineLog
from tolerant.transport.files import private_umask
from tolerant.transport.versions import sqlite_warning


class Clock(StrEnum):
    """Who gives the pipelines time."""

    WALL = "wall"
    LOG = "log"


def run(  # noqa: PLR0913
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file of statements.")],
    log: LogUri = DEFAULT_LOG,
    checkpoint: Checkpoint = None,
    master: Master = "local[2]",
    trigger: Annotated[
        str, typer.Option(metavar="T", help="How often a batch begins, '200 ms' say; 0: when the last is done.")
    ] = "0",
    seconds: ForSeconds = None,
    clock: Annotated[
        Clock, typer.Option(help="wall: time is what this machine's clock says; log: what a replay in trace time says.")
    ] = Clock.WALL,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Continue pipelines that another process runs; that process ends.")
    ] = False,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Bring the log to the file: alter tolerances back, replace queries that differ."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print how long each step of the start takes.")] = False,
) -> None:
    """Start the pipelines for a file of statements; those that the log holds already change nothing. Ctrl-C ends."""
    need_extra("spark", "a pipeline")
    interval = _trigger(trigger)
    with_log = any_log(log)
    try:
        _register(with_log, file, apply)
        with private_umask():
            _serve(with_log, checkpoint or beside(log), master, interval, clock, seconds, take_over, verbose)
    finally:
        with_log.close()


def _register(log: PipelineLog, file: Path, apply: bool = False) -> None:
    """Append those statements of the file that the log does not hold, and say where the two differ."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        wrong_call(f"{file} cannot be read: {error}")
    try:
        _refuse_changes(parse_many(text))
        client = StatementClient(log)
        comparison = client.compare(text, file.parent, apply)
    except StatementError as error:
        place = f"{file}:{error.line}:{error.column}: " if error.line is not None else f"{file}: "
        hint = f"hint: {error.hint}" if error.hint else ""
        message = "\n".join(part for part in (place + error.reason, error.excerpt, hint) if part)
        raise CommandError(message, WRONG_CALL) from error
    _report(file, comparison)
    subscribed = client.subscribed()
    for statement in comparison.to_send:
        if statement not in subscribed:
            submit(client, statement, file.parent)
    catalogue = client.catalogue()
    if not catalogue.streams and not catalogue.queries:
        wrong_call(f"there is nothing to run: neither {file} nor the log has a CREATE STREAM or a query over a table")


def _refuse_changes(statements: list[Statement]) -> None:
    """Raise StatementError at an INSERT, DELETE or SELECT: the file is run again at every start."""
    for statement in statements:
        if isinstance(statement, LocalStatement) and not isinstance(statement, Show):
            raise StatementError(
                f"{statement.kind.upper()} is not for a file that is run again at every start",
                expected="CREATE, ALTER, DROP, SUBSCRIBE or UNSUBSCRIBE",
                found=statement.kind.upper(),
                hint="say it once with `tolerant sql`; a table begins with the rows of a file: CREATE TABLE … FROM",
                line=statement.line,
                column=statement.column,
            )


def _report(file: Path, comparison: Comparison) -> None:
    """Say which tolerances have been altered since the file was written."""
    for difference in comparison.altered:
        wanted, current = map(number_text, difference.tolerances or ())
        text = (
            f"query {difference.wanted.about}: {file} says WITHIN {wanted}, the log WITHIN {current} since an ALTER; "
            f"going on with WITHIN {current} (--apply alters it to WITHIN {wanted})"
        )
        typer.echo(visible(text), err=True)


def _serve(
    log: PipelineLog,
    folder: Path,
    master: str,
    trigger: str,
    clock: Clock,
    seconds: float | None,
    take_over: bool,
    verbose: bool,
) -> None:
    from tolerant.spark.java import JavaNotFound
    from tolerant.spark.occupancy import PipelineRuns
    from tolerant.spark.runner import PipelineFailed, Runner

    console = Screen(stderr=True)
    if warning := sqlite_warning():
        console.print(shown(warning))
    begun = time.monotonic()

    def tell(text: str) -> None:
        console.print(f"{time.monotonic() - begun:5.1f} s  {text}", markup=False, highlight=False)

    if verbose:
        _tell_steps(tell)
    runner = Runner(
        log,
        folder,
        master=master,
        trigger=trigger,
        clock="wall" if clock is Clock.WALL else "log",
        take_over=take_over,
        tell=tell,
    )

    def stop() -> None:
        runner.stop()
        console.print("Ending: the batch under way is finished first, for up to 30 s. Again: ends at once.")

    signals = _Signals(stop)
    signals.hold()
    try:
        with console.status("Starting") as status:

            def ready(streams: list[str]) -> None:
                tell(f"Running {', '.join(streams)} on {log.uri}, checkpoints in {folder}. Ctrl-C ends.")
                status.update("Running")

            with runner:
                runner.run(seconds, ready)
                status.update("Finishing the batch under way")
    except (PipelineFailed, PipelineRuns, JavaNotFound) as error:
        raise CommandError(str(error)) from error
    finally:
        signals.release()
        _end_spark()


def _tell_steps(tell: Callable[[str], None]) -> None:
    """Let `tell` have what the package logs."""
    handler, logger = logging.Handler(), logging.getLogger("tolerant")
    handler.emit = lambda record: tell(f"  {record.getMessage()}")  # type: ignore[method-assign]
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


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
        """Take the signals."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may
        for number in self._before:
            signal.signal(number, self._handle)

    def release(self) -> None:
        """Give them back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.release()
        self._stop()


def _trigger(text: str) -> str:
    """A duration as Spark writes it."""
    from tolerant.sql.durations import read_duration

    if text.strip() == "0":
        return "0 seconds"
    try:
        return f"{read_duration(text) // 1000} milliseconds"
    except ValueError as error:
        wrong_call(f"--trigger: {error}")
