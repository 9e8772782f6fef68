"""`tolerant log backup FILE` and `tolerant log verify`: a copy of the log that is whole, and whether all of it is."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tolerant.cli.options import DEFAULT_LOG, Json, LogUri, existing_log
from tolerant.cli.reporting import FAILED, wrong_call
from tolerant.cli.text import visible
from tolerant.transport import SqliteLog


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write; it must not be there.")],
    log: LogUri = DEFAULT_LOG,
) -> None:
    """Copy the log into a file, also while it is in use, and check the copy."""
    opened = _file_log(log)
    try:
        copied = opened.backup(file)
    finally:
        opened.close()
    typer.echo(
        visible(f"{copied.entries:,} entries and {copied.records:,} records are in {file}, all of them checked.")
    )


def verify(log: LogUri = DEFAULT_LOG, as_json: Json = False) -> None:
    """Check every page, checksum and position of the log, also while it is in use (exit code 1: it is damaged)."""
    opened = _file_log(log)
    try:
        verified = opened.verify()
    finally:
        opened.close()
    if as_json:
        typer.echo(json.dumps(asdict(verified)))
    else:
        for finding in verified.findings:
            typer.echo(visible(finding))
        counts = f"{verified.entries:,} entries and {verified.records:,} records in {verified.topics:,} topics"
        damage = "whole" if not verified.findings else "damaged: restore a backup (`tolerant log backup` makes them)"
        typer.echo(f"{counts}, {verified.size:,} bytes: {damage}.")
    if verified.findings:
        raise typer.Exit(FAILED)


def _file_log(uri: str) -> SqliteLog:
    opened = existing_log(uri)
    if not isinstance(opened, SqliteLog):
        wrong_call(f"{uri} is no file: there is nothing to back up or verify")
    return opened
