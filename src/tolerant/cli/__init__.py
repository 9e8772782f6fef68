"""The door: `tolerant COMMAND`, one file a command.

Exit codes: 0 done, 1 the work failed (and it was said why), 2 the call was wrong. Heavy imports (Spark, plotting)
are made inside the commands that need them, so that the others answer at once.
"""

from __future__ import annotations

import typer

from tolerant.cli.agent import agent
from tolerant.cli.aggregate import aggregate
from tolerant.cli.dead import dead
from tolerant.cli.demo import demo
from tolerant.cli.explain import explain
from tolerant.cli.log import backup, verify
from tolerant.cli.plan import plan
from tolerant.cli.poll import poll
from tolerant.cli.refresh import refresh
from tolerant.cli.replay import replay
from tolerant.cli.reporting import reported
from tolerant.cli.reproduce import reproduce
from tolerant.cli.run import run
from tolerant.cli.sql import sql
from tolerant.cli.status import status
from tolerant.cli.watch import watch

__all__ = ["app", "main"]

COMMANDS = (run, sql, status, watch, explain, refresh, plan, demo, replay, poll, aggregate, agent, dead, reproduce)

app = typer.Typer(
    name="tolerant",
    help="Standing queries with a stated tolerance: every answer as right as you asked, with the fewest messages.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in COMMANDS:
    app.command()(reported(command))

log_app = typer.Typer(help="Back up the log, or check all of it.", no_args_is_help=True, rich_markup_mode=None)
log_app.command()(reported(backup))
log_app.command()(reported(verify))
app.add_typer(log_app, name="log")


@app.callback()
def _anything() -> None:
    """Standing queries with a stated tolerance: every answer as right as you asked, with the fewest messages."""


def main() -> None:
    """The program `tolerant`."""
    app()
