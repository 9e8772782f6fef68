"""Statistics of recorded traces, and plans from them, as Spark jobs: any number of rows, as many queries as there are
(`docs/design/planning.md` §6).
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tolerant.planning import Dynamics, Network, Plan, Run, Unsatisfiable
from tolerant.planning import plan_many as plan_here
from tolerant.planning import simulate as simulate_here
from tolerant.planning.dynamics import cosine_of, differences, moments
from tolerant.planning.planning_arrays import Floats
from tolerant.queries import Aggregate
from tolerant.sql.names import backticked
from tolerant.traces import Trace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_LONG = {"at", "item", "value"}
_ORDER = "_order"
_BLOCK = 4096  # ticks whose differences are held at once
_SUMS = "partition int, ticks bigint, moved binary, products binary, last binary"

Blocks = Callable[[Iterator[pa.RecordBatch]], Iterator[Floats]]
"""From a partition's rows, in order, to values float64[ticks, items], NaN where there is no reading."""


def dynamics(spark: SparkSession, trace: str | Path | DataFrame) -> Dynamics:
    """`Dynamics.of` a trace that need not fit into memory: a .csv or .parquet file (or a folder of them), or a frame.

    Long: columns at, item and value. Wide: one column per item, one row per tick, in the order of the column `at`, or
    of the file where there is none. A first pass finds the values with which each partition begins; then sums
    add up. Items are in the order of the columns, or of their names.

    Raises:
        ValueError: there are no items or no rows, or a column is no number.
    """
    from pyspark import StorageLevel

    frame = trace if not isinstance(trace, str | Path) else _read(spark, Path(trace))
    ordered, items, blocks = _ordered(frame)
    ordered = ordered.persist(StorageLevel.DISK_ONLY)  # both passes must see the same partitions
    try:
        unknown = np.full(len(items), np.nan)
        ends = _sums(ordered, blocks, {}, unknown, last_only=True)
        if not ends or sum(ticks for ticks, *_ in ends.values()) == 0:
            raise ValueError("a trace needs at least one row")
        sums = _sums(ordered, blocks, _carried(ends, unknown), unknown, last_only=False)
    finally:
        ordered.unpersist()
    moved = np.sum([moved for _, moved, _, _ in sums.values()], axis=0)
    products = np.sum([products for _, _, products, _ in sums.values()], axis=0)
    ticks = sum(ticks for ticks, *_ in sums.values()) - 1
    return Dynamics(tuple(items), moved, cosine_of(products), ticks)


def plan_many(
    spark: SparkSession,
    queries: Sequence[Aggregate],
    network: Network,
    dynamics: Dynamics,
    heuristic: str = "max-gain",
    *,
    alpha: float = 0.0,
    seed: int = 0,
) -> list[Plan | Unsatisfiable]:
    """`tolerant.planning.plan_many` as a Spark job, one row per query: the same plans, in the same order."""
    plan_here([], network, dynamics, heuristic, alpha=alpha, seed=seed)  # says what is wrong before anything is sent

    def work(some: list[Any]) -> list[Any]:
        return list(plan_here(some, network, dynamics, heuristic, alpha=alpha, seed=seed))

    return _each(spark, list(queries), work)


def simulate_many(spark: SparkSession, plans: Sequence[Plan], trace: Trace) -> list[Run]:
    """`tolerant.planning.simulate` for many plans, as a Spark job, a row a plan."""

    def work(some: list[Any]) -> list[Any]:
        return [simulate_here(plan, trace) for plan in some]

    return _each(spark, list(plans), work)


def _each(spark: SparkSession, inputs: list[Any], work: Callable[[list[Any]], list[Any]]) -> list[Any]:
    """What `work` makes of the inputs, in their order, spread over the cluster."""
    if not inputs:
        return []

    def batches(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            made = work([pickle.loads(body) for body in batch.column("body").to_pylist()])
            bodies = pa.array([pickle.dumps(value) for value in made], pa.binary())
            yield pa.RecordBatch.from_arrays([batch.column("number"), bodies], ["number", "body"])

    rows = [(number, bytearray(pickle.dumps(value))) for number, value in enumerate(inputs)]
    frame = spark.createDataFrame(rows, "number int, body binary")
    parts = min(len(rows), 4 * spark.sparkContext.defaultParallelism)
    done = frame.repartitionByRange(parts, "number").mapInArrow(batches, "number int, body binary").collect()
    results = {row["number"]: pickle.loads(bytes(row["body"])) for row in done}
    return [results[number] for number in range(len(inputs))]


# -- differences -------------------------------------------------------------------------------------------------------


def _read(spark: SparkSession, path: Path) -> DataFrame:
    if path.suffix.lower() == ".csv":
        return spark.read.csv(str(path), header=True, inferSchema=True)
    return spark.read.parquet(str(path))


def _ordered(frame: DataFrame) -> tuple[DataFrame, list[str], Blocks]:
    """The rows in partitions that follow each other in time, the items, and how to read the rows."""
    from pyspark.sql import functions as F

    parts = max(2, frame.sparkSession.sparkContext.defaultParallelism * 2)
    if set(frame.columns) == _LONG:
        items = sorted(str(row["item"]) for row in frame.select("item").distinct().collect())
        ordered = frame.select(F.col("at").alias(_ORDER), F.col("item").cast("string"), F.col("value").cast("double"))
        blocks = _long_blocks(items)
    else:
        items = [name for name in frame.columns if name != "at"]
        order = F.col("at") if "at" in frame.columns else F.monotonically_increasing_id()
        wrong = [name for name, kind in frame.dtypes if name in items and kind in ("string", "boolean", "binary")]
        if wrong:
            raise ValueError(f"column {wrong[0]!r} of the trace must hold numbers")
        ordered = frame.select(order.alias(_ORDER), *_numbers(items))
        blocks = _wide_blocks
    if not items:
        raise ValueError("a trace needs at least one item")
    return ordered.repartitionByRange(parts, _ORDER).sortWithinPartitions(_ORDER), items, blocks


def _numbers(items: list[str]) -> list[Column]:
    """The items' columns, under names that nobody can misread."""
    from pyspark.sql import functions as F

    return [F.col(backticked(name)).cast("double").alias(f"c{place}") for place, name in enumerate(items)]


def _wide_blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[Floats]:
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[1:]]
        if batch.num_rows:
            yield np.column_stack(columns).astype(np.float64)


def _long_blocks(items: list[str]) -> Blocks:
    places = {item: place for place, item in enumerate(items)}

    def blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[Floats]:
        now: Any = None
        rows: list[Floats] = []
        for batch in batches:
            columns = (column.to_pylist() for column in batch.columns)
            for at, item, value in zip(*columns, strict=True):
                if at != now or not rows:
                    if len(rows) >= _BLOCK:
                        yield np.array(rows)
                        rows = []
                    now = at
                    rows.append(np.full(len(items), np.nan))
                rows[-1][places[item]] = np.nan if value is None else value
        if rows:
            yield np.array(rows)

    return blocks


Sums = dict[int, tuple[int, Floats, Floats, Floats]]
"""By partition: ticks, Σ|Δ|, ΣΔΔᵀ, and the values that hold when it ends."""


def _sums(frame: DataFrame, blocks: Blocks, carried: dict[int, Floats], unknown: Floats, *, last_only: bool) -> Sums:
    n = len(unknown)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        latest = carried.get(context.partitionId(), unknown).copy()
        ticks, moved, products = 0, np.zeros(n), np.zeros((n, n))
        for block in blocks(batches):
            ticks += len(block)
            for start in range(0, len(block), _BLOCK):
                values = _filled(latest, block[start : start + _BLOCK])
                latest = values[-1].copy()
                if not last_only:
                    sums = moments(differences(values))
                    moved += sums.moved
                    products += sums.products
        columns = [[context.partitionId()], [ticks], [moved.tobytes()], [products.tobytes()], [latest.tobytes()]]
        types = (pa.int32(), pa.int64(), pa.binary(), pa.binary(), pa.binary())
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, ["partition", "ticks", "moved", "products", "last"])

    return {
        row["partition"]: (
            row["ticks"],
            np.frombuffer(bytes(row["moved"])),
            np.frombuffer(bytes(row["products"])).reshape(n, n),
            np.frombuffer(bytes(row["last"])),
        )
        for row in frame.mapInArrow(work, _SUMS).collect()
    }


def _filled(latest: Floats, block: Floats) -> Floats:
    """The values that latest before, and those of the block, each latest over what is missing."""
    values = np.vstack([latest, block])
    row = np.where(np.isnan(values), 0, np.arange(len(values))[:, None])
    filled: Floats = values[np.maximum.accumulate(row, axis=0), np.arange(values.shape[1])]
    return filled


def _carried(ends: Sums, unknown: Floats) -> dict[int, Floats]:
    """The values that hold when each partition begins."""
    latest, carried = unknown.copy(), {}
    for partition in sorted(ends):
        carried[partition] = latest.copy()
        last = ends[partition][3]
        latest = np.where(np.isnan(last), latest, last)
    return carried
