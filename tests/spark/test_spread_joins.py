"""Joins spread over several shards: together they say, to the row, what one shard would."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_joins_shard import PARAMETERS, QUERIES, STEPS, TABLES, Holder, JoinPipeline, drain, play, results
from test_pair_shard import PairPipeline

from tolerant.cli.figures import table_figures
from tolerant.joins import stabbing_partition
from tolerant.pipeline.range_partitioner import RangePartitioner
from tolerant.pipeline.shard_range import Part
from tolerant.sql import Catalogue, PipelineId, StatementError, decode, encode, parse, render
from tolerant.sql.join_spreads import Ranges, Stretch
from tolerant.sql.subscriptions import SubscriptionFile, subscription_row
from tolerant.transport.subscriptions import subscription_batches

RANGED = ", lowest = -0.9, highest = 1.5, reach = 1"
KINDS = [(("matched", "turned"), ""), (("near", "close"), ""), (("near", "close"), RANGED)]
"""Templates that share a pipeline when they have shards: by the product, by subscriptions, and by ranges."""


def spread(name, shards, known=""):
    return parse(f"{render(QUERIES[name])} WITH (shards = {shards}{known if shards > 1 else ''})")


class SpreadJoins(JoinPipeline):
    """Supply and demand with queries of one kind."""

    def __init__(self, names, shards, known=""):
        self.names = names
        PairPipeline.__init__(self, *(spread(name, shards, known) for name in names), tables=TABLES)

    def join_all(self):
        for name in self.names:
            for values in PARAMETERS[name]:
                if values:
                    self.join(name, values)

    def said(self):
        """All that was said: who gained or lost which row, and when."""
        return sorted(
            (name, one, row["at"], row["kind"], str({k: v for k, v in row.items() if k.startswith("row.")}))
            for name in self.names
            for row in self.rows(f"answers.{name}")
            for one in row["subscriptions"]
        )


class SpreadHolder(Holder):
    """Holds rows by all their columns: shards are heard one after the other."""

    def take(self, changes):
        for change in changes:
            key = tuple(change.row.items())
            assert (key in self.held) == (change.kind == "delete")
            if change.kind == "insert":
                self.held[key] = change.row
            else:
                del self.held[key]
            self.position = change.position or self.position

    def check(self, rows):
        self.take(drain(self.one))
        self.compare(rows)

    def compare(self, rows):
        expected = {tuple(row.items()) for row in results(self.name, self.values, rows).values()}
        assert self.held.keys() == expected, (self.name, self.values)


@pytest.mark.parametrize(("names", "known"), KINDS)
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.lists(STEPS, max_size=8), steps=st.lists(STEPS, max_size=25), shards=st.integers(2, 3))
def test_shards_say_together_what_one_would(names, known, first, steps, shards):
    one, several, rows = SpreadJoins(names, 1), SpreadJoins(names, shards, known), {"supply": {}, "demand": {}}
    for step in first:
        play(several, rows, step)
        play(one, {"supply": {}, "demand": {}}, step)
    for pipeline in (one, several):
        pipeline.join_all()
        pipeline.tick()
    holders = [SpreadHolder(several, name, values) for name in names for values in PARAMETERS[name]]
    for step in steps:
        if step[0] == "check":
            several.tick()
            one.tick()
            for holder in holders:
                holder.check(rows)
        play(several, rows, step)
        if step[0] in ("put", "drop", "tick"):  # the batches of one are others, and nothing stops it
            play(one, {"supply": {}, "demand": {}}, step if step[0] != "tick" else ("tick", None))
    for pipeline in (one, several):
        pipeline.tick()
    for holder in holders:
        holder.check(rows)
    assert several.said() == one.said()
    again = several.new_shard()
    again.restore(several.shard.snapshot())
    assert again.snapshot() == several.shard.snapshot()
    anew, said = several.new_shard(), []
    for entry in several.log.read(several.topics):
        said += anew.apply([entry])
    for name in names:
        before = sorted(entry.payload for entry in several.log.read(f"answers.{name}"))
        assert sorted(o.payload for o in said if o.topic == f"answers.{name}") == before


@pytest.mark.parametrize(("name", "seed", "known"), [("matched", 0, ""), ("near", 1, ""), ("near", 2, RANGED)])
def test_one_who_dies_and_resumes_hears_every_change_once(name, seed, known):
    names = next(names for names, _ in KINDS if name in names)
    chance, pipeline, rows = random.Random(seed), SpreadJoins(names, 3, known), {"supply": {}, "demand": {}}
    pipeline.join_all()
    for key in range(3):
        play(pipeline, rows, ("put", chance.choice(["supply", "demand"]), key, "p", 1, 0.1))
    pipeline.tick()
    values = PARAMETERS[name][0]
    holder = SpreadHolder(pipeline, name, values)
    place = holder.position or holder.one.position
    for _ in range(50):
        kind = chance.choice(["put", "put", "put", "drop", "tick", "listen", "anew"])
        table = chance.choice(["supply", "demand"])
        if kind == "listen":
            changes = drain(pipeline.listen(name, values, str(place)))
            dealt = changes[: chance.randint(0, len(changes))]
            holder.take(dealt)
            place = dealt[-1].position if dealt else place
        elif kind == "anew":  # another pipeline says everything again
            said = pipeline.new_shard().apply(
                [e for e in pipeline.log.read(pipeline.topics) if e.position <= pipeline.position]
            )
            pipeline.log.append_packed([(o.topic, o.payload) for o in said if o.topic.startswith("answers.")])
        elif kind == "tick":
            pipeline.tick()
        elif kind == "drop":
            play(pipeline, rows, ("drop", table, chance.randrange(5)))
        else:
            b = chance.choice([0.1, 0.1, -0.2, 0.3, 1.3])
            play(pipeline, rows, ("put", table, chance.randrange(5), chance.choice("pqrst"), chance.randint(0, 3), b))
    pipeline.tick()
    holder.take(drain(pipeline.listen(name, values, str(place))))
    holder.compare(rows)


def test_rows_are_where_they_are_joined_and_nothing_is_said_twice():
    pipeline, rows = SpreadJoins(("matched", "turned"), 3), {"supply": {}, "demand": {}}
    pipeline.join_all()
    for key in range(40):
        play(pipeline, rows, ("put", "supply", key, chr(97 + key % 13), 1, 0.0))
        play(pipeline, rows, ("put", "demand", key, chr(97 + key % 13), 1, 0.0))
    pipeline.log.append_packed([("changes.supply", b"rubbish")])
    for _ in range(12):
        pipeline.tick()
    sizes = [[len(side.relation) for side in shard._sides] for shard in pipeline.shard.shards]
    assert np.sum(sizes, 0).tolist() == [40, 40]
    assert np.min(sizes) > 0
    play(pipeline, rows, ("put", "supply", 0, "z", 1, 0.0))  # perhaps elsewhere
    play(pipeline, rows, ("drop", "demand", 1))
    for _ in range(12):
        pipeline.tick()
    assert sum(len(side.relation) for shard in pipeline.shard.shards for side in shard._sides) == 79
    assert len(pipeline.rows(f"dead_letters.{pipeline.relation.name}")) == 1
    assert len(pipeline.rows("replies")) == 7  # two queries, five subscriptions
    found = table_figures(pipeline.log, pipeline.relation.name)
    assert found["rows"] == 79
    assert found["results"] == sum(len(pipeline.rows(f"answers.{name}")) for name in pipeline.names)
    assert found["figures"]["matched"]["groups"] == 1
    assert found["figures"]["matched"]["rows"] == 83


def test_bands_are_spread_in_stretches_and_stay_where_they_are():
    pipeline, chance = SpreadJoins(("near", "close"), 3), np.random.default_rng(3)
    types = {"low": "DOUBLE", "high": "DOUBLE"}
    lows = chance.uniform(-50, 50, 900)
    highs = lows + chance.exponential(2, 900)

    def subscribe(chosen, kind="subscribe"):
        for batch in subscription_batches(
            "near", types, {"low": pa.array(lows[chosen]), "high": pa.array(highs[chosen])}, kind
        ):
            pipeline.log.append(pipeline.topics[-1], batch)
        pipeline.tick()

    def owned():
        held = [shard._queries["near"].subscriptions for shard in pipeline.shard.shards]
        return [set(one.ids()[one.columns()["@own"]].tolist()) for one in held]

    subscribe(slice(0, 300))
    first = owned()
    assert [len(part) for part in first] == [100, 100, 100]
    groups = [shard._queries["near"].figures()["groups"] for shard in pipeline.shard.shards]
    assert sum(groups) <= len(stabbing_partition(lows[:300], highs[:300])[1]) + 2
    subscribe(slice(200, 900))
    then = owned()
    assert all(before <= after for before, after in zip(first, then, strict=True))
    assert sum(map(len, then)) == 900 == len(set.union(*then))
    assert min(map(len, then)) > 250
    subscribe(slice(0, 450), "unsubscribe")
    left = owned()
    assert sum(map(len, left)) == 450
    pipeline.restart()
    assert owned() == left
    pipeline.table("supply").insert(id=1, product="p", a=1.0, b=0.0)
    pipeline.table("demand").insert(id=1, product="p", c=1.0, b=5.0)
    for _ in range(12):
        pipeline.tick()
    told = [one for row in pipeline.rows("answers.near") for one in row["subscriptions"]]
    assert len(told) == len(set(told)) == sum((lows[450:] <= 5) & (highs[450:] >= 5))
    found = table_figures(pipeline.log, pipeline.relation.name)
    assert (found["rows"], found["subscriptions"]["near"], found["figures"]["near"]["rows"]) == (2, 450, 2)


def test_rows_are_where_bands_reach_them():
    chance, shards = np.random.default_rng(4), 4
    pipeline = SpreadJoins(("near",), shards, ", lowest = 0, highest = 100, reach = 5")
    pipeline.join("near", (-5, 2))
    rows = {"supply": {}, "demand": {}}
    for key in range(60):
        for table in rows:
            b = float(chance.choice([25.0, 50.0, 75.0])) if key < 6 else chance.uniform(-10, 110)
            play(pipeline, rows, ("put", table, key, "p", 1, b))
    for _ in range(12):
        pipeline.tick()
    held = [{side.table.name: side.relation.rows()["b"] for side in shard._sides} for shard in pipeline.shard.shards]
    bs = {table: np.array([row["b"] for row in rows[table].values()]) for table in rows}
    for shard, one in enumerate(held):
        low, high = [-np.inf, 25, 50, 75, np.inf][shard : shard + 2]
        assert sorted(one["supply"]) == sorted(bs["supply"][(bs["supply"] >= low) & (bs["supply"] < high)])
        near = (bs["demand"] >= low - 5) & (bs["demand"] <= high + 5)
        assert sorted(one["demand"]) == sorted(bs["demand"][near])
    assert sum(len(one["demand"]) for one in held) > 60
    found = table_figures(pipeline.log, pipeline.relation.name)
    assert (found["rows"], found["figures"]["near"]["rows"], found["figures"]["near"]["groups"]) == (120, 120, 1)
    SpreadHolder(pipeline, "near", (-5, 2)).check(rows)
    told = [str(row) for row in pipeline.rows("answers.near")]
    assert len(told) == len(set(told)) == len(results("near", (-5, 2), rows))


def test_bands_beyond_the_reach_are_refused_everywhere(tmp_path):
    pipeline = SpreadJoins(("near",), 2, RANGED)
    query = spread("near", 2, RANGED)
    with pytest.raises(StatementError, match="beyond the query's reach"):
        subscription_row(parse("SUBSCRIBE near(-1, 1.5)"), query, TABLES)
    (tmp_path / "subs.csv").write_text("low,high\n-1,1\n-2,0\n0,0.5\n")
    file = SubscriptionFile(tmp_path / "subs.csv", query, TABLES)
    assert sum(batch.num_rows for batch in file) == file.accepted == 2
    assert file.reasons[0][0] == 2
    assert "beyond the reach of ± 1" in file.reasons[0][1]
    columns = {"low": pa.array([-2.0]), "high": pa.array([0.0])}
    for batch in subscription_batches("near", {"low": "DOUBLE", "high": "DOUBLE"}, columns):
        pipeline.log.append(pipeline.topics[-1], batch)  # by somebody who did not look
    pipeline.tick()
    (dead,) = pipeline.rows(f"dead_letters.{pipeline.relation.name}")
    assert "beyond the reach" in dead["reason"]
    catalogue = Catalogue([*TABLES])
    wide = parse(f"{render(QUERIES['close']).replace('0.5', '7')} WITH (shards = 2{RANGED})")
    with pytest.raises(StatementError, match="beyond its reach of 1"):
        catalogue.check(wide)


@pytest.mark.parametrize(
    ("shards", "known", "ranged"),
    [
        (4, (0, 100, 5), True),
        (4, (0, 100, 49), True),
        (4, (0, 100, 50), False),
        (1, (0, 100, 5), False),
        (4, None, False),
    ],
)
def test_the_plan_that_copies_less_is_taken(shards, known, ranged):
    select = replace(QUERIES["near"].select, shards=shards, stretch=known and Stretch(*map(float, known)))
    assert select.is_by_range == ranged == (select.spread_ranges is not None)
    assert str(PipelineId.of(select)).endswith(".bands") == (shards > 1 and not ranged)
    if known and shards > 1:  # the estimate, against rows that lie evenly
        bs = np.linspace(0, 100, 10_001)
        parts = [Part(shard, shards, Ranges(select.left, shards, select.stretch)) for shard in range(shards)]
        counted = np.mean(np.sum([part.holds(select.right, bs) for part in parts], 0))
        assert counted == pytest.approx(select.copies, rel=0.35)
        assert (np.sum([part.holds(select.left, bs) for part in parts], 0) == 1).all()


@given(sizes=st.lists(st.integers(1, 40), max_size=8), shards=st.integers(2, 5), seed=st.integers(0, 9))
def test_every_band_has_one_shard(sizes, shards, seed):
    chance, held = np.random.default_rng(seed), np.zeros(0)
    parts = [RangePartitioner(Part(shard, shards)) for shard in range(shards)]
    for size in sizes:
        lows = np.where(chance.random(size) < 0.1, -np.inf, chance.integers(0, 30, size))
        assert (np.sum([part.place(held, lows) for part in parts], 0) == 1).all()
        for place, part in enumerate(parts):
            parts[place] = RangePartitioner(Part(place, shards))
            parts[place].load(part.state())
        held = np.concatenate([held, lows])


def test_queries_with_shards_have_homes_of_their_own():
    homes = {name: str(PipelineId.of(spread(name, 4).select)) for name in QUERIES}
    assert homes["matched"] == homes["turned"] != homes["near"] == homes["close"] == "demand+supply@4.bands"
    assert homes["matched"].startswith("demand+supply@4.")
    assert (
        PipelineId.parse(homes["matched"]).relations
        == PipelineId.parse(homes["near"]).relations
        == ("demand", "supply")
    )
    assert str(PipelineId.of(spread("near", 1).select)) == "demand+supply"
    assert parse(render(spread("matched", 4))) == spread("matched", 4)
    ranged = {name: spread(name, 4, RANGED) for name in ("near", "close")}
    assert str(PipelineId.of(ranged["near"].select)) == str(PipelineId.of(ranged["close"].select)) not in homes.values()
    assert all(parse(render(query)) == decode(encode(query)) == query for query in ranged.values())


@pytest.mark.parametrize("name", QUERIES)
def test_options_are_checked(name):
    wrong = [("shards = 0", "from 1 to 64"), ("shrink = 1", "there is no option shrink")]
    if name in ("near", "close"):
        wrong += [("reach = 1", "option reach needs option lowest"), ("lowest = 'x'", "takes a number")]
        wrong += [
            ("lowest = 2, highest = 1, reach = 0", "take a stretch"),
            ("reach = -1, lowest = 0, highest = 1", "take"),
        ]
    for option, message in wrong:
        with pytest.raises(StatementError, match=message):
            parse(f"{render(QUERIES[name])} WITH ({option})")
