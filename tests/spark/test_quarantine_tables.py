"""Shards of kept joins, lookup joins and views with a bug in them: exactly the row at fault goes into quarantine, the
others are joined as before, and every replay says the same.
"""

from hosted_shard import HostedShard
from test_kept_shard import LINES, ORDERS, AppendOnlyShop, keep
from test_lookup_join_shard import shop_of
from test_pair_shard import PairShop
from test_quarantine import broken, check_replays

from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.pipeline.rows_shard import RowsShard
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import parse
from tolerant.sql.pipeline_inputs import Views
from tolerant.transport.quarantine import quarantined
from tolerant.transport.topics import refreshes_topic
from tolerant.transport.views import REQUESTS


def hosted(shop, pipeline, folder):
    shop.shard = HostedShard(shop.log, pipeline, lambda shard: shop.born(), folder)
    return shop


def breaks_at(monkeypatch, owner, key):
    """Let the row with this key break a kind of shard when its time has come."""
    broken(monkeypatch, owner, "_apply", lambda shard, found: any(key in one.keys for one in found))


def check_one_row_skipped(shop, pipeline, key):
    (skipped,) = quarantined(shop.log, pipeline)
    assert [row.kind for row in skipped.rows] == ["clock"]
    assert [row.key for row in skipped.waiting] == [key]
    assert [row["key"] for row in shop.rows(f"dead_letters.{pipeline}")] == ["", key]
    check_replays(shop.log, pipeline, shop.topics, lambda shard: shop.born(), shop.shard, shop.position)


def test_kept_joins(tmp_path, monkeypatch):
    breaks_at(monkeypatch, AppendOnlyJoinShard, "6")
    shop = AppendOnlyShop(keep(100), tables=(ORDERS, LINES))
    pipeline = shop.born()._home
    hosted(shop, pipeline, tmp_path).tick()
    for part in (1, 2, 1, 2):  # orders 2, 4, 6, 8, lines 3, 5, 7, 9
        shop.put(part, part)
    shop.tick()
    shop.tick()
    assert sorted(shop.pairs()) == [(2, 3), (2, 7), (4, 5), (4, 9), (8, 5), (8, 9)]
    shop.put(1, None)  # rows that were kept are joined with those that come later
    shop.tick()
    shop.tick()
    assert sorted(shop.pairs())[-2:] == [(10, 3), (10, 7)]
    check_one_row_skipped(shop, pipeline, "6")


def test_lookup_joins(tmp_path, monkeypatch):
    breaks_at(monkeypatch, AppendOnlyJoinShard, "2")
    shop = shop_of(tmp_path, range(5), rows=5)
    pipeline = shop.born()._home
    hosted(shop, pipeline, tmp_path).tick()
    for part in (1, 2, 3, 9):
        shop.order(part)
    shop.tick()
    shop.tick()
    assert [(row[0], row[2]) for row in shop.results()] == [(1, 1), (3, 3)]
    check_one_row_skipped(shop, pipeline, "2")


class ViewTables(PairShop):
    """Two tables with the shard of their views; their rows are what it has of them."""

    views = Views((LINES, ORDERS))

    def __init__(self, *queries):
        super().__init__(*queries, tables=self.views.tables)
        self.topics = ["queries", "changes.orders", "changes.lines", refreshes_topic(self.views.name)]

    def born(self):
        return ViewShard(self.views)

    def keys(self):
        return {side.table.name: sorted(side.relation.keys()) for side in self.shard.core()._sides}


VIEW = parse(
    "CREATE QUERY v AS SELECT orders.part, COUNT(*) FROM orders JOIN lines ON orders.part = lines.part"
    " GROUP BY orders.part REFRESH WITHIN '5 s'"
)


def test_views(tmp_path, monkeypatch):
    breaks_at(monkeypatch, RowsShard, "3")
    shop = hosted(ViewTables(VIEW), ViewTables.views.name, tmp_path)
    shop.tick()
    for number in range(5):
        shop.now += 1000
        shop.tables["orders"].insert(id=number, part=number, note="n")
        shop.tables["lines"].insert(id=number + 10, part=number, amount=1.0)
    shop.tick()
    shop.tick()
    assert shop.keys() == {"orders": ["0", "1", "2", "4"], "lines": ["10", "11", "12", "13", "14"]}
    check_one_row_skipped(shop, ViewTables.views.name, "3")


def test_requests_that_break_the_shard_of_views_are_skipped(tmp_path, monkeypatch):
    import pyarrow as pa

    broken(monkeypatch, ViewShard, "_request", lambda shard, entry: b"poison" in entry.payload)
    shop = hosted(ViewTables(VIEW), ViewTables.views.name, tmp_path)
    for name in ("poison", "v"):
        row = {"view": name, "request": "r", "at": 5}
        shop.log.append(refreshes_topic(ViewTables.views.name), pa.RecordBatch.from_pylist([row], REQUESTS))
    shop.tables["orders"].insert(id=1, part=1, note="n")
    shop.tick()
    shop.tick()
    assert len(shop.shard.skipped) == 1
    assert shop.keys()["orders"] == ["1"]
