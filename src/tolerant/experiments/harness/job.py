"""The Spark job: one task a parameter set, rows back in the order of the grid."""

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
"""Told how many parameter sets are done, and how many there are."""


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
    rows = (_one_by_one if experiment.in_driver else _measure)(spark, name, grid, progress)
    return Result(
        name=name,
        experiment=experiment,
        quick=quick,
        rows=rows,
        verdict=experiment.judge(rows),
        seconds=time.perf_counter() - start,
    )


def _one_by_one(spark: SparkSession, name: str, grid: list[Row], progress: Progress) -> list[Row]:
    """In the driver, where the session is the active one."""
    measure, rows = load(name).measure, list[Row]()
    for number, parameters in enumerate(grid):
        progress(number, len(grid))
        rows += [dict(row) for row in measure(parameters)]
    progress(len(grid), len(grid))
    return rows


def _measure(spark: SparkSession, name: str, grid: list[Row], progress: Progress) -> list[Row]:
    def work(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd  # slow to import, and who only lists experiments has no use for it

        measure = load(name).measure
        for frame in frames:
            for number, parameters in zip(frame["number"], frame["parameters"], strict=True):
                found = [dict(row) for row in measure(json.loads(parameters))]
                yield pd.DataFrame({"number": [number], "rows": [json.dumps(found)]})

    sets = [(number, json.dumps(parameters)) for number, parameters in enumerate(grid)]
    frame = spark.createDataFrame(sets, "number int, parameters string")
    # By range, so that no two sets share a task by the accident of a hash.
    job = frame.repartitionByRange(len(sets), "number").mapInPandas(work, "number int, rows string")
    with _Watch(spark, len(sets), progress):
        collected = {record["number"]: json.loads(record["rows"]) for record in job.collect()}
    return [row for number in range(len(sets)) for row in collected[number]]


class _Watch:
    """Reports finished tasks while the driver's thread is held by `collect`."""

    def __init__(self, spark: SparkSession, total: int, progress: Progress) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total = total
        self._progress = progress
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)

    def __enter__(self) -> None:
        self._progress(0, self._total)
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()
        if error[0] is None:
            self._progress(self._total, self._total)

    def _follow(self) -> None:
        while not self._stop.wait(0.3):
            infos = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            done = [info.numCompletedTasks for info in infos if info is not None and info.numTasks == self._total]
            if done:
                self._progress(max(done), self._total)
