"""`tolerant replay FILE --stream NAME`: a recorded trace, offered as if it happened now, or in trace time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import Progress

from tolerant.cli.options import DEFAULT_LOG, ForSeconds, Json, LogUri, SenderName, StreamName, existing_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.text import Screen, shown, visible
from tolerant.client import load_catalogue
from tolerant.sql.durations import duration_text
from tolerant.streams import Stream
from tolerant.traces import spacing
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import alive

PATIENT = 2.0
"""Seconds that a pipeline may stand still before that is said."""


def replay(
    file: Annotated[Path, typer.Argument(help="A trace, .csv or .parquet: columns at, item, value, or one an item.")],
    stream: StreamName,
    log: LogUri = DEFAULT_LOG,
    speed: Annotated[
        str,
        typer.Option(metavar="N", help="So many times as fast as it happened; max: in trace time, as fast as it goes."),
    ] = "1",
    seconds: ForSeconds = None,
    name: SenderName = None,
    as_json: Json = False,
) -> None:
    """Offer a recorded trace to a stream. With --speed max the pipeline must run with --clock log."""
    from tolerant.edge import SourceError
    from tolerant.edge import replay as play

    if not file.is_file():
        wrong_call(f"there is no file {file}")
    pace = _speed(speed)
    with_log = existing_log(log)
    console = Screen(stderr=True)
    try:
        definition = load_catalogue(with_log).streams.get(stream)
        if definition is not None:
            console.print(shown(assumed_tick(file, definition, pace)))
        if pace != "max" and definition is not None and not alive(with_log, stream, wall_clock()):
            console.print(f"No pipeline runs {shown(stream)} yet: `tolerant run` will find the values in the log.")
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task(f"Replaying {shown(file.name)}", total=None)
            done = play(
                file,
                stream,
                with_log,
                pace,
                seconds,
                name=name,
                each=lambda tick, ticks: progress.update(
                    task, completed=tick, total=ticks, description=f"Replaying {shown(file.name)}"
                ),
                waiting=_announced(console, lambda text: progress.update(task, description=text)),
            )
    except ValueError as error:
        wrong_call(str(error))
    except (LookupError, SourceError) as error:
        raise CommandError(str(error)) from error
    finally:
        with_log.close()
    if as_json:
        typer.echo(json.dumps(vars(done)))
    else:
        lost = "" if done.followed else "; no pipeline has followed: `tolerant run` will find them in the log"
        typer.echo(visible(f"{done.ticks:,} ticks, {done.values:,} values offered to {stream}{lost}"))


def assumed_tick(file: Path, stream: Stream, speed: float | Literal["max"]) -> str:
    """Which tick of the stream a row of the file is taken for, against the file's own spacing."""
    tick = duration_text(stream.options.tick)
    own = spacing(file)
    if own is None:
        known = f"each tick of {file.name} is taken for one of {stream.name}, {tick} (the file has no timestamps)"
    elif own == stream.options.tick:
        known = f"each tick of {file.name} is one of {stream.name}, {tick}"
    else:
        known = (
            f"each tick of {file.name} is taken for one of {stream.name}, {tick}, though they are {duration_text(own)} "
            f"apart; CREATE STREAM … WITH (tick = '{duration_text(own)}') would keep the file's own time"
        )
    return known if speed in ("max", 1) else f"{known}, offered {speed:g} times as fast"


def _announced(console: Screen, show: Callable[[str], None]) -> Callable[[float], None]:
    """Shows that the pipeline is waited for; the first time in a line that stays."""
    lines: list[str] = []

    def waiting(seconds: float) -> None:
        if seconds < PATIENT:
            return
        if not lines:
            lines.append("Waiting for the pipeline; is `tolerant run --clock log` running? It may be starting.")
            console.print(lines[0])
        show(f"Waiting for the pipeline, {seconds:.0f} s")

    return waiting


def _speed(text: str) -> float | Literal["max"]:
    if text == "max":
        return "max"
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        wrong_call(f"--speed must be a positive number or max, got {text!r}")
    return speed
