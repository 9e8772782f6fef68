"""Shared channels in a table's shard: each subscription hears exactly its rows, whoever it shares a channel with."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_table_shard import TOPICS, StockPipeline

from tolerant.client import Client, StatementClient
from tolerant.kinds.ranges.channel_groups import Regrouping, coarse, grain, renumbered, tiles
from tolerant.kinds.ranges.channel_table import cut_exactly
from tolerant.kinds.ranges.sharing import Sharing
from tolerant.merging import Costs, RowRates
from tolerant.sql import Subscribe, Unsubscribe, parse
from tolerant.streams import SECOND
from tolerant.testing.channel_listener import ChannelListenerFactory
from tolerant.transport.rows import unpack

CITY = parse("CREATE TABLE stock (id BIGINT, x DOUBLE, y INT, z BIGINT) KEY (id)")
PRICES = "channel = 6, transfer = 1, waste = 0.3"
BETWEEN = "SELECT * FROM stock WHERE x BETWEEN x1 AND x2 AND y BETWEEN y1 AND y2"
TILES = {
    procedure: parse(f"CREATE QUERY {procedure}s(x1, y1, x2, y2) AS {BETWEEN} WITH ({PRICES}, procedure = {procedure})")
    for procedure in ("box", "union", "pieces")
}
LINE = parse(f"CREATE QUERY line(low, high) AS SELECT * FROM stock WHERE z BETWEEN low AND high WITH ({PRICES})")
SINGLE_SHARD = parse(f"CREATE QUERY alone(x1, y1, x2, y2) AS {BETWEEN} WITH (method = none)")


class CityPipeline(StockPipeline):
    """A table of places, and those who watch it."""

    def __init__(self, *queries):
        super().__init__(*queries, stock=CITY)
        self.watching = {}

    def put(self, key, x=0.0, y=0, z=0):
        self.table().update(id=key, x=float(x), y=int(y), z=int(z))

    def watch(self, name, *values):
        number = self.subscribe(Subscribe(name, values))
        self.watching[name, number] = values
        return number

    def unwatch(self, name, *values):
        return self.subscribe(Unsubscribe(name, values))

    def period(self):
        """A boundary passes."""
        self.now += 9 * SECOND
        self.tick()

    def hearing(self, query):
        entries = self.log.read([f"channels.{query}", f"answers.{query}"])
        listener = ChannelListenerFactory(lambda number, row: inside(query, self.watching[query, number], row)).read(
            entries
        )
        assert listener.faults == []
        return listener

    def figures(self, query):
        body = unpack(self.shard._status().payload).column("body")[0].as_py()
        return json.loads(body)["figures"][query]


def inside(query, values, row):
    if query == "line":
        return values[0] <= row["z"] <= values[1]
    x1, y1, x2, y2 = values
    return x1 <= row["x"] <= x2 and y1 <= row["y"] <= y2


def crowded(name="boxs", query=None, rows=120):
    """A hundred rows in a corner of the city, whom four watch; two others are far away."""
    city = CityPipeline(query or TILES["box"])
    for x in range(4):
        city.watch(name, x, 0, x + 6, 9)
    city.watch(name, 500, 0, 510, 9)
    city.watch(name, 505, 0, 515, 9)
    city.now += 2 * SECOND  # the history begins at a boundary
    for key in range(rows):
        city.put(key, x=key % 12, y=key % 10)
    return city


def test_neighbours_share_a_channel_from_the_next_boundary_on():
    city = crowded()
    city.tick()
    assert all(row["channel"] < 0 for row in city.rows("answers.boxs"))  # at first everyone has their own
    city.period()
    opened = {row["channel"]: row for row in city.rows("channels.boxs")}
    assert {channel for channel in opened if channel >= 0} == {0, 1}
    assert sorted(len(opened[channel]["joined"]) for channel in (0, 1)) == [2, 4]
    shared = next(row for row in opened.values() if len(row["joined"]) == 4)
    assert shared["regions"] == [[0.0, 0.0, 9.0, 9.0]]
    assert shared["from"] == 1_000_010 * SECOND + 1
    before = len(city.rows("answers.boxs"))
    city.put(1000, x=5.0, y=5)
    city.tick()
    (row,) = city.rows("answers.boxs")[before:]  # once, for all four of them
    assert (row["channel"], row["version"]) == (shared["channel"], shared["version"])
    assert sum(len(rows) for rows in city.hearing("boxs").told.values()) > 4 * 50


def test_who_comes_is_served_at_once_and_who_goes_is_not_served():
    city = crowded()
    city.period()
    late = city.watch("boxs", 1, 0, 7, 8)
    city.put(2000, x=5.0, y=5)
    city.tick()
    assert [row["key"] for row in city.hearing("boxs").told[late]] == ["2000"]
    gone = city.unwatch("boxs", 0, 0, 6, 9)
    told = len(city.hearing("boxs").told[gone])
    city.put(2001, x=5.0, y=5)
    city.tick()
    assert len(city.hearing("boxs").told[gone]) == told
    city.period()  # regrouped: it shares a channel now
    city.put(2002, x=5.0, y=5)
    city.tick()
    assert [row["key"] for row in city.hearing("boxs").told[late]] == ["2000", "2001", "2002"]
    assert city.hearing("boxs").members[~late] == set()
    assert len(city.hearing("boxs").told[gone]) == told


def test_with_pieces_each_is_a_channel_and_nothing_is_in_vain():
    query = parse(f"CREATE QUERY parts(x1, y1, x2, y2) AS {BETWEEN} WITH (channel = 0.1, procedure = pieces)")
    city = CityPipeline(query)
    left, right = city.watch("parts", 0, 0, 6, 9), city.watch("parts", 4, 0, 9, 9)
    city.now += 2 * SECOND
    for key in range(120):
        city.put(key, x=key % 12, y=key % 10)
    city.tick()
    city.period()
    found = city.hearing("parts")
    opened = {channel: (found.members[channel], regions) for channel, regions in found.regions.items()}
    assert len(opened) == 3
    assert [members for _, members in sorted((regions, members) for members, regions in opened.values())] == [
        {left},
        {left, right},
        {right},
    ]
    assert city.figures("parts")["channels"] == 3
    before = len(city.rows("answers.parts"))
    for key, x in enumerate((2.0, 4.0, 6.0, 8.0), 1000):  # 4 and 6 are edges, and of both
        city.put(key, x=x, y=5)
    city.tick()
    assert len({row["channel"] for row in city.rows("answers.parts")[before:]}) == 3
    assert len(city.rows("answers.parts")[before:]) == 4
    found = city.hearing("parts")
    assert [row["key"] for row in found.told[left][-3:]] == ["1000", "1001", "1002"]
    assert [row["key"] for row in found.told[right][-3:]] == ["1001", "1002", "1003"]
    assert found.wasted == 0
    city.unwatch("parts", 0, 0, 6, 9)  # its own piece carries nothing more, the common one does
    city.put(2000, x=2.0, y=5)
    city.put(2001, x=5.0, y=5)
    city.tick()
    assert [row["key"] for row in city.hearing("parts").told[right][-1:]] == ["2001"]
    assert city.figures("parts")["channels"] == 2
    third = city.watch("parts", 8, 0, 20, 9)
    city.put(2002, x=8.5, y=5)
    city.period()
    now = {channel for channel, members in city.hearing("parts").members.items() if channel >= 0 and members}
    assert len(now) == 3
    assert not now & opened.keys()  # cut otherwise
    city.watch("parts", 500, 0, 520, 9)
    city.put(2003, x=8.5, y=5)
    city.period()
    assert {c for c, members in city.hearing("parts").members.items() if c >= 0 and members} == now
    assert [row["key"] for row in city.hearing("parts").told[third]] == ["2002", "2003"]


def test_a_channel_that_everyone_leaves_carries_nothing():
    city = crowded()
    city.period()
    for x in range(4):
        city.unwatch("boxs", x, 0, x + 6, 9)
    before = len(city.rows("answers.boxs"))
    city.put(2001, x=5.0, y=5)
    city.tick()
    city.period()
    assert len(city.rows("answers.boxs")) == before
    assert city.figures("boxs")["channels"] == 1
    assert city.figures("boxs")["unheard"] > 0


def test_nothing_is_shared_where_the_statement_says_so():
    city = crowded("alone", SINGLE_SHARD)
    city.period()
    city.period()
    assert city.rows("channels.alone") == []
    assert city.figures("alone")["channels"] == 6


def test_a_client_that_resumes_after_the_channels_changed_misses_nothing():
    city = crowded()
    city.tick()
    given = {"x1": 2.0, "y1": 0.0, "x2": 8.0, "y2": 9.0}
    first = Client(city.log).subscriptions("boxs", **{name: [value] for name, value in given.items()})[0]
    city.put(500, x=5.0, y=5)
    city.tick()
    list(first.ready())
    first.poll()
    kept = list(first.ready())[-1].position
    for key in range(501, 520):
        city.put(key, x=5.0, y=key % 10)
        city.watch("boxs", 3, 0, 8, key)
        city.period()
    assert len({row["version"] for row in city.rows("channels.boxs")}) > 3
    again = Client(city.log).subscribe("boxs", position=str(kept), **given)
    while again.poll():
        pass
    assert [change.row["id"] for change in again.ready()] == list(range(501, 520))


def test_one_who_still_listens_hears_nothing_once_it_is_unsubscribed_until_it_is_subscribed_again():
    city = crowded()
    city.period()
    listening = Client(city.log).subscriptions("boxs", x1=[0.0], y1=[0.0], x2=[6.0], y2=[9.0])[0]
    list(listening.ready())

    def heard(key):
        city.put(key, x=5.0, y=5)
        city.tick()
        while listening.poll():
            pass
        return [change.row["id"] for change in listening.ready()]

    assert heard(3000) == [3000]
    city.unwatch("boxs", 0, 0, 6, 9)
    assert heard(3001) == []
    city.period()
    assert heard(3002) == []
    city.watch("boxs", 0, 0, 6, 9)
    assert heard(3003) == [3003]
    city.period()
    assert heard(3004) == [3004]


def test_the_same_log_gives_the_same_groups_however_it_is_cut():
    city = crowded()
    for n in range(6):
        city.watch("boxs", n, n, n + 3, n + 5)
        city.put(700 + n, x=n, y=n)
        city.period()
        if n % 2:
            city.unwatch("boxs", n, 0, n + 6, 9) if n < 4 else None
    entries = city.log.read(TOPICS)
    said = []
    for cut in (1, 3, len(entries)):
        shard, outputs = city.new_shard(), []
        for start in range(0, len(entries), cut):
            outputs += shard.apply(entries[start : start + cut])
            if start % 2:  # as after a crash
                again = city.new_shard()
                again.restore(shard.snapshot())
                shard = again
        said.append([(o.topic, o.payload) for o in outputs if o.topic.startswith(("channels.", "answers."))])
    assert said[0] == said[1] == said[2]
    assert sum(topic == "channels.boxs" for topic, _ in said[0]) > 3


EDGES = st.sampled_from([0, 1, 2, 3, 5, 8])
LARGE = st.sampled_from([-(2**63), -(2**62), 0, 2**53, 2**53 + 1, 2**63 - 1])
TILE_STEPS = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 8), EDGES, EDGES, LARGE),
    st.tuples(st.just("put"), st.integers(0, 8), EDGES, EDGES, LARGE),
    st.tuples(st.just("drop"), st.integers(0, 8)),
    st.tuples(st.just("join"), EDGES, EDGES, EDGES, EDGES, LARGE, LARGE),
    st.tuples(st.just("join"), EDGES, EDGES, EDGES, EDGES, LARGE, LARGE),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("tick")),
    st.tuples(st.just("period")),
    st.tuples(st.just("restart")),
)
NAMES = [*(query.name for query in TILES.values()), "line"]


@settings(deadline=None, max_examples=60)
@given(st.lists(TILE_STEPS, min_size=5, max_size=50))
def test_everybody_hears_exactly_their_answer_whatever_was_merged(steps):
    city, rows, expected, live = CityPipeline(*TILES.values(), LINE), {}, {}, {}

    def tell(kind, row):
        for who, values in live.items():
            if inside(who[0], values, row):
                expected.setdefault(who, []).append((kind, row["id"], row["x"], row["y"]))

    def change(key, row):
        old = rows.pop(key, None)
        if old != row:
            tell("delete", old) if old else None
            tell("insert", row) if row else None
        if row:
            rows[key] = row

    for step in steps:
        match step:
            case ("put", key, x, y, z):
                city.put(key, x, y, z)
                change(key, {"id": key, "x": float(x), "y": y, "z": z})
            case ("drop", key):
                city.table().delete(key)
                change(key, None)
            case ("join", x1, y1, x2, y2, low, high):
                city.tick()
                values = (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2))
                for name in NAMES:
                    own = (min(low, high), max(low, high)) if name == "line" else values
                    live[name, city.watch(name, *own)] = own
            case ("leave", which) if live:
                city.tick()
                who = list(live)[which % len(live)]
                city.unwatch(who[0], *live.pop(who))
            case ("tick",):
                city.tick()
            case ("period",):
                city.tick()
                city.period()
            case ("restart",):
                city.restart()
    city.tick()
    for name in NAMES:
        told = {
            (name, number): [(row["kind"], int(row["key"]), row["row.x"], row["row.y"]) for row in found]
            for number, found in city.hearing(name).told.items()
        }
        assert told == {who: heard for who, heard in expected.items() if who[0] == name}
    assert city.hearing(TILES["pieces"].name).wasted == 0
    again = city.new_shard()
    again.restore(city.shard.snapshot())
    assert again.snapshot() == city.shard.snapshot()


@given(
    st.lists(
        st.tuples(*[st.sampled_from([-(2**63), -5, 0, 1, 2, 7, 2**63 - 2, 2**63 - 1])] * 4), min_size=1, max_size=6
    ),
    st.booleans(),
)
def test_boxes_are_cut_exactly(corners, apart):
    boxes = np.array([[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d in corners])
    cut = cut_exactly(boxes, apart)
    values = sorted({v + d for v in np.unique(boxes).tolist() for d in (-1, 0, 1) if -(2**63) <= v + d < 2**63})
    for x in values:
        for y in values:
            wanted = ((boxes[:, 0] <= x) & (x <= boxes[:, 2]) & (boxes[:, 1] <= y) & (y <= boxes[:, 3])).any()
            held = (cut[:, 0] <= x) & (x <= cut[:, 2]) & (cut[:, 1] <= y) & (y <= cut[:, 3])
            assert np.count_nonzero(held) == wanted


def test_a_group_keeps_the_channel_of_most_of_its_members():
    ids = np.arange(10, 18)
    before = np.array([4, 4, 4, 7, 7, ~15, ~16, ~17])
    channels, free = renumbered(before, np.array([0, 0, 1, 1, 1, 2, 2, 3]), ids, 9)
    assert channels.tolist() == [4, 4, 7, 7, 7, 9, 9, ~17]
    assert free == 10


@pytest.mark.parametrize("values", [(5, 0, 4, 9), (float("nan"), 0, 4, 9)])
def test_a_range_that_holds_nothing_disturbs_nobody(values):
    city = crowded()
    batch = city.rows("subscriptions.stock")[0]
    names = [name for name in batch if name.startswith("parameter.")]
    own = batch | dict(zip(names, values, strict=True)) | {"id": 99}
    entry = city.log.read("subscriptions.stock")[0]
    city.log.append("subscriptions.stock", pa.RecordBatch.from_pylist([own], unpack(entry.payload).schema))
    StatementClient(city.log).send(SINGLE_SHARD)
    city.period()
    city.period()
    assert 99 not in city.hearing("boxs").told
    assert city.figures("boxs")["channels"] == 3


@pytest.mark.parametrize(("procedure", "count"), [("union", 500), ("pieces", 1500), ("pieces", 6000)])
def test_many_ranges_are_grouped_in_little_time_whatever_is_sent(procedure, count):
    rng = np.random.default_rng(1)
    corner = np.repeat(rng.uniform(0, 1000, (count, 2)), 2, axis=0)  # everyone has a twin
    rectangles = np.concatenate([corner, corner + 20], axis=1)
    plan = Regrouping(Sharing(procedure=procedure), 2)
    plan.seen.add(rng.uniform(0, 1000, (2000, 2)))
    groups = plan.groups(1, np.arange(len(rectangles)), rectangles)
    assert (groups[::2] == groups[1::2]).all()
    assert len(np.unique(groups)) <= count


def test_neighbours_are_in_one_tile():
    places = np.arange(40.0)
    rectangles = np.stack([places, np.zeros(40), places + 1, np.ones(40)], axis=1)
    found = tiles(rectangles, 12)
    assert np.unique(found, return_counts=True)[1].tolist() == [10] * 4
    assert np.count_nonzero(np.diff(found)) == 3


def test_many_rectangles_are_looked_at_coarsely_where_a_channel_costs_much():
    rng = np.random.default_rng(1)
    corner = rng.uniform(0, 1000, (20_000, 2))
    rectangles = np.concatenate([corner, corner + rng.uniform(5, 20, corner.shape)], axis=1)
    seen = RowRates(2)
    seen.add(rng.uniform(0, 1000, (5000, 2)))
    seen.on_period_end()
    assert not grain(rectangles, Costs(0.001, 1, 1), seen.size()).any()
    step = grain(rectangles, Costs(1000, 1, 0.01), seen.size())
    wide = coarse(rectangles, step)
    assert len(np.unique(wide, axis=0)) <= 3000
    assert (wide[:, :2] <= rectangles[:, :2]).all()
    assert (wide[:, 2:] >= rectangles[:, 2:]).all()
