"""`tolerant replay FILE --stream NAME`: a recorded trace, offered as if it happened now, or in trace time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import Progress

from tolerant.cli.options import DEFAULT_LOG, ForSeconds, Json, LogUri, any_log
from tolerant.cli.reporting import CommandError, wrong_call


def replay(
    file: Annotated[Path, typer.Argument(help="A trace, .csv or .parquet: columns at, item, value, or one an item.")],
    stream: Annotated[str, typer.Option("--stream", metavar="NAME", help="The stream that the values are offered to.")],
    log: LogUri = DEFAULT_LOG,
    speed: Annotated[
        str, typer.Option(help="So many times as fast as it happened; max: in trace time, as fast as it goes.")
    ] = "1",
    seconds: ForSeconds = None,
    name: Annotated[str | None, typer.Option(help="The source's name.")] = None,
    as_json: Json = False,
) -> None:
    """Offer a recorded trace to a stream. With --speed max the pipeline must run with --clock log."""
    from tolerant.edge import SourceError
    from tolerant.edge import replay as play

    if not file.is_file():
        wrong_call(f"there is no file {file}")
    pace = _speed(speed)
    with_log = any_log(log)
    try:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(f"Replaying {file.name}", total=None)
            done = play(
                file,
                stream,
                with_log,
                pace,
                seconds,
                name=name,
                each=lambda tick, ticks: progress.update(task, completed=tick, total=ticks),
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
        lost = "" if done.followed else "; no pipeline followed"
        typer.echo(f"{done.ticks:,} ticks, {done.values:,} values offered to {stream}{lost}")


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
