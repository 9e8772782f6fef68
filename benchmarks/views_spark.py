"""A view kept on Spark: each table pushed in its own time against everything pushed whenever the limit is reached.

    python benchmarks/views_spark.py [--scale 1] [--ticks 100] [--pulls 0.1]

The view of seed 003, chapter 2 (the least supply cost of a region over PartSupp, Supplier, Nation and Region of TPC-H;
`tpchgen-cli` makes the tables if it is installed). Pushes are real delta joins. First the costs of pushes are timed and
fitted; the limit is 0.8 × the sum of the setups. Then both ways get the same changes, one of each table a tick, tick by
tick in turn, so that what else the machine does strikes both alike. At random ticks, after the tick's pushes, somebody
asks for the view: its refresh is timed against the limit. At the end both views must be what the tables say.
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


class Way:
    """One way to keep the view, with what it spent."""

    def __init__(self, joins: DeltaJoins, costs: list[Measured], limit: float, method: str) -> None:
        self.joins, self.limit = joins, limit
        self.scheduler = Scheduler(costs, MARGIN * limit, method)
        self.pushes, self.seconds, self.pulls = [0, 0], 0.0, []

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
            self.scheduler.pushed(place, done.rows[CHANGING[place]] // 2, seconds)
            self.pushes[place] += 1
            took += seconds
        self.seconds += took
        return took

    def result(self) -> dict[str, object]:
        """What it spent, and how its pulls went."""
        late = [took for took in self.pulls if took > self.limit]
        return {
            "seconds": round(self.seconds, 2),
            "pushes": dict(zip(CHANGING, self.pushes, strict=True)),
            "pulls": len(self.pulls),
            "in_time": 1 - len(late) / max(1, len(self.pulls)),
            "late": [round(took, 3) for took in late],
            "median": round(float(np.median(self.pulls)), 3) if self.pulls else None,
            "right": self.joins.view.rows() == [[self.joins.expected()]],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--ticks", type=int, default=100)
    parser.add_argument("--pulls", type=float, default=0.1, help="the chance that somebody asks, a tick")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--for", dest="seconds", type=float, default=1e9, help="end the ticks after so many seconds")
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
        rng = np.random.default_rng(7)
        ticks, end = 0, time.monotonic() + arguments.seconds
        while ticks < arguments.ticks and time.monotonic() < end:
            ticks += 1
            asked = bool(rng.random() < arguments.pulls)
            for way in ways.values():
                way.tick((1, 1), asked)
        for way in ways.values():
            way._push(way.scheduler.refresh())
        found = {name: way.result() for name, way in ways.items()}
        ratio = ways["naive"].seconds / ways["forecast"].seconds
    spark.stop()
    fitted = {table: {"setup": round(line.setup, 3), "ms_a_change": round(1000 * line.slope, 3)}
              for table, line in zip(CHANGING, lines, strict=True)}  # fmt: skip
    print(json.dumps({"scale": arguments.scale, "ticks": ticks, "fitted": fitted, "limit": round(limit, 3),
                      "ratio": round(ratio, 2), **found}, indent=2))  # fmt: skip


if __name__ == "__main__":
    main()
