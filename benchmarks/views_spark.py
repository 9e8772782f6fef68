"""A view kept on Spark: each table pushed in its own time against everything pushed whenever the limit is reached.

    python benchmarks/views_spark.py [--scale 2.5] [--ticks 60] [--pulls 120]

The view of [DISS], chapter 2 (the least supply cost of a region over PartSupp, Supplier, Nation and Region of TPC-H;
`tpchgen-cli` makes the tables if it is installed). Pushes are real delta joins. First the costs of pushes are timed and
fitted, after some for practice; the limit is 0.8 × the sum of the setups. Then both ways get the same changes, one of
each table a tick, tick by tick in turn, so that what else the machine does strikes both alike: the ratio of what they
spend. After that the view that is pushed table by table continues, and at some ticks, drawn at random, somebody asks
for it after the tick's pushes: each refresh is timed against the limit, until there were as many pulls as were wanted.
At the end both views must be what the tables say.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tolerant.experiments.workloads.delta_joins import CHANGING, DeltaJoins
from tolerant.spark.session import session
from tolerant.views import Measured, Scheduler
from tolerant.views.capacity import MARGIN

SIZES = (1, 5, 20, 50, 100)
LIMIT = 0.8
METHODS = ("naive", "forecast")
ASKED = 0.3
"""The chance that somebody asks, a tick."""


class Way:
    """One way to keep the view, with what it spent."""

    def __init__(self, joins: DeltaJoins, costs: list[Measured], limit: float, method: str) -> None:
        self.joins, self.limit = joins, limit
        self.scheduler = Scheduler(costs, limit, method, margin=MARGIN)
        self.pushes, self.seconds = [0] * len(CHANGING), 0.0
        self.pulls: list[tuple[int, float]] = []  # (tables that had changes, seconds)
        self.over: list[float] = []  # what each push took over what it was predicted to take
        self.limits: list[float] = []  # the working limit at each tick, over the limit

    def tick(self, asked: bool) -> None:
        """A change of each table comes; what is due is pushed; somebody may ask."""
        for table in CHANGING:
            self.joins.change(table, 1)
        self.limits.append(self.scheduler.working_limit / self.limit)
        self.push(self.scheduler.arrive([1] * len(CHANGING)))
        if asked:
            self.pulls.append(self.push(self.scheduler.refresh()))

    def push(self, places: tuple[int, ...]) -> tuple[int, float]:
        """Push these tables; how many, and the seconds that they took."""
        took = 0.0
        for place in places:
            done, seconds = self.joins.push([CHANGING[place]])
            rows = done.rows[CHANGING[place]] // 2  # a change is a row that goes and one that comes
            self.over.append(seconds / self.scheduler.costs[place](rows))
            self.scheduler.pushed(place, rows, seconds)
            self.pushes[place] += 1
            took += seconds
        self.seconds += took
        return len(places), took

    def result(self) -> dict[str, object]:
        """How its pulls went."""
        took = [seconds for _, seconds in self.pulls]
        late = [round(seconds, 3) for seconds in took if seconds > self.limit]
        busy = [seconds for tables, seconds in self.pulls if tables]
        return {
            "pulls": len(took),
            "with_work": len(busy),
            "in_time": 1 - len(late) / max(1, len(took)),
            "late": late,
            "median_with_work": round(float(np.median(busy)), 3) if busy else None,
            "slowest": round(max(took), 3) if took else None,
            "over_predicted": _quantiles(self.over),
            "working_limit": _quantiles(self.limits),
        }


def _quantiles(values: list[float]) -> list[float]:
    """The median and what 90, 99 and 100 of 100 stay within."""
    return [round(float(np.quantile(values, q)), 2) for q in (0.5, 0.9, 0.99, 1.0)]


def fitted(joins: DeltaJoins, repeats: int) -> list[Measured]:
    """The costs of both tables, timed in turn, so that what else the machine does strikes both alike."""
    timings: dict[str, list[tuple[int, float]]] = {table: [] for table in CHANGING}
    for _ in range(repeats):
        for table in CHANGING:
            timings[table] += joins.timed(table, SIZES)
    return [Measured(*map(list, zip(*timings[table], strict=True))) for table in CHANGING]


def compared(ways: dict[str, Way], ticks: int, end: float) -> int:
    """Let both ways have the same ticks, in turn, and come to an end; how many there were."""
    done = 0
    while done < ticks and time.monotonic() < end:
        done += 1
        for way in ways.values():
            way.tick(False)
    for way in ways.values():
        way.push(way.scheduler.refresh())
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=2.5)
    parser.add_argument("--ticks", type=int, default=60, help="of both ways, without pulls")
    parser.add_argument("--pulls", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--for", dest="seconds", type=float, default=1e9, help="end either part after so many seconds")
    arguments = parser.parse_args()
    spark = session("local[2]", app="views")
    with tempfile.TemporaryDirectory() as folder:
        joins = [DeltaJoins(spark, Path(folder) / name, arguments.scale) for name in ("naive", "own")]
        for one in joins:
            one.warm_up()
        load = [os.getloadavg()[0]]
        costs = fitted(joins[0], arguments.repeats)
        lines = [cost.linear() for cost in costs]
        limit = LIMIT * sum(line.setup for line in lines)
        ways = {method: Way(one, costs, limit, method) for method, one in zip(METHODS, joins, strict=True)}
        ticks = compared(ways, arguments.ticks, time.monotonic() + arguments.seconds)
        load.append(os.getloadavg()[0])
        spent = {name: round(way.seconds, 2) for name, way in ways.items()}
        pushes = {name: dict(zip(CHANGING, way.pushes, strict=True)) for name, way in ways.items()}
        own, rng, end = ways["forecast"], np.random.default_rng(7), time.monotonic() + arguments.seconds
        while len(own.pulls) < arguments.pulls and time.monotonic() < end:
            own.tick(bool(rng.random() < ASKED))
        own.push(own.scheduler.refresh())
        load.append(os.getloadavg()[0])
        right = all(way.joins.view.rows() == [[way.joins.expected()]] for way in ways.values())
    spark.stop()
    setups = {
        table: {"setup": round(line.setup, 3), "ms_a_change": round(1000 * line.slope, 3)}
        for table, line in zip(CHANGING, lines, strict=True)
    }
    ratio = round(ways["naive"].seconds / spent["forecast"], 2)
    print(json.dumps({"scale": arguments.scale, "load": load, "ticks": ticks, "fitted": setups,
                      "limit": round(limit, 3), "ratio": ratio, "spent": spent, "pushes": pushes, "right": right,
                      **own.result()}, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
