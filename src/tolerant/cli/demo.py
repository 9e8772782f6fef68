"""`tolerant demo`: all of it at once on generated traffic, about a minute."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import typer
from rich.live import Live

from tolerant.cli.extras import need_extra
from tolerant.cli.options import Json, Master, Out
from tolerant.cli.reporting import FAILED, CommandError
from tolerant.cli.text import Screen, shown
from tolerant.transport.files import make_private_folder

if TYPE_CHECKING:
    from tolerant.demo.pipeline import DemoPipeline
    from tolerant.demo.run import Outcome
    from tolerant.demo.traffic import Shape


def demo(
    out: Out = Path("out/demo"),
    master: Master = "local[2]",
    as_json: Json = False,
) -> None:
    """Run source processes, queries and a pipeline on generated traffic; count messages, check every promise."""
    need_extra("spark", "the demo")
    need_extra("pictures", "the demo")
    from tolerant.demo.pipeline import DemoPipeline
    from tolerant.demo.traffic import Shape

    folder, shape = out / "run", Shape()
    shutil.rmtree(folder, ignore_errors=True)
    make_private_folder(folder)
    # First of all, since it takes longest: the rest gets ready meanwhile.
    pipeline = DemoPipeline(folder, master, shape)
    try:
        outcome = _perform(folder, shape, pipeline, Screen(stderr=as_json), as_json)
    except RuntimeError as error:
        raise CommandError(str(error)) from error
    finally:
        pipeline.stop()
    from tolerant.demo.report import record, save
    from tolerant.demo.view import costs_table

    data, picture = save(outcome, out)
    if as_json:
        typer.echo(json.dumps(record(outcome)))
    else:
        console = Screen()
        console.print(costs_table(outcome.costs, outcome.audit))
        console.print(f"First answer after {outcome.first_answer:.1f} s, {outcome.seconds:.1f} s in all.")
        console.print(
            f"Written: {shown(picture)}, {shown(data)}; the log is sqlite:///{folder / 'log.db'}", soft_wrap=True
        )
    if outcome.audit.violations:
        raise typer.Exit(FAILED)


def _perform(folder: Path, shape: Shape, pipeline: DemoPipeline, console: Screen, transient: bool) -> Outcome:
    from tolerant.demo.run import perform
    from tolerant.demo.view import live

    # From the start of the process: what the imports take is part of the wait.
    began = psutil.Process().create_time()
    with Live(console=console, refresh_per_second=4, transient=transient) as screen:
        return perform(
            folder, shape, lambda log: pipeline, began=began, show=lambda moment: screen.update(live(moment))
        )
