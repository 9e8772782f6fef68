"""The door: `tolerant COMMAND`, one file a command.

Exit codes: 0 done, 1 the work failed (and it was said why), 2 the call was wrong. A command's module is imported when
the command is called, or its own help or its options' completion is asked for: the others answer at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from tolerant import __version__

__all__ = ["COMMANDS", "app", "main"]

COMMANDS = {
    "run": "Start the pipelines for a file of statements",
    "sql": "Send a statement to the running pipeline and wait for its reply",
    "status": "Show how the streams and their sources are doing",
    "watch": "Show the answers of a query",
    "explain": "Show where a query's tolerance goes",
    "refresh": "Bring a view up to date",
    "plan": "Print and draw a query's plan",
    "demo": "Run source processes, queries and a pipeline on generated traffic",
    "replay": "Offer a recorded trace to a stream",
    "poll": "Pull the items that the queries over a polled stream need",
    "aggregate": "Hold the items of an aggregator within its bounds",
    "agent": "Offer this host's metrics to a stream",
    "dead": "Show the rows that could not be used",
    "doctor": "Check Python, Java, Spark, extras, log, checkpoints, clocks, ports and disk",
    "reproduce": "Run a figure of a paper again",
    "log backup": "Copy the log into a file",
    "log verify": "Check every page, checksum and position of the log",
}
"""Each command and its line in the list of commands: how the docstring of its function begins. `log verify` is the
function `verify` of the module `tolerant.cli.log`, a command of one word the function and the module of that name.
"""

_FEEDING = ("agent", "aggregate", "poll", "replay")
"""The commands that run beside the data."""


class LazyGroup(TyperGroup):
    """Commands that are listed from `COMMANDS` and imported when they are resolved."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """See `TyperGroup.resolve_command`; the command is the one of the module."""
        name, command, rest = super().resolve_command(ctx, args)
        path = name if self.name == app.info.name else f"{self.name} {name}"
        return name, load(path) if path in COMMANDS else command, rest


_LOOK = {"no_args_is_help": True, "rich_markup_mode": None, "pretty_exceptions_enable": False}

app = typer.Typer(name="tolerant", cls=LazyGroup, **_LOOK)  # type: ignore[arg-type]
log_app = typer.Typer(name="log", cls=LazyGroup, help="Back up the log, or check all of it.", **_LOOK)  # type: ignore[arg-type]


def load(path: str) -> Any:
    """Return a command of `COMMANDS`, with its module imported."""
    module, function = path.split()[0], path.split()[-1]
    if module in _FEEDING:
        import_module("tolerant.edge.arrow_memory")
    from tolerant.cli.reporting import reported

    single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    single.command(function)(reported(getattr(import_module(f"tolerant.cli.{module}"), function)))
    return get_command(single)


def _listed() -> None:
    """Stand for a command in the list of commands: `LazyGroup` calls the command itself."""


for _path, _line in COMMANDS.items():
    _group = log_app if _path.startswith("log ") else app
    _group.command(_path.split()[-1], short_help=f"{_line}.")(_listed)
app.add_typer(log_app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tolerant {__version__}")
        raise typer.Exit


@app.callback()
def _anything(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Standing queries with a stated tolerance: every answer as right as you asked, with the fewest messages."""


def main() -> None:
    """The program `tolerant`."""
    app()
