"""[GR07], Figure 3: refreshes of a query against its bound, which should go as 1/C².

[GR07]'s bounds, 0.01 to 0.5, are in the unit of its prices, so that the least is some three moves of a query. Other
traces have the same bounds in moves: below that a query is refreshed at nearly every tick, whatever its bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.aggregator_networks import OTHERS, traces
from tolerant.experiments.workloads.single_part_plans import SinglePartQueries, ppmcc

STRAIGHT = 0.97
MOVE = 0.0032
"""Normalised move per tick of the median query over minute prices."""
SLOPES = (-2.1, -1.7)
"""Where the log-log slope must lie once the bound is 8 moves; below, refreshes saturate at one per tick."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: one set per trace: the bounds are swept inside, since they share the queries."""
    size: Row = (
        {"queries": 20, "ticks": 12_000, "bounds": 8} if quick else {"queries": 60, "ticks": 12_000, "bounds": 14}
    )
    return [{"trace": name, **size} for name in traces("minute prices", "walk", *(() if quick else OTHERS))]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure mean refreshes per query for normalised bounds from 0.01 to 0.5 in the unit of prices."""
    alone = SinglePartQueries(str(parameters["trace"]), int(parameters["queries"]), int(parameters["ticks"]))
    norms = [alone.norms(query) for query in alone.queries]
    move = float(np.median([r / n for r, n in norms])) / alone.trace.ticks
    unit = 1.0 if parameters["trace"] == "minute prices" else move / MOVE
    rows: list[Row] = []
    for bound in (unit * np.geomspace(0.01, 0.5, int(parameters["bounds"]))).tolist():
        counts = [alone.refreshes(query, bound * n) for query, (_, n) in zip(alone.queries, norms, strict=True)]
        row: Row = {"normalised_bound": bound, "inverse_square": bound**-2, "moves": bound / move}
        rows.append({**parameters, **row, "refreshes": float(np.mean(counts)), "series": "mean of the queries"})
    return rows


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: straight against 1/C², and of slope −2 on logarithmic axes where the bound is wide enough."""
    findings, holds = [], True
    for name in dict.fromkeys(str(row["trace"]) for row in rows):
        points = [row for row in rows if row["trace"] == name]
        straight = ppmcc([float(row["inverse_square"]) for row in points], [float(row["refreshes"]) for row in points])
        wide = [row for row in points if float(row["moves"]) >= 8 and float(row["refreshes"]) >= 1]
        bounds, counts = ([float(row[column]) for row in wide] for column in ("normalised_bound", "refreshes"))
        slope = float(np.polyfit(np.log(bounds), np.log(counts), 1)[0]) if len(wide) > 1 else float("nan")
        holds &= name in OTHERS or (straight >= STRAIGHT and SLOPES[0] <= slope <= SLOPES[1])
        findings.append(f"{name}: PPMCC with 1/C² {straight:.3f} (asked {STRAIGHT}), slope {slope:.2f} from 8 moves on")
        findings[-1] += " (not judged)" if name in OTHERS else ""
    return Verdict(holds, "; ".join(findings))


EXPERIMENT = Experiment(
    figure="[GR07], Figure 3",
    claim="the refreshes of a query are proportional to 1/C²",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(
        x="normalised_bound",
        y="refreshes",
        series="series",
        panel="trace",
        x_label="normalised bound C/N",
        y_label="mean refreshes per query",
        log_x=True,
        log_y=True,
    ),
)
