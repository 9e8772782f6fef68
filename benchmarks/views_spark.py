"""A view kept on Spark: each table pushed in its own time against everything pushed whenever the limit is reached.

    python benchmarks/views_spark.py [--scale 0.1] [--ticks 60] [--pulls 120]

The view of seed 003, chapter 2 (the least supply cost of a region over PartSupp, Supplier, Nation and Region of TPC-H;
`tpchgen-cli` makes the tables if it is installed). Pushes are real delta joins. First the costs of pushes are timed and
fitted; the limit is 0.8 × the sum of the setups. Then both ways get the same changes, one of each table a tick, tick by
tick in turn, so that what else the machine does strikes both alike: the ratio of what they spend. After that the view
that is pushed table by table goes on, and at every other tick or so, after the tick's pushes, somebody asks for it:
each refresh is timed against the limit, until there were as many pulls as were wanted. At the end both views must be
what the tables say.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from tolerant.experiments.workloads.delta_joins import CHANGING, DeltaJoins
from tolerant.spark.session import session
from tolerant.spark.views.live import MARGIN
from tolerant.views import Measured, Scheduler

SIZES = (1, 5, 20, 50, 100)
LIMIT = 0.8
PRACTICE = 6
ASKED = 0.5
"""The chance that somebody asks, a tick."""


class Way:
    """One way to keep the view, with what it spent."""

    def __init__(self, joins: DeltaJoins, costs: list[Measured], limit: float, method: str) -> None:
        self.joins, self.limit = joins, limit
        self.scheduler = Scheduler(costs, limit, method, margin=MARGIN)
        self.pushes, self.seconds, self.pulls = [0, 0], 0.0, []
        self.over: list[float] = []  # what each push took over what it was predicted to take

    def tick(self, counts: tuple[int, int], asked: bool) -> None:
        """Changes come; what is due is pushed; somebody may ask."""
        for table, count in zip(CHANGING, counts, strict=True):
            self.joins.change(table, count)
        self._push(self.scheduler.arrive(counts))
        if asked:
            self.pulls.append(self._push(self.scheduler.refresh()))

    def _push(self, places: tuple[int, ...]) -> float:
        took = 0.0
        for place in places:
            done, seconds = self.joins.push([CHANGING[place]])
            rows = done.rows[CHANGING[place]] // 2
            self.over.append(seconds / self.scheduler.costs[place](rows))
            self.scheduler.pushed(place, rows, seconds)
            self.pushes[place] += 1
            took += seconds
        self.seconds += took
        return took

    def result(self) -> dict[str, object]:
        """How its pulls went."""
        late = [took for took in self.pulls if took > self.limit]
        return {
            "pulls": len(self.pulls),
            "in_time": 1 - len(late) / max(1, len(self.pulls)),
            "late": [round(took, 3) for took in late],
            "median": round(float(np.median(self.pulls)), 3) if self.pulls else None,
            "slowest": round(max(self.pulls), 3) if self.pulls else None,
            "over_predicted": [round(float(np.quantile(self.over, q)), 2) for q in (0.5, 0.9, 0.99, 1.0)],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--ticks", type=int, default=60, help="of both ways, without pulls")
    parser.add_argument("--pulls", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--for", dest="seconds", type=float, default=1e9, help="end either part after so many seconds")
    arguments = parser.parse_args()
    spark = session("local[2]", app="views")
    with tempfile.TemporaryDirectory() as folder:
        joins = [DeltaJoins(spark, Path(folder) / name, arguments.scale) for name in ("naive", "own")]
        for one in joins:  # a Spark that has just started is several times slower
            for table in CHANGING:
                one.timed(table, (1,), PRACTICE)
        timings = {table: joins[0].timed(table, SIZES, arguments.repeats) for table in CHANGING}
        costs = [Measured(*map(list, zip(*timings[table], strict=True))) for table in CHANGING]
        lines = [cost.linear() for cost in costs]
        limit = LIMIT * sum(line.setup for line in lines)
        ways = {
            method: Way(one, costs, limit, method) for method, one in zip(("naive", "forecast"), joins, strict=True)
        }
        ticks, end = 0, time.monotonic() + arguments.seconds
        while ticks < arguments.ticks and time.monotonic() < end:
            ticks += 1
            for way in ways.values():
                way.tick((1, 1), False)
        for way in ways.values():
            way._push(way.scheduler.refresh())
        spent = {name: way.seconds for name, way in ways.items()}
        pushes = {name: dict(zip(CHANGING, way.pushes, strict=True)) for name, way in ways.items()}
        own, rng, end = ways["forecast"], np.random.default_rng(7), time.monotonic() + arguments.seconds
        while len(own.pulls) < arguments.pulls and time.monotonic() < end:
            own.tick((1, 1), bool(rng.random() < ASKED))
        own._push(own.scheduler.refresh())
        pulls = own.result()
        right = all(way.joins.view.rows() == [[way.joins.expected()]] for way in ways.values())
        ratio = spent["naive"] / spent["forecast"]
    spark.stop()
    fitted = {table: {"setup": round(line.setup, 3), "ms_a_change": round(1000 * line.slope, 3)}
              for table, line in zip(CHANGING, lines, strict=True)}  # fmt: skip
    print(json.dumps({"scale": arguments.scale, "ticks": ticks, "fitted": fitted, "limit": round(limit, 3),
                      "ratio": round(ratio, 2), "spent": spent, "pushes": pushes, "right": right, **pulls},
                     indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
