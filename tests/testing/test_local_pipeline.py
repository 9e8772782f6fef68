"""A pipeline without Spark: every relation, restarts, a thread; and the example of docs/testing.md."""

import contextlib
import io
import re
import threading
import time
from pathlib import Path

import pytest

from tolerant.client import Client
from tolerant.sql import StatementError, parse
from tolerant.streams import SECOND
from tolerant.testing import LocalPipeline
from tolerant.transport import MemoryLog
from tolerant.transport.common import wall_clock

TABLES = """
CREATE TABLE orders (id BIGINT, part STRING) KEY (id);
CREATE TABLE lines (id BIGINT, part STRING) KEY (id);
"""
JOIN = (
    "CREATE QUERY joined AS SELECT * FROM orders JOIN lines ON orders.part = lines.part"
    " WHERE orders.id BETWEEN 0 AND 9 AND lines.id BETWEEN 0 AND 9;"
)
KEPT = "CREATE QUERY joined AS SELECT * FROM orders JOIN lines ON orders.part = lines.part KEEP 5 ROWS"
STOCK = """
CREATE TABLE stock (id BIGINT, price DOUBLE) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE price BETWEEN low AND high;
"""
TRAFFIC = """
CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host){options};
CREATE QUERY total AS SELECT host, SUM(rate) FROM traffic GROUP BY host WITHIN 5;
"""


def test_the_example_of_the_page_prints_what_it_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    ((program, output),) = re.findall(r"```python\n([^`]*)```\n```text\n(.*?)```", page, re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(program, {})
    assert printed.getvalue() == output


@pytest.mark.parametrize("options", ["", " WITH (shards = 3, shard = host)"])
def test_cuts_and_restarts_do_not_change_what_a_stream_publishes(options: str) -> None:
    def answers(cut: int | None, restarts: bool) -> list[dict]:
        pipeline = LocalPipeline(TRAFFIC.format(options=options))
        source = pipeline.source()
        for second in range(40):
            source.set_many(["a", "b", "c"], [float(second % 7), 1.0, second / 4])
            pipeline.tick(cut=cut)
            if restarts and second % 5 == 0:
                pipeline.restart()
            if restarts and second == 13:
                pipeline.take_snapshot()
        return sorted(pipeline.rows("answers.total"), key=lambda row: (row["at"], row["group"]))

    whole = answers(None, False)
    assert len(whole) > 5
    assert answers(1, True) == whole


def test_two_tables_have_one_pipeline_and_subscriptions_reach_it() -> None:
    pipeline = LocalPipeline(f"{TABLES} {JOIN}")
    assert pipeline.relation.name == "lines+orders"
    assert "subscriptions.lines+orders" in pipeline.topics
    pipeline.table("orders").insert(id=1, part="p")
    pipeline.table("lines").insert(id=7, part="p")
    pipeline.tick()
    assert [row["kind"] for row in pipeline.rows("answers.joined")] == ["insert"]
    kept = LocalPipeline(f"{TABLES} {KEPT} WITH (shards = 2)")
    kept.table("orders").insert(id=1, part="p")
    kept.table("lines").insert(id=7, part="p")
    kept.tick()
    assert len(kept.rows("answers.joined")) == 1


def test_a_subscription_is_sent_with_its_values() -> None:
    pipeline = LocalPipeline(STOCK)
    pipeline.send(parse("SUBSCRIBE area(0, 10)"))
    pipeline.tick()
    (area,) = Client(pipeline.log).subscriptions("area", low=[0], high=[10])
    pipeline.table().insert_many([(1, 5.0), (2, 50.0)])
    pipeline.tick()
    assert area.poll()
    assert [change.row["id"] for change in area.ready()] == [1]
    with pytest.raises(StatementError, match="aera"):
        pipeline.send(parse("SUBSCRIBE aera(0, 10)"))


@pytest.mark.parametrize(
    ("statements", "pipeline", "message"),
    [
        ("", None, "nothing that needs one"),
        (
            TABLES + JOIN + STOCK,
            None,
            r"expected the id of one pipeline .* got pipeline=None; it has lines\+orders, stock",
        ),
        (TRAFFIC.format(options="") + STOCK, None, "it has stock, traffic"),
        (STOCK, "stok", "got pipeline='stok'; it has stock"),
        (
            "CREATE TABLE stock (id BIGINT, price DOUBLE) KEY (id);"
            "CREATE QUERY v AS SELECT id, COUNT(*) FROM stock GROUP BY id REFRESH WITHIN '5 s'",
            None,
            "make_shard=",
        ),
    ],
)
def test_the_pipeline_must_be_clear(statements: str, pipeline: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LocalPipeline(statements, pipeline=pipeline)


def test_it_goes_by_a_clock_that_may_step_back() -> None:
    times = iter([10 * SECOND, 12 * SECOND, 11 * SECOND])
    pipeline = LocalPipeline(TRAFFIC.format(options=""), clock=lambda: next(times))
    clocks = []
    for _ in range(2):
        pipeline.tick()
        clocks.append(pipeline.now)
    assert clocks == [12 * SECOND, 12 * SECOND]


def test_a_pipeline_in_the_background_replies_until_the_block_ends() -> None:
    log = MemoryLog()
    with LocalPipeline(STOCK, log=log, clock=wall_clock) as pipeline:
        client = Client(log)
        area = client.subscribe("area", low=0, high=10, timeout=60)
        pipeline.table().insert(id=1, price=5.0)
        end = time.monotonic() + 60
        while not area.poll():
            assert time.monotonic() < end
        assert [change.row["id"] for change in area.ready()] == [1]
    position = log.end()
    time.sleep(0.2)
    assert log.end() == position


def test_an_error_in_the_background_is_raised_at_the_end() -> None:
    pipeline = LocalPipeline(STOCK)

    failed = threading.Event()

    def fail(batch):
        failed.set()
        raise ZeroDivisionError

    pipeline.shard.apply = fail
    with pytest.raises(ZeroDivisionError), pipeline:
        assert failed.wait(60)
