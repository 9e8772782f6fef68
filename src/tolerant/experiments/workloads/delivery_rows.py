"""Measures the approaches of [DISS], chapter 5, on one workload and formats their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.workloads.changing_ranges import ChangingTable, Floats
from tolerant.notifications import simulate

Parameters = Mapping[str, float | int | str]


def delivered(
    parameters: Parameters,
    table: ChangingTable,
    watched: tuple[Floats, Floats],
    approaches: Sequence[str],
    **options: Any,
) -> list[Row]:
    """Return one row per approach: messages, bytes and subscriptions per event."""
    rows: list[Row] = []
    for approach in approaches:
        run = simulate(table.rows, table.changes, watched, approach, **options)
        figures: Row = {
            "approach": approach,
            "messages": run.messages / run.changes,
            "bytes": run.bytes / run.changes,
            "max_stress": run.max_stress,
            "affected": run.affected / run.changes,
            "ignorable": run.ignorable / run.changes,
        }
        rows.append({**parameters, **figures})
    return rows


def series(rows: Sequence[Row], x: str, y: str, approach: str) -> list[float]:
    """Return the values of `y` of one approach, in the order of `x`."""
    chosen = [row for row in rows if row["approach"] == approach]
    return [float(row[y]) for row in sorted(chosen, key=lambda row: float(row[x]))]


def listed(values: Sequence[float], digits: int = 2) -> str:
    """Format numbers for a sentence."""
    return " ".join(f"{value:,.{digits}f}" for value in values)
