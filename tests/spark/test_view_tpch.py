"""A view over TPC-H tables on real Spark, after many changes and pushes in any order."""

import random
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from view_duck import same_rows

from tolerant.experiments.workloads.delta_joins import CHANGING, SELECT, DeltaJoins

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]

GROUPED = (
    "SELECT n_nationkey, COUNT(*) AS n, SUM(ps_supplycost) AS total, MIN(ps_supplycost) AS least,"
    " MAX(ps_supplycost) AS most FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey"
    " JOIN nation ON s_nationkey = n_nationkey GROUP BY n_nationkey"
)


@pytest.mark.parametrize("select", [SELECT, GROUPED], ids=["least", "grouped"])
def test_a_view_of_tpc_h_is_what_a_full_recomputation_says(spark: SparkSession, tmp_path: Path, select: str) -> None:
    chance = random.Random(11)
    joins = DeltaJoins(spark, tmp_path, 0.1, select=select)
    for _ in range(12):
        for table in CHANGING:
            joins.change(table, chance.choice([0, 1, 10, 100]))
        joins.push(chance.choice([(), CHANGING[:1], CHANGING[1:]]))
    joins.push(CHANGING)
    connection = duckdb.connect()
    for name, columns in joins.rows.items():
        connection.register(name, pa.table(columns))
    assert same_rows(joins.view.rows(), [list(row) for row in connection.execute(select).fetchall()])
