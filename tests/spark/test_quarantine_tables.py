"""Shards of kept joins, lookup joins and views with a bug in them: exactly the row at fault goes into quarantine, the
others are joined as before, and every replay says the same.
"""

from functools import partial

from hosted_shard import HostedShard
from test_kept_shard import LINES, ORDERS, AppendOnlyPipeline, keep
from test_lookup_join_shard import pipeline_of
from test_quarantine import broken, check_replays

from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.pipeline.rows_shard import RowsShard
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import parse
from tolerant.sql.pipeline_inputs import Views
from tolerant.testing import LocalPipeline
from tolerant.transport.quarantine import quarantined
from tolerant.transport.topics import refreshes_topic
from tolerant.transport.views import REQUESTS


def hosted(pipeline, home, folder):
    pipeline.shard = HostedShard(pipeline.log, home, lambda shard: pipeline.new_shard(), folder)
    return pipeline


def breaks_at(monkeypatch, owner, key):
    """Let the row with this key break a kind of shard when its time has come."""
    broken(monkeypatch, owner, "_apply", lambda shard, found: any(key in one.keys for one in found))


def check_one_row_skipped(pipeline, home, key):
    (skipped,) = quarantined(pipeline.log, home)
    assert [row.kind for row in skipped.rows] == ["clock"]
    assert [row.key for row in skipped.waiting] == [key]
    assert [row["key"] for row in pipeline.rows(f"dead_letters.{home}")] == ["", key]
    check_replays(
        pipeline.log, home, pipeline.topics, lambda shard: pipeline.new_shard(), pipeline.shard, pipeline.position
    )


def test_kept_joins(tmp_path, monkeypatch):
    breaks_at(monkeypatch, AppendOnlyJoinShard, "6")
    pipeline = AppendOnlyPipeline(keep(100), tables=(ORDERS, LINES))
    home = pipeline.new_shard()._home
    hosted(pipeline, home, tmp_path).tick()
    for part in (1, 2, 1, 2):  # orders 2, 4, 6, 8, lines 3, 5, 7, 9
        pipeline.put(part, part)
    pipeline.tick()
    pipeline.tick()
    assert sorted(pipeline.pairs()) == [(2, 3), (2, 7), (4, 5), (4, 9), (8, 5), (8, 9)]
    pipeline.put(1, None)  # rows that were kept are joined with those that come later
    pipeline.tick()
    pipeline.tick()
    assert sorted(pipeline.pairs())[-2:] == [(10, 3), (10, 7)]
    check_one_row_skipped(pipeline, home, "6")


def test_lookup_joins(tmp_path, monkeypatch):
    breaks_at(monkeypatch, AppendOnlyJoinShard, "2")
    pipeline = pipeline_of(tmp_path, range(5), rows=5)
    home = pipeline.new_shard()._home
    hosted(pipeline, home, tmp_path).tick()
    for part in (1, 2, 3, 9):
        pipeline.order(part)
    pipeline.tick()
    pipeline.tick()
    assert [(row[0], row[2]) for row in pipeline.results()] == [(1, 1), (3, 3)]
    check_one_row_skipped(pipeline, home, "2")


class ViewTables(LocalPipeline):
    """Two tables with the shard of their views; their rows are what it has of them."""

    views = Views((LINES, ORDERS))

    def __init__(self, *queries):
        make_shard = partial(ViewShard, self.views)
        super().__init__([*self.views.tables, *queries], pipeline=self.views.name, make_shard=make_shard)

    def keys(self):
        return {side.table.name: sorted(side.relation.keys()) for side in self.shard.core()._sides}


VIEW = parse(
    "CREATE QUERY v AS SELECT orders.part, COUNT(*) FROM orders JOIN lines ON orders.part = lines.part"
    " GROUP BY orders.part REFRESH WITHIN '5 s'"
)


def test_views(tmp_path, monkeypatch):
    breaks_at(monkeypatch, RowsShard, "3")
    pipeline = hosted(ViewTables(VIEW), ViewTables.views.name, tmp_path)
    pipeline.tick()
    for number in range(5):
        pipeline.now += 1000
        pipeline.table("orders").insert(id=number, part=number, note="n")
        pipeline.table("lines").insert(id=number + 10, part=number, amount=1.0)
    pipeline.tick()
    pipeline.tick()
    assert pipeline.keys() == {"orders": ["0", "1", "2", "4"], "lines": ["10", "11", "12", "13", "14"]}
    check_one_row_skipped(pipeline, ViewTables.views.name, "3")


def test_requests_that_break_the_shard_of_views_are_skipped(tmp_path, monkeypatch):
    import pyarrow as pa

    broken(monkeypatch, ViewShard, "_request", lambda shard, entry: b"poison" in entry.payload)
    pipeline = hosted(ViewTables(VIEW), ViewTables.views.name, tmp_path)
    for name in ("poison", "v"):
        row = {"view": name, "request": "r", "at": 5}
        pipeline.log.append(refreshes_topic(ViewTables.views.name), pa.RecordBatch.from_pylist([row], REQUESTS))
    pipeline.table("orders").insert(id=1, part=1, note="n")
    pipeline.tick()
    pipeline.tick()
    assert len(pipeline.shard.skipped) == 1
    assert pipeline.keys()["orders"] == ["1"]
