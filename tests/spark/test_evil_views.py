"""On real Spark: a view that nobody may have, written into the log by hand, is refused, and nothing of it runs."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from live import Live
from test_view_pushes import SUPPLY

from tolerant.client import load_catalogue
from tolerant.kinds.views.select import ViewSelect
from tolerant.spark.views.engine import SparkEngine
from tolerant.sql import CreateQuery, encode, parse, render
from tolerant.sql.view_select import plan_of
from tolerant.transport.rows import STATEMENTS, unpack

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]


def evil(name, select):
    query = CreateQuery(name, (), ViewSelect(select, ("supply",), 30_000_000))
    return {"kind": "query", "key": name, "request": name, "text": "", "body": encode(query)}


def test_an_evil_view_in_the_log_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TOLERANT_TEST_SECRET", "hunter2")
    good = "CREATE QUERY good AS SELECT product, SUM(a) AS total FROM supply GROUP BY product REFRESH WITHIN '30 s'"
    live = Live(tmp_path, f"{render(SUPPLY)};\n{good};", stream="", patience=300)
    try:
        live.run()
        live.wait(lambda: live.log.latest("status.supply@views", "view/good"), "the good view")
        marker = tmp_path / "marker"
        selects = {
            "secret": "SELECT reflect('java.lang.System', 'getenv', 'TOLERANT_TEST_SECRET') AS v FROM supply",
            "variable": "SELECT '${env:TOLERANT_TEST_SECRET}' AS v FROM supply",
            "file": f"SELECT java_method('java.nio.file.Files', 'createFile', '{marker}') AS v FROM supply",
            "script": f"SELECT TRANSFORM(a) USING 'touch {marker}' AS (v) FROM supply",
            "memory": "SELECT repeat('a', 1000000000) AS v FROM supply",
            "broken": "SELECT FROM WHERE",
            "decimal": "SELECT COUNT(*) AS n FROM supply GROUP BY id * 1.5",
            "product": f"SELECT COUNT(*) AS n FROM {', '.join(f'supply a{place}' for place in range(16))}",
        }
        rows = [evil(name, select) for name, select in selects.items()]
        live.log.append("queries", pa.RecordBatch.from_pylist(rows, schema=STATEMENTS))
        replies = {}

        def answered():
            for entry in live.log.read("replies"):
                replies.update({row["request"]: row for row in unpack(entry.payload).to_pylist()})
            return replies.keys() >= selects.keys()

        live.wait(answered, "replies to the evil views")
        assert not any(replies[name]["accepted"] for name in selects)
        assert "the function REFLECT" in replies["secret"]["message"]
        assert "is DECIMAL(" in replies["decimal"]["message"]
        assert "joined without an equality" in replies["product"]["message"]
        assert load_catalogue(live.log).queries.keys() == {"good"}
        shown = json.loads(live.tolerant("refresh", "good", "--json").stdout)  # the pipeline goes on
        assert shown["rows"] == []
        assert not marker.exists()
        written = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert b"hunter2" not in written
    finally:
        live.close()


def test_texts_are_texts_and_names_are_names():
    """What reaches Spark is not substituted, and a column's name cannot end its quotes."""
    from tolerant.spark.session import session

    engine = SparkEngine(session("local[1]"))
    table = parse("CREATE TABLE t (id INT, `a``b, c INT` STRING) KEY (id)")
    found = engine.run("SELECT '${env:HOME}${spark.app.name}' AS v", {}).to_pylist()
    assert found == [{"v": "${env:HOME}${spark.app.name}"}]
    plan = plan_of("SELECT * FROM t", [table])
    assert engine.columns(plan, [table]) == ["INT", "STRING"]
    with pytest.raises(ValueError, match="Spark cannot run it"):
        engine.columns(replace(plan, sql="SELECT nowhere FROM t"), [table])
