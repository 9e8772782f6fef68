"""100,000 standing select joins while both tables change, on Spark: rows per second against a job that joins each
micro-batch with the table of queries by Spark SQL.

The queries of `docs/design/joins.md` §5: a ranges that hold a tenth of the rows, c ranges around 30 centres. 100,000
rows
in each table, but 1,000 values of b instead of 100 (so 100 partners a row): with 1,000 partners the other job takes
minutes for a hundred rows. Each batch replaces as many rows of both tables. Both jobs read the same entries of the same
log, batch by batch. Ours writes the result rows with their subscriptions into the log; the other (`joins_plain.py`, in
the better of two orders of its joins) writes its results as Parquet files, and is also timed when it only counts them.
What they find is compared. Band joins are measured in the same way by `joins_bands_on_spark.py`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from joins_loads import DOMAIN, select_load
from million_subscriptions import Sampler
from side_by_side import Figure, arguments, report
from tolerant.client import StatementClient
from tolerant.kinds import shard_factory
from tolerant.spark.pipeline import PipelineSpec, start
from tolerant.spark.session import session
from tolerant.sql import CreateTable, JoinInput, parse
from tolerant.streams import SECOND
from tolerant.transport import Log, open_log, rows
from tolerant.transport.changes import clock_row, insert_batch, update_batch
from tolerant.transport.subscriptions import subscription_ids
from tolerant.transport.topics import changes_topic

VALUES = 1_000
"""Different values of b."""

TABLES = {
    "r": parse("CREATE TABLE r (id BIGINT, b DOUBLE, a DOUBLE) KEY (id)"),
    "s": parse("CREATE TABLE s (id BIGINT, b DOUBLE, c DOUBLE) KEY (id)"),
}
MATCHED = "SELECT * FROM r JOIN s ON r.b = s.b WHERE r.a BETWEEN a1 AND a2 AND s.c BETWEEN c1 AND c2"
Told = dict[str, tuple[int, int]]
"""Results by sign: how many, and their checksum."""


class Template(NamedTuple):
    """A join with its subscriptions. `values`: how many different values of b there are; None: any number. `orders`:
    those of the plain job, the best first; `large`: it can also be given the large batches.
    """

    select: str
    parameters: dict[str, np.ndarray]
    values: int | None
    orders: tuple[str, ...]
    large: bool


class Run(NamedTuple):
    """Batches of one size: rows changed in each table, those that warm up, those that count."""

    changed: int
    warm: int
    batches: int


def main() -> None:
    quick = arguments(__doc__ or "").quick
    queries = 10_000 if quick else 100_000
    ranges = dict(zip(("a1", "a2", "c1", "c2"), select_load(queries, queries, 0).ranges, strict=True))
    measure("joins-on-spark", Template(MATCHED, ranges, VALUES, ("queries", "tables"), False), quick)


def measure(name: str, template: Template, quick: bool) -> None:
    """Run both jobs and report."""
    queries = held = 10_000 if quick else 100_000
    small, large = (Run(100, 1, 2), Run(1000, 1, 1)) if quick else (Run(100, 3, 5), Run(1000, 2, 3))
    if not template.large:  # the plain job takes half a minute and more a batch
        small = small._replace(batches=min(small.batches, 3))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), template, held)
        ours = {small: bench.tolerant(small)}
        if template.large:
            ours[large] = bench.tolerant(large)
        told = bench.told()
        # The order that is worse in small takes ten times as long at full size.
        orders = template.orders[: None if quick else 1]
        plain = min((bench.plain(order) for order in orders), key=lambda done: sum(one["writing"] for one in done))
        if not template.large:
            ours[large] = bench.tolerant(large)
    figures = [Figure("subscriptions in force after", ours[small].subscribed, "s"), *compared(ours, plain, quick)]
    changed = sum(2 * run.changed * (run.warm + run.batches) for run in (ours if template.large else [small]))
    results = sum(n for found in told for n, _ in found.values()) / changed
    equal = all(list_of(mine) == one["written"] == one["counted"] for mine, one in zip(told, plain, strict=True))
    figures += [
        Figure("results of single subscriptions that a row makes or unmakes", results, ""),
        Figure("equal results in every batch", int(equal), "", "1", equal),
    ]
    inputs = {"subscriptions": queries, "rows a table": held, "batches": [tuple(run) for run in (small, large)]}
    sys.exit(0 if report(name, inputs, figures) else 1)


def compared(ours: dict[Run, Ours], plain: list[dict[str, Any]], quick: bool) -> list[Figure]:
    """Rows per second of both jobs by batch size, where the plain one was given it; and each at its better size."""
    figures: list[Figure] = []
    rates: dict[str, list[float]] = {"ours": [], "writing": [], "counting": []}
    end = 0
    for run, done in ours.items():
        work, end = 2 * run.changed, end + run.warm + run.batches
        chosen = plain[end - run.batches : end]
        rates["ours"].append(work / statistics.median(done.seconds))
        figures.append(Figure(f"tolerant, batches of {work}", rates["ours"][-1], "rows/s"))
        for way in ("writing", "counting") if chosen else ():
            rates[way].append(work / statistics.median(one[way] for one in chosen))
            figures.append(Figure(f"Spark SQL {way} its results", rates[way][-1], "rows/s"))
            figures.append(Figure(f"ratio of medians, Spark SQL {way}", rates["ours"][-1] / rates[way][-1], "×"))
        figures.append(Figure("bytes in the log, a result", done.bytes / max(done.results, 1), "B"))
        figures.append(Figure("shard's Python worker, peak memory", done.peak / 1e6, "MB"))
    for way in ("writing", "counting"):
        ratio = max(rates["ours"][: len(rates[way])]) / max(rates[way])
        bar = ("≥ 20", ratio >= 20) if way == "writing" and not quick else ("", None)
        figures.append(Figure(f"each at its better batch size, Spark SQL {way}", ratio, "×", *bar))
    return figures


def list_of(found: Told) -> dict[str, list[int]]:
    """As JSON brings it."""
    return {sign: list(pair) for sign, pair in found.items()}


class Ours:
    """What our pipeline took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.subscribed = 0.0
        self.bytes = self.results = 0
        self.peak = 0


class Bench:
    """A log with two tables and the subscriptions, and the jobs that read it."""

    def __init__(self, folder: Path, template: Template, held: int) -> None:
        self._folder, self._template, self._held = folder, template, held
        self._log: Log = open_log(f"sqlite:///{folder}/log.db", create=True)
        self._now, self._sequence = 1_000_000_000 * SECOND, 1
        self._rng = np.random.default_rng(1)
        for table in TABLES.values():
            StatementClient(self._log).send(table)
        columns = template.parameters
        pq.write_table(pa.table(columns), folder / "subs.parquet")
        numbers = np.arange(len(next(iter(columns.values()))))
        pq.write_table(pa.table({"n": numbers, **columns}), folder / "queries.parquet")

    def tolerant(self, run: Run) -> Ours:
        """Our pipeline: the tables, the query and its subscriptions if they are not there, then batches of changes. A
        second time it continues from its checkpoint.
        """
        spark = session("local[2]", app="joins")
        factory = shard_factory(JoinInput.of(*map(_table, "rs")), 1, "bench")
        topics = ["queries", *map(changes_topic, "rs"), "subscriptions.r+s"]
        pipeline = start(spark, self._log, PipelineSpec("r+s", topics, factory), self._folder / "checkpoint", "bench")
        sampler, done = Sampler(os.getpid(), children=True), Ours()
        sampler.start()
        if not self._log.read("replies"):
            self._begin(pipeline.queries[0].query, done)
        said = len(self._log.read("answers.matched"))
        for batch in range(run.warm + run.batches):
            before = len(self._batches(pipeline.queries[0].query))
            keys = self._rng.choice(self._held, run.changed, replace=False)
            self._append({name: self._rows(name, keys, update_batch) for name in "rs"})
            self._settle(pipeline.queries[0].query)
            if batch >= run.warm:
                done.seconds.append(sum(self._batches(pipeline.queries[0].query)[before:]))
        pipeline.queries[0].query.stop()
        worker = max((one for one in sampler.stop() if "python" in one.name), key=lambda memory: memory.peak)
        done.peak = worker.peak
        for entry in self._log.read("answers.matched")[said:]:
            done.bytes += len(entry.payload)
            done.results += int(rows.unpack(entry.payload).column("subscriptions").sizes.to_numpy().sum())
        spark.stop()
        return done

    def _begin(self, query: Any, done: Ours) -> None:
        self._append({name: self._rows(name, np.arange(self._held), insert_batch) for name in "rs"})
        self._settle(query)
        begin = time.perf_counter()
        query_text = f"CREATE QUERY matched({', '.join(self._template.parameters)}) AS {self._template.select};"
        StatementClient(self._log).register(query_text)
        (subscribe,) = StatementClient(self._log).parse("SUBSCRIBE matched FROM 'subs.parquet'")
        StatementClient(self._log).send_subscription(subscribe, self._folder)
        query.processAllAvailable()
        done.subscribed = time.perf_counter() - begin

    def told(self) -> list[Told]:
        """What our result rows come to, batch by batch, with the plain job's checksum."""
        ids = subscription_ids({name: pa.array(column) for name, column in self._template.parameters.items()})
        order = np.argsort(ids)
        found = []
        for entry in self._log.read("answers.matched"):
            batch = rows.unpack(entry.payload)
            lists = batch.column("subscriptions")
            sizes = lists.sizes.to_numpy()
            n = order[np.searchsorted(ids[order], lists.flatten().to_numpy())]
            r, s = (np.repeat(batch.column(f"row.{name}.id").to_numpy(), sizes) for name in "rs")
            appears = np.repeat(batch.column("kind").to_numpy(zero_copy_only=False) == "insert", sizes)
            sums = (n * 31 + r * 17 + s * 7) % 1_000_003
            signs = {"-1": ~appears, "1": appears}
            found.append({sign: (int(chosen.sum()), int(sums[chosen].sum())) for sign, chosen in signs.items()})
        return found

    def plain(self, order: str) -> list[dict[str, Any]]:
        """What each batch took the plain job, and what it found."""
        job = [sys.executable, str(Path(__file__).with_name("joins_plain.py")), self._log.uri]
        job += [str(self._folder / "queries.parquet"), str(self._folder / f"plain-{order}"), order]
        done = subprocess.run(job, capture_output=True, text=True, check=False, timeout=3600)
        if done.returncode:
            raise RuntimeError(done.stderr[-2000:])
        found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return found

    def _rows(self, name: str, keys: Any, kind: Any) -> pa.RecordBatch:
        """Rows of a table with these keys, as its feeder would say them."""
        n, table, rng = len(keys), _table(name), self._rng
        own, different = {"r": "a", "s": "c"}[name], self._template.values
        values = {
            "id": pa.array(keys),
            "b": pa.array(rng.integers(0, different, n).astype(float) if different else rng.uniform(0, DOMAIN, n)),
            own: pa.array(rng.uniform(0, DOMAIN, n)),
        }
        first, self._sequence = self._sequence, self._sequence + 2 * n
        made: pa.RecordBatch = kind(
            table.columns, table.key, values, at=self._now, source="bench", first=first, through=self._now
        )
        return made

    def _append(self, found: dict[str, pa.RecordBatch]) -> None:
        """Rows and clock rows in one append: no batch can take the one without the other."""
        self._now += SECOND
        clocks = {name: clock_row(_table(name).columns, self._now) for name in found}
        said = [(changes_topic(name), rows.pack(batch)) for part in (found, clocks) for name, batch in part.items()]
        self._log.append_packed(said)

    def _settle(self, query: Any) -> None:
        while True:
            seen = len(self._batches(query))
            query.processAllAvailable()
            time.sleep(0.3)
            if len(self._batches(query)) == seen:
                return

    @staticmethod
    def _batches(query: Any) -> list[float]:
        return [p.batchDuration / 1000 for p in query.recentProgress if p.numInputRows > 0]


def _table(name: str) -> CreateTable:
    table = TABLES[name]
    assert isinstance(table, CreateTable)
    return table


if __name__ == "__main__":
    main()
