"""The view of [DISS], chapter 2 on Spark: real delta joins of TPC-H tables, timed.

`SELECT MIN(ps_supplycost)` over PartSupp, Supplier, Nation and Region for one region; PartSupp and Supplier change. The
tables are those of TPC-H, made by the program `tpchgen-cli` (from PyPI) if it is installed, else drawn by the same
rules.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tolerant.spark.views.deltas import VERSION, DeltaLog, signed_schema
from tolerant.spark.views.maintained import Maintained, Pushed
from tolerant.sql import CreateTable, parse
from tolerant.sql.view_select import WEIGHT, plan_of
from tolerant.streams import Column
from tolerant.transport.changes import ARROW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTSUPP, SUPPLIER = "partsupp", "supplier"
CHANGING = (PARTSUPP, SUPPLIER)
"""The tables that change, in the order of arrivals."""

STATEMENTS = (
    "CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_supplycost DOUBLE) KEY (ps_partkey, ps_suppkey)",
    "CREATE TABLE supplier (s_suppkey BIGINT, s_nationkey BIGINT) KEY (s_suppkey)",
    "CREATE TABLE nation (n_nationkey BIGINT, n_regionkey BIGINT) KEY (n_nationkey)",
    "CREATE TABLE region (r_regionkey BIGINT, r_name STRING) KEY (r_regionkey)",
)
SELECT = (
    "SELECT MIN(ps_supplycost) AS least FROM partsupp, supplier, nation, region WHERE s_suppkey = ps_suppkey"
    " AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'MIDDLE EAST'"
)
WARM_UP = 20
"""Pushes of each table before any is timed."""

_REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
_NATIONS = 25

Arrays = dict[str, NDArray[Any]]


def tpch(scale: float, folder: Path, seed: int = 0) -> dict[str, Arrays]:
    """Return the four tables at a scale (1: 800,000 rows of PartSupp, 10,000 of Supplier), by column."""
    tool = shutil.which("tpchgen-cli")
    if tool is None:
        return _drawn(scale, seed)
    names = "partsupp,supplier,nation,region"
    subprocess.run(
        [tool, "parquet", "-s", str(scale), f"--tables={names}", f"--output-dir={folder}"],
        check=True,
        capture_output=True,
    )
    tables = {}
    for statement in map(_table, STATEMENTS):
        loaded = pq.read_table(folder / f"{statement.name}.parquet", columns=[c.name for c in statement.columns])
        loaded = loaded.cast(pa.schema([(column.name, ARROW[column.type]) for column in statement.columns]))
        tables[statement.name] = {name: np.array(loaded.column(name).to_numpy()) for name in loaded.column_names}
    return tables


def _drawn(scale: float, seed: int) -> dict[str, Arrays]:
    """Draw the tables by TPC-H's rules (clause 4.2.3): four suppliers per part, spread evenly; costs from 1.00 to
    1000.00.
    """
    rng = np.random.default_rng((seed, 24))
    suppliers, parts = int(10_000 * scale), int(200_000 * scale)
    part = np.repeat(np.arange(1, parts + 1), 4)
    turn = np.tile(np.arange(4), parts)
    supplier = (part + turn * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1
    nations, regions = np.arange(_NATIONS), np.arange(len(_REGIONS))
    return {
        "partsupp": {
            "ps_partkey": part,
            "ps_suppkey": supplier,
            "ps_supplycost": rng.integers(100, 100_001, len(part)) / 100,
        },
        "supplier": {
            "s_suppkey": np.arange(1, suppliers + 1),
            "s_nationkey": rng.integers(0, _NATIONS, suppliers),
        },
        "nation": {"n_nationkey": nations, "n_regionkey": nations % len(_REGIONS)},
        "region": {"r_regionkey": regions, "r_name": np.array(_REGIONS, object)},
    }


def _table(text: str) -> CreateTable:
    table = parse(text)
    assert isinstance(table, CreateTable)
    return table


class DeltaJoins:
    """The view over these tables, stored in `folder`; `change` changes rows of a table, `push` applies the changes of
    some tables to the view.
    """

    def __init__(self, spark: SparkSession, folder: Path, scale: float, seed: int = 0, select: str = SELECT) -> None:
        from tolerant.spark.views.engine import SparkEngine

        tables = [_table(text) for text in STATEMENTS]
        self._definitions = {table.name: table.columns for table in tables}
        self.rows = tpch(scale, folder / "tpch", seed)
        self._rng = np.random.default_rng((seed, 25))
        self._steps = 0
        self.logs = {table.name: DeltaLog(folder / table.name, table.columns) for table in tables}
        for name, columns in self.rows.items():
            count = len(next(iter(columns.values())))
            self._add(name, np.ones(count, np.int64), columns)
        self._engine = SparkEngine(spark)
        self.view = Maintained(plan_of(select, tables), self.logs, self._engine)
        self.view.compute(self._newest())

    def change(self, table: str, count: int) -> None:
        """Change `count` rows: a price of PartSupp, the nation of a supplier."""
        if not count:
            return
        rows = self.rows[table]
        column = "ps_supplycost" if table == PARTSUPP else "s_nationkey"
        chosen = self._rng.choice(len(rows[column]), count, replace=False)
        old = {name: values[chosen] for name, values in rows.items()}
        if table == PARTSUPP:
            rows[column][chosen] = self._rng.integers(100, 100_001, count) / 100
        else:  # always another nation: a change that is reverted leaves nothing to push
            rows[column][chosen] = (rows[column][chosen] + self._rng.integers(1, _NATIONS, count)) % _NATIONS
        new = {name: values[chosen] for name, values in rows.items()}
        self._add(
            table,
            np.repeat([-1, 1], count),
            {name: np.concatenate([old[name], new[name]]) for name in rows},
        )

    def push(self, tables: Sequence[str]) -> tuple[Pushed, float]:
        """Push all pending changes of these tables; return what was done and the seconds it took."""
        begun = time.perf_counter()
        for table in tables:
            self.logs[table].flush()
        done = self.view.push({table: self.logs[table].last for table in tables})
        took = time.perf_counter() - begun
        for table in tables:  # as the pipeline does when no refresh waits
            self.logs[table].compact(self.view.absorbed[table])
        self._engine.rest()
        return done, took

    def timed(self, table: str, sizes: Sequence[int], repeats: int = 1) -> list[tuple[int, float]]:
        """Return (changes, seconds) of real pushes of each size, after one that warms up."""
        timings = []
        for size in (sizes[0], *(size for size in sizes for _ in range(repeats))):
            self.change(table, size)
            timings.append((size, self.push([table])[1]))
        return timings[1:]

    def warm_up(self, pushes: int = WARM_UP) -> None:
        """Push each table so often, in turn: Spark is several times slower just after its start."""
        for turn in range(pushes):
            for table in CHANGING:
                self.change(table, 1 + 20 * (turn % 5))
                self.push([table])

    def expected(self) -> float | None:
        """Compute the view's value from the present rows."""
        nation, region = self.rows["nation"], self.rows["region"]
        place = region["r_regionkey"][region["r_name"] == "MIDDLE EAST"]
        nations = nation["n_nationkey"][np.isin(nation["n_regionkey"], place)]
        supplier, partsupp = self.rows[SUPPLIER], self.rows[PARTSUPP]
        inside = supplier["s_suppkey"][np.isin(supplier["s_nationkey"], nations)]
        costs = partsupp["ps_supplycost"][np.isin(partsupp["ps_suppkey"], inside)]
        return float(costs.min()) if len(costs) else None

    def _newest(self) -> dict[str, int]:
        for log in self.logs.values():
            log.flush()
        return {name: log.last for name, log in self.logs.items()}

    def _add(self, table: str, weights: NDArray[np.int64], columns: Mapping[str, NDArray[Any]]) -> None:
        definition: tuple[Column, ...] = self._definitions[table]
        count = len(weights)
        steps = np.arange(self._steps + 1, self._steps + count + 1)
        self._steps += count
        arrays: dict[str, Any] = {VERSION: steps, WEIGHT: weights}
        arrays |= {column.name: pa.array(columns[column.name], ARROW[column.type]) for column in definition}
        self.logs[table].add(pa.table(arrays, schema=signed_schema(definition)))
