"""Options that several commands take, and the log that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.transport import PipelineLog, open_log

DEFAULT_LOG = "sqlite:///tolerant.db"

LogUri = Annotated[
    str, typer.Option("--log", envvar="TOLERANT_LOG", metavar="URI", help="The log: sqlite:///path/to/log.db")
]
Json = Annotated[bool, typer.Option("--json", help="For programs: JSON instead of a table.")]
ForSeconds = Annotated[
    float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="End by itself after so many seconds.")
]


def any_log(uri: str) -> PipelineLog:
    """The log at this URI, made if it is not there yet: what `tolerant run` begins with."""
    return _opened(uri, create=True)


def existing_log(uri: str) -> PipelineLog:
    """The log at this URI; no command but `tolerant run` makes one."""
    path = uri.removeprefix("sqlite:///")
    if path != uri and not Path(path).exists():
        raise CommandError(f"there is no log at {uri}; `tolerant run FILE` makes one, --log names another")
    return _opened(uri, create=False)


def _opened(uri: str, create: bool) -> PipelineLog:
    try:
        return open_log(uri, create)
    except ValueError as error:
        wrong_call(str(error))
