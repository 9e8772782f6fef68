"""`tolerant reproduce NAME`: run a figure of a paper again on Spark and print whether its claim is reproduced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from tolerant.cli.extras import need_extra
from tolerant.cli.options import Json, Master, Out
from tolerant.cli.reporting import FAILED, wrong_call
from tolerant.cli.text import Screen


def reproduce(
    name: Annotated[str, typer.Argument(help="The experiment; --list says which there are.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="A small run that shows that it works.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
    out: Out = Path("out"),
    master: Master = "local[*]",
    as_json: Json = False,
) -> None:
    """Run a figure of a paper again and print whether its claim is reproduced (exit code 1 if not)."""
    from tolerant.experiments import load, names, run

    if listed:
        _list(names())
        return
    if name not in names():
        wrong_call(f"no experiment is called {name!r}; there are: {', '.join(names())}")
    need_extra("spark", "an experiment")
    need_extra("pictures", "an experiment")
    from tolerant.spark.session import session

    console = Screen(stderr=True)
    with console.status("Starting Spark"):
        spark = session(master, app=f"reproduce {name}")
    try:
        with Progress(
            *Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeElapsedColumn(), console=console
        ) as progress:
            task = progress.add_task(load(name).figure, total=None)
            result = run(
                name,
                spark,
                quick=quick,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
            )
    finally:
        spark.stop()
    data, picture = result.save(out)
    if as_json:
        typer.echo(json.dumps(result.record()))
    else:
        typer.echo(f"{result.experiment.figure}: {result.experiment.claim}")
        typer.echo(str(result.verdict))
        typer.echo(f"written: {data}, {picture}")
    if not result.verdict.reproduced:
        raise typer.Exit(FAILED)


def _list(experiments: list[str]) -> None:
    from tolerant.experiments import load

    for name in experiments:
        experiment = load(name)
        typer.echo(f"{name}\t{experiment.figure}: {experiment.claim}")
