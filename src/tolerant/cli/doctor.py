"""`tolerant doctor`: checks what a command needs on this machine, and says what to do about each finding."""

from __future__ import annotations

import json
from dataclasses import asdict

import typer
from rich.table import Table

from tolerant.cli.health import Finding, Health, examine
from tolerant.cli.options import DEFAULT_LOG, Checkpoint, Json, NamedLog, beside
from tolerant.cli.reporting import FAILED
from tolerant.cli.text import Screen, shown

_COLOURS = {Health.OK: "green", Health.NOTE: "yellow", Health.WRONG: "red"}


def doctor(log: NamedLog = None, checkpoint: Checkpoint = None, as_json: Json = False) -> None:
    """Check Python, Java, Spark, extras, log, checkpoints, clocks, ports and disk (exit code 1: something is wrong)."""
    uri = log or DEFAULT_LOG
    findings = list(examine(uri, log is not None, checkpoint or beside(uri)))
    wrong = [finding for finding in findings if finding.state is Health.WRONG]
    if as_json:
        typer.echo(json.dumps({"healthy": not wrong, "findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
        count = "1 thing is" if len(wrong) == 1 else f"{len(wrong)} things are"
        typer.echo(f"{count} wrong." if wrong else "Nothing is wrong.")
    if wrong:
        raise typer.Exit(FAILED)


def _show(findings: list[Finding]) -> None:
    table = Table("check", "", "finding", box=None)
    for finding in findings:
        what = shown(finding.what) + (f"\n→ {shown(finding.to_do)}" if finding.to_do else "")
        table.add_row(finding.check, f"[{_COLOURS[finding.state]}]{finding.state}[/]", what)
    Screen().print(table)
