"""On real Spark: which types a view may have, and that a push which takes too long is cancelled and frees its cores."""

import time

import pyarrow as pa
import pytest
from test_view_pipeline import LocalViews, create

from tolerant.client import load_catalogue
from tolerant.spark.views import maintained
from tolerant.spark.views.engine import SparkEngine
from tolerant.spark.views.time_limits import TookTooLong
from tolerant.sql import parse
from tolerant.sql.view_select import WEIGHT, delta_sql, plan_of, source_names

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TABLE = parse("CREATE TABLE t (id INT, big BIGINT, x DOUBLE, s STRING) KEY (id)")


@pytest.fixture(scope="module")
def engine(spark):
    return SparkEngine(spark)


@pytest.mark.parametrize(
    ("select", "refused"),
    [
        ("SELECT COUNT(*) AS n FROM t GROUP BY id * 1.5", "the key `t`.`id` * 1.5 is DECIMAL(13,1)"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY CAST(x AS DECIMAL(10, 2))", "is DECIMAL(10,2)"),
        ("SELECT COUNT(*) AS n FROM t GROUP BY NULL", "is VOID"),
        (
            "SELECT COUNT(CAST(s AS DECIMAL(5, 1))) AS n FROM t",
            "the argument CAST(`t`.`s` AS DECIMAL(5, 1)) is DECIMAL(5,1)",
        ),
        ("SELECT id, SUM(id * 1.5) AS total FROM t GROUP BY id", "column total is DECIMAL(23,1)"),
    ],
)
def test_a_type_that_no_table_can_hold_is_refused_wherever_it_is(engine, select, refused):
    with pytest.raises(ValueError, match="use CAST") as error:
        engine.columns(plan_of(select, [TABLE]), [TABLE])
    assert refused in str(error.value)


@pytest.mark.parametrize(
    ("select", "types"),
    [
        ("SELECT COUNT(*) AS n FROM t GROUP BY CAST(id * 1.5 AS DOUBLE), s, x > 1", ["BIGINT"]),
        (
            "SELECT s, SUM(id) AS a, AVG(big) AS b, MIN(x) AS c FROM t GROUP BY s",
            ["STRING", "BIGINT", "DOUBLE", "DOUBLE"],
        ),
        ("SELECT COUNT(*) AS n FROM t", ["BIGINT"]),
        ("SELECT DISTINCT id + 1 AS i, big FROM t", ["INT", "BIGINT"]),
    ],
)
def test_all_others_are_those_of_tables(engine, select, types):
    assert engine.columns(plan_of(select, [TABLE]), [TABLE]) == types


@pytest.mark.parametrize(
    "condition",
    [
        "a.s = b.s AND b.s = c.s AND c.s = d.s AND d.s = e.s AND e.s = f.s",
        "a.s = b.s AND b.s = c.s AND d.s = e.s AND e.s = f.s AND a.id + b.id + c.id + d.id + e.id + f.id < 0",
    ],
)
def test_a_push_that_would_never_end_is_cancelled_and_leaves_spark_free(engine, condition):
    """All rows are alike to its equalities: 400 to the sixth combinations, of which perhaps none is a result."""
    froms = ", ".join(f"t {alias}" for alias in "abcdef")
    plan = plan_of(f"SELECT COUNT(*) AS n FROM {froms} WHERE {condition}", [TABLE])
    columns = {"id": pa.array(range(400), pa.int32()), "s": ["same"] * 400, WEIGHT: [1] * 400}
    rows = pa.table({name: columns[name] for name in (*plan.columns["t"], WEIGHT)})
    begun = time.monotonic()
    with pytest.raises(TookTooLong):
        engine.run(delta_sql(plan, "t"), dict.fromkeys(source_names(plan, "t"), rows), 3.0)
    engine.check()
    assert time.monotonic() - begun < 60
    few = {name: rows.slice(0, 2) for name in source_names(plan, "t")}
    assert engine.run(delta_sql(plan, "t"), few, 60.0).num_rows == 1


def test_a_view_whose_pushes_never_end_is_refused_and_the_others_continue(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(maintained, "push_limit", lambda within: 4.0)
    froms = ", ".join(f"{table} {alias}" for alias, table in zip("abcd", ["supply", "demand"] * 2, strict=True))
    equal = " AND ".join(f"a.product = {alias}.product" for alias in "bcd")
    endless = parse(f"CREATE QUERY endless AS SELECT COUNT(*) AS n FROM {froms} WHERE {equal} REFRESH WITHIN '5 s'")
    pipeline = LocalViews(tmp_path, create("grouped"), endless, engine=lambda time: SparkEngine(spark))
    pipeline.tick()
    assert set(load_catalogue(pipeline.log).queries) == {"grouped", "endless"}  # the tables are empty
    for key in range(300):
        pipeline.put("supply", key, "p", 1)
        pipeline.put("demand", key, "p", 1)
    pipeline.refresh("grouped")
    pipeline.check_view("grouped")
    pipeline.refresh("endless")
    assert set(load_catalogue(pipeline.log).queries) == {"grouped"}
    (refused,) = [text for text in pipeline.told if "REFUSED" in text]
    assert "View endless is REFUSED: bringing it up to date failed twice: TookTooLong: pushing 300 changes" in refused
    pipeline.put("supply", 0, "q", 3)
    pipeline.put("demand", 0, "q", 2)
    pipeline.refresh("grouped")
    pipeline.check_view("grouped")
