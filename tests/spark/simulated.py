"""An engine of views whose SQL DuckDB runs, in simulated time: what a push takes is made up, and what happens meanwhile
happens in the middle of it.
"""

import heapq
import itertools
import math

from view_duck import DuckEngine

from tolerant.spark.views.deltas import Slice
from tolerant.spark.views.time_limits import TookTooLong
from tolerant.streams import SECOND


class SimulatedTime:
    """A `Clock` that is moved by hand; `at` lets something happen when its time has come."""

    def __init__(self, now=0):
        self.now, self._events, self._order = now, [], itertools.count()

    def wall(self):
        return self.now

    def elapsed(self):
        return self.now / SECOND

    def at(self, moment, what):
        heapq.heappush(self._events, (moment, next(self._order), what))

    def advance(self, seconds):
        end = self.now + round(seconds * SECOND)
        while self._events and self._events[0][0] <= end:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = end


class TimedEngine(DuckEngine):
    """`ViewEngine`. `setups` by the place of the table whose changes are pushed, `slopes` per change; `full` for
    working a view or some of its groups out; `cold`: what the first run of each statement takes besides;
    `skips_empty`: a join with nothing takes no time, as on Spark, which leaves it out.
    """

    dialect = "duckdb"

    def __init__(self, time, setups=(0.04, 0.08), slopes=(0.00001, 0.00001), full=0.02, cold=0.0, skips_empty=False):
        super().__init__()
        self.time, self.setups, self.slopes, self.full, self.cold = time, setups, slopes, full, cold
        self.factor, self.slices, self.skips_empty = 1.0, [], skips_empty

    def run(self, sql, sources, limit=math.inf):
        slices = [source for source in sources.values() if isinstance(source, Slice)]
        self.slices += slices
        if self.skips_empty and not all(one.files for one in slices):
            return super().run(sql, sources, limit)
        seconds = self.factor * (self._cost(sources) + self.cold * (sql not in self.runs))
        self.time.advance(min(seconds, limit))
        if seconds > limit:
            raise TookTooLong
        return super().run(sql, sources, limit)

    def _cost(self, sources):
        for name, source in sources.items():
            if name.startswith("d") and not isinstance(source, Slice):
                place = int(name[1:])
                return self.setups[place] + self.slopes[place] * len(source)
        return self.full

    def columns(self, plan, tables):
        found = []
        for table in tables:
            own = ", ".join(f"{c.name} {c.type.replace('STRING', 'VARCHAR')}" for c in table.columns)
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table.name} ({own})")
        names = {"VARCHAR": "STRING", "INTEGER": "INT", "HUGEINT": "BIGINT"}
        for row in self.connection.execute(f"DESCRIBE {plan.sql}").fetchall():
            found.append(names.get(row[1], row[1]))
        for table in tables:
            self.connection.execute(f"DROP TABLE {table.name}")
        return found
