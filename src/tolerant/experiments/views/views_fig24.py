"""[DISS], Figure 2.4: what pushing 1 to 400 changes of PartSupp and of Supplier costs, here by real delta joins on
Spark.

[DISS]'s database had indexes: Supplier's cost grew with the changes, PartSupp's hardly did. Spark reads the other
tables whole, so that both are mostly setup; what is judged is what the schedules need: that batches pay.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tolerant.experiments.harness.experiment import Chart, Experiment, Row, Verdict
from tolerant.experiments.workloads.delta_joins import CHANGING, DeltaJoins
from tolerant.views import Measured

LARGEST = 400
PAYS = 20.0
"""A batch of 400 must cost at most a 20th of 400 pushes of one."""


def grid(quick: bool) -> list[Row]:
    """Return the parameter sets: one set: the tables are loaded once."""
    return [{"scale": 0.05, "step": 399, "repeats": 2}] if quick else [{"scale": 1.0, "step": 57, "repeats": 3}]


def measure(parameters: Mapping[str, float | int | str]) -> list[Row]:
    """Measure seconds of every push."""
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    assert spark is not None
    sizes = list(range(1, LARGEST + 1, int(parameters["step"])))
    with tempfile.TemporaryDirectory() as folder:
        joins = DeltaJoins(spark, Path(folder), float(parameters["scale"]))
        joins.warm_up()
        return [
            {"table": table, "changes": size, "seconds": seconds}
            for _ in range(int(parameters["repeats"]))
            for table in CHANGING
            for size, seconds in joins.timed(table, sizes)
        ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Judge the claim: from the fitted costs."""
    findings, pays = [], []
    for table in CHANGING:
        own = [row for row in rows if row["table"] == table]
        cost = Measured([int(row["changes"]) for row in own], [float(row["seconds"]) for row in own])
        line = cost.linear()
        pays.append(LARGEST * cost(1) >= PAYS * cost(LARGEST))
        findings.append(
            f"{table} {line.setup:.2f} s + {1000 * line.slope:.2f} ms per change"
            f" ({LARGEST} at once {cost(LARGEST):.2f} s)"
        )
    return Verdict(all(pays), "; ".join(findings) + " ([DISS], with indexes: Supplier about linear, PartSupp flat)")


EXPERIMENT = Experiment(
    figure="[DISS], Figure 2.4",
    claim="pushes have a setup, so that batches pay, and tables differ",
    grid=grid,
    measure=measure,
    judge=judge,
    chart=Chart(x="changes", y="seconds", series="table", x_label="changes pushed", y_label="seconds"),
    in_driver=True,
)
