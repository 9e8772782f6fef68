"""What the experiments on seed 003, chapter 5, share: figures of several approaches over one workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.workloads.ranges import Changes, Floats
from tolerant.notifications import simulate

Parameters = Mapping[str, float | int | str]


def delivered(
    parameters: Parameters, table: Changes, watched: tuple[Floats, Floats], approaches: Sequence[str], **options: Any
) -> list[Row]:
    """A row for each approach: what it takes, by event."""
    rows: list[Row] = []
    for approach in approaches:
        run = simulate(table.rows, table.changes, watched, approach, **options)
        found: Row = {
            "approach": approach,
            "messages": run.messages / run.changes,
            "bytes": run.bytes / run.changes,
            "max_stress": run.max_stress,
            "affected": run.affected / run.changes,
            "ignorable": run.ignorable / run.changes,
        }
        rows.append({**parameters, **found})
    return rows


def series(rows: Sequence[Row], x: str, y: str, approach: str) -> list[float]:
    """The values of `y` of one approach, in the order of `x`."""
    chosen = [row for row in rows if row["approach"] == approach]
    return [float(row[y]) for row in sorted(chosen, key=lambda row: float(row[x]))]


def told(values: Sequence[float], digits: int = 2) -> str:
    """Numbers as a sentence has them."""
    return " ".join(f"{value:,.{digits}f}" for value in values)
