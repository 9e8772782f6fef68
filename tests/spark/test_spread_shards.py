"""Rows that are kept spread over several shards: together they are, to the row, what one shard would be."""

import random

import numpy as np
import pytest
from test_kept_shard import LINES, ORDERS, AppendOnlyPipeline, drain, drifting
from test_lookup_join_shard import LOOKED, PARTS, LookupPipeline, expected, written
from test_lookup_join_shard import ORDERS as OF_ORDERS

from tolerant.client import Client, kept_share
from tolerant.kinds.kept_joins.lookup_join import fetch_from
from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.pipeline.partitioning import PairSplit
from tolerant.sql import PipelineId, StatementError, parse, render
from tolerant.sql.pipeline_inputs import join_input
from tolerant.testing.several_shards import SeveralShards

SPREAD = "SELECT * FROM orders JOIN lines ON orders.part = lines.part KEEP {rows} ROWS WITH (shards = {shards})"


class SpreadPipeline(AppendOnlyPipeline):
    """Two growing tables with one query, which may have several shards."""

    def __init__(self, query, tables=(ORDERS, LINES)):
        self.query = query
        super().__init__(query, tables=tables)


class SpreadLookups(LookupPipeline):
    """The same for rows that are looked up."""

    def new_shard(self):
        shards = range(self.relation.shards)
        fetch = fetch_from(self.log)
        return SeveralShards(
            PairSplit(self.relation), [AppendOnlyJoinShard(self.relation, shard, fetch) for shard in shards]
        )


def spread(rows, shards):
    return parse(f"CREATE QUERY kept AS {SPREAD.format(rows=rows, shards=shards)}")


def play(pipeline, orders, lines, seed=0):
    chance = random.Random(seed)
    for order, line in zip(orders, lines, strict=True):
        pipeline.put(order, line)
        if chance.random() < 0.05:
            pipeline.tick(cut=chance.choice([None, 1, 3]))
        if chance.random() < 0.03:
            pipeline.take_snapshot() if chance.random() < 0.5 else pipeline.restart()
    pipeline.tick()


def test_a_query_with_shards_has_a_home_of_its_own():
    select = spread(10, 4).select
    home = str(PipelineId.of(select))
    assert home.startswith("lines~orders@4.")
    assert PipelineId.parse(home).relations == ("lines", "orders")
    pair = join_input(PipelineId.parse(home), (ORDERS, LINES), select)
    assert (pair.name, pair.shards, pair.on) == (home, 4, ("part", "part"))
    assert pair == join_input(PipelineId.parse(home), (LINES, ORDERS))
    other = parse(
        "CREATE QUERY q AS SELECT * FROM lines JOIN orders ON lines.id = orders.part KEEP 5 ROWS WITH (shards = 4)"
    )
    assert str(PipelineId.of(other.select)) not in (home, "lines~orders")
    assert parse(render(other)) == other


@pytest.mark.parametrize(("shards", "noise"), [(2, 0), (5, 8)])
def test_shards_find_together_what_one_would(shards, noise):
    orders, lines = (values.tolist() for values in drifting(200, 20, noise, seed=shards))
    one, several = SpreadPipeline(spread(30, 1)), SpreadPipeline(spread(30, shards))
    play(one, orders, lines)
    play(several, orders, lines, seed=1)
    assert sorted(several.pairs()) == sorted(one.pairs())
    assert len(one.pairs()) > 20
    rows = [shard._queries["kept"]._rows for shard in several.shard.shards]
    assert sum(len(part) for parts in rows for part in parts) == one.shard._queries["kept"].held <= 30
    assert sum(bool(sum(map(len, parts))) for parts in rows) > 1
    whole = {row["row.orders.id"]: row for row in one.rows("answers.kept")}
    for row in several.rows("answers.kept"):
        assert row["row.orders.note"] == whole[row["row.orders.id"]]["row.orders.note"]
    assert kept_share(several.log, "kept", shards) == kept_share(one.log, "kept")
    assert len(several.rows("replies")) == len(one.rows("replies"))
    again = several.new_shard()
    again.restore(several.shard.snapshot())
    assert again.snapshot() == several.shard.snapshot()


def test_bad_rows_are_buried_once():
    pipeline = SpreadPipeline(spread(10, 3))
    pipeline.put(order=3)
    pipeline.table("orders").delete(2)
    pipeline.log.append_packed([("changes.orders", b"rubbish")])
    pipeline.put(line=3)
    pipeline.tick()
    letters = pipeline.rows(f"dead_letters.{pipeline.relation.name}")
    assert [(row["kind"], row["key"]) for row in letters] == [("", ""), ("delete", "2")]
    assert pipeline.pairs() == [(2, 5)]


@pytest.mark.parametrize("seed", range(2))
def test_one_who_dies_and_resumes_hears_every_result_once(seed):
    chance, pipeline, heard = random.Random(seed), SpreadPipeline(spread(20, 3)), []
    for part in range(6):
        pipeline.put(part, part)
    pipeline.tick()
    one = Client(pipeline.log).subscribe("kept")
    place, before = one.position, set(pipeline.pairs())
    for _ in range(45):
        kind = chance.choice(["put", "put", "put", "tick", "anew", "listen"])
        if kind == "put":
            pipeline.put(chance.choice([None, chance.randrange(6)]), chance.choice([None, chance.randrange(6)]))
        elif kind == "tick":
            pipeline.tick()
        elif kind == "anew":  # another pipeline says everything again
            said = pipeline.new_shard().apply(
                [e for e in pipeline.log.read(pipeline.topics) if e.position <= pipeline.position]
            )
            pipeline.log.append_packed([(o.topic, o.payload) for o in said if o.topic == "answers.kept"])
        else:
            changes = drain(Client(pipeline.log).subscribe("kept", position=str(place)))
            dealt = changes[: chance.randint(0, len(changes))]
            heard += [(change.row["orders.id"], change.row["lines.id"]) for change in dealt]
            place = dealt[-1].position if dealt else place
    pipeline.tick()
    rest = drain(Client(pipeline.log).subscribe("kept", position=str(place)))
    heard += [(change.row["orders.id"], change.row["lines.id"]) for change in rest]
    assert len(heard) == len(set(heard))
    assert set(heard) == set(pipeline.pairs()) - before


def test_rows_are_looked_up_in_several_shards(tmp_path):
    written(tmp_path, range(200))
    asked = LOOKED.format(rows=25).replace(" ROWS;", " ROWS WITH (shards = {});")
    orders = (np.random.default_rng(5).zipf(1.3, 600) % 300).tolist()
    said = []
    for shards in (1, 3):
        pipeline = SpreadLookups(tmp_path, OF_ORDERS + PARTS.format(kind="parquet") + asked.format(shards))
        for k, part in enumerate(orders):
            pipeline.order(part)
            if k % 41 == 0:
                pipeline.tick()
                pipeline.take_snapshot() if k % 2 else pipeline.restart()
        pipeline.tick()
        assert sorted(pipeline.results()) == expected(orders, set(range(200)))
        assert sum(len(shard._queries["looked"]._rows) for shard in pipeline.shard.shards) == 25
        said.append(kept_share(pipeline.log, "looked", shards))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("shards = 0", "from 1 to 64, found 0"),
        ("shards = 'a'", "found 'a'"),
        ("shrink = 1", "there is no option shrink"),
    ],
)
def test_options_are_checked(option, message):
    text = SPREAD.format(rows=5, shards=1).replace("shards = 1", option)
    with pytest.raises(StatementError, match=message):
        parse(f"CREATE QUERY q AS {text}")
