"""Options that several commands take, and the log that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tolerant.cli.reporting import CommandError, wrong_call
from tolerant.transport import PipelineLog, open_log

DEFAULT_LOG = "sqlite:///tolerant.db"

_LOG = typer.Option("--log", envvar="TOLERANT_LOG", metavar="URI", help="The log: sqlite:///path/to/log.db.")
LogUri = Annotated[str, _LOG]
NamedLog = Annotated[str | None, _LOG]
"""For a command to which it matters whether somebody named the log."""
Json = Annotated[bool, typer.Option("--json", help="For programs: JSON instead of a table.")]
ForSeconds = Annotated[
    float | None, typer.Option("--for", metavar="SECONDS", min=0.0, help="End by itself after so many seconds.")
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.0, help="How long to wait for a reply.")]
Master = Annotated[str, typer.Option("--master", metavar="M", help="Any Spark master.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", file_okay=False, help="The checkpoints; default: beside the log."),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", file_okay=False, help="The folder for what the command writes.")
]
Picture = Annotated[
    Path | None, typer.Option("--picture", metavar="FILE", dir_okay=False, help="The PNG file to draw into.")
]
StreamName = Annotated[str, typer.Option("--stream", metavar="NAME", help="The stream.")]
OnlyStream = Annotated[
    str | None, typer.Option("--stream", metavar="NAME", help="The stream.", show_default="the only one")
]
SenderName = Annotated[
    str | None,
    typer.Option("--name", metavar="NAME", help="Who sends; keep it after a restart.", show_default="host and program"),
]


def beside(uri: str) -> Path:
    """Where the checkpoints of an embedded log are, unless --checkpoint says otherwise."""
    return Path(f"{uri.removeprefix('sqlite:///')}.checkpoint")


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
