"""Runs an experiment as a Spark job: one task per parameter set, rows returned in the order of the grid."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.harness.registry import load
from tolerant.experiments.harness.result import Result

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

Progress = Callable[[int, int], None]
"""Called with the number of finished parameter sets and the number of all."""


def run(
    name: str, spark: SparkSession, *, quick: bool = False, progress: Progress = lambda done, total: None
) -> Result:
    """Measure every parameter set of the experiment on Spark and judge the rows.

    Raises:
        ValueError: no experiment has this name.
    """
    experiment = load(name)
    grid = list(experiment.grid(quick))
    start = time.perf_counter()
    rows = (_measure_in_driver if experiment.in_driver else _measure_on_workers)(spark, name, grid, progress)
    return Result(
        name=name,
        experiment=experiment,
        quick=quick,
        rows=rows,
        verdict=experiment.judge(rows),
        seconds=time.perf_counter() - start,
    )


def _measure_in_driver(spark: SparkSession, name: str, grid: list[Row], progress: Progress) -> list[Row]:
    """Measure in the driver, where the session is the active one."""
    measure, rows = load(name).measure, list[Row]()
    for number, parameters in enumerate(grid):
        progress(number, len(grid))
        rows += [dict(row) for row in measure(parameters)]
    progress(len(grid), len(grid))
    return rows


def _measure_on_workers(spark: SparkSession, name: str, grid: list[Row], progress: Progress) -> list[Row]:
    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd  # slow to import, and not needed to list experiments

        measure = load(name).measure
        for frame in frames:
            for number, parameters in zip(frame["number"], frame["parameters"], strict=True):
                rows = [dict(row) for row in measure(json.loads(parameters))]
                yield pd.DataFrame({"number": [number], "rows": [json.dumps(rows)]})

    sets = [(number, json.dumps(parameters)) for number, parameters in enumerate(grid)]
    frame = spark.createDataFrame(sets, "number int, parameters string")
    # By range: a hash could put two sets into one task.
    job = frame.repartitionByRange(len(sets), "number").mapInPandas(work, "number int, rows string")
    with _ProgressReporter(spark, len(sets), progress):
        collected = {record["number"]: json.loads(record["rows"]) for record in job.collect()}
    return [row for number in range(len(sets)) for row in collected[number]]


class _ProgressReporter:
    """Reports finished tasks from a thread of its own, while `collect` blocks the driver's."""

    def __init__(self, spark: SparkSession, total: int, progress: Progress) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total = total
        self._progress = progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._report, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._progress(0, self._total)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if error[0] is None:
            self._progress(self._total, self._total)

    def _report(self) -> None:
        while not self._stop.wait(0.3):
            infos = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            done = [info.numCompletedTasks for info in infos if info is not None and info.numTasks == self._total]
            if done:
                self._progress(max(done), self._total)
