"""[GR07], §3.1 and Figure 2: refreshes against sumdiff, of single items and of queries.

At [GR07]'s normalised bound of 0.3 minute prices are refreshed five times in all; so the bound is a multiple of the
typical move, with 50 refreshes per query or more. Weather data and daily stocks are shown beside them, not judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.aggregator_networks import OTHERS, traces
from tolerant.experiments.workloads.single_part_plans import SinglePartQueries, ppmcc
from tolerant.queries import Aggregate

AT_LEAST = {"items": 0.9, "queries": 0.92}
"""The least correlation that reproduces the claim; [GR07] has 0.90 to 0.96 for items and 0.95 for queries."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: items and queries, at bounds of several typical moves, on every trace that is
    available.
    """
    names = traces("minute prices", "walk", *(() if quick else OTHERS))
    size: Row = {"queries": 60, "ticks": 12_000} if quick else {"queries": 200, "ticks": 12_000}
    return [
        {"trace": name, "kind": kind, "moves": moves, **size}
        for name in names
        for kind, bounds in (("items", (10,) if quick else (5, 10, 20, 30)), ("queries", (6,) if quick else (4, 6, 8)))
        for moves in bounds
    ]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure per item or query its normalised sumdiff and its refreshes."""
    alone = SinglePartQueries(str(parameters["trace"]), int(parameters["queries"]), int(parameters["ticks"]))
    queries = alone.queries
    if parameters["kind"] == "items":
        queries = [Aggregate.over(item, "sum", [item], 1.0) for item in alone.trace.items]
    norms = [alone.norms(query) for query in queries]
    bound = float(parameters["moves"]) * float(np.median([r / n for r, n in norms])) / alone.trace.ticks
    panel = f"{parameters['trace']}: {parameters['kind']}, bound of {parameters['moves']} moves"
    return [
        {**parameters, "panel": panel, "sumdiff": r / n, "refreshes": alone.refreshes(query, bound * n)}
        for query, (r, n) in zip(queries, norms, strict=True)
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: the correlation of every panel of prices and walks with enough refreshes; the others are
    reported.
    """
    findings, holds = [], True
    for panel in dict.fromkeys(str(row["panel"]) for row in rows):
        points = [row for row in rows if row["panel"] == panel]
        refreshes = [float(row["refreshes"]) for row in points]
        correlation = ppmcc([float(row["sumdiff"]) for row in points], refreshes)
        enough = float(np.mean(refreshes)) >= 50 and points[0].get("trace") not in OTHERS
        holds &= correlation >= AT_LEAST[str(points[0]["kind"])] or not enough
        findings.append(
            f"{panel}: {correlation:.2f} at {np.mean(refreshes):.0f} refreshes" + ("" if enough else " (not judged)")
        )
    return Verdict(
        holds, f"PPMCC (asked: items {AT_LEAST['items']}, queries {AT_LEAST['queries']}): " + "; ".join(findings)
    )


EXPERIMENT = Experiment(
    figure="[GR07], §3.1 and Figure 2",
    claim="the refreshes of an item or a query are proportional to its normalised sumdiff",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="sumdiff", y="refreshes", series="kind", panel="panel", x_label="normalised sumdiff"),
)
