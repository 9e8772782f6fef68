"""`tolerant agent`: this host's own metrics (packets, bytes, CPU, memory, disk) as items of a stream."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated

import typer
from rich.live import Live
from rich.table import Table

from tolerant.cli.options import DEFAULT_LOG, ForSeconds, Json, LogUri, StreamName, existing_log
from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.cli.text import Screen, shown


def agent(
    stream: StreamName = "hosts",
    log: LogUri = DEFAULT_LOG,
    interval: Annotated[float, typer.Option(metavar="SECONDS", min=0.01, help="Seconds between two readings.")] = 1.0,
    seconds: ForSeconds = None,
    host: Annotated[str | None, typer.Option(metavar="NAME", help="Another name for this host.")] = None,
    as_json: Json = False,
) -> None:
    """Offer this host's metrics to a stream until Ctrl-C; what is sent, the filters decide.

    The stream has the key (host STRING, metric STRING).
    """
    from tolerant.edge import SourceError, run_agent

    with_log = existing_log(log)
    try:
        with contextlib.ExitStack() as stack:
            live = None if as_json else stack.enter_context(Live(console=Screen(stderr=True), auto_refresh=False))

            def each(reading: dict[str, float]) -> None:
                if live is None:
                    typer.echo(json.dumps(reading))
                else:
                    live.update(_table(stream, reading), refresh=True)

            stack.enter_context(contextlib.suppress(KeyboardInterrupt))
            run_agent(with_log, stream, interval, seconds, host=host, each=each)
    except ValueError as error:
        wrong_call(str(error))
    except (LookupError, SourceError) as error:
        raise CommandError(str(error)) from error
    finally:
        with_log.close()


def _table(stream: str, reading: dict[str, float]) -> Table:
    table = Table("metric", "value", title=f"offered to {shown(stream)}")
    for metric, value in reading.items():
        table.add_row(shown(metric), f"{value:,.1f}")
    return table
