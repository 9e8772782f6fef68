"""Tables on real Spark: rows that change, subscriptions from a file that come to share channels by every procedure, a
pipeline that is killed.
"""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live
from test_table_shard import AREA, STOCK, Model, inside, number_of

from tolerant.client import Client
from tolerant.edge import Table
from tolerant.sql import parse, render
from tolerant.testing.channel_listener import ChannelListenerFactory
from tolerant.transport.rows import unpack

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RANGES = [(0, 10), (5, 5), (-100, 100)]
CORNERS = "SELECT * FROM stock WHERE x BETWEEN low AND 50 AND y BETWEEN 0 AND top"
UNIONS = f"CREATE QUERY unions(low, top) AS {CORNERS} WITH (channel = 100, procedure = 'union')"
PIECES = f"CREATE QUERY pieces(low, top) AS {CORNERS} WITH (channel = 0.001, procedure = 'pieces')"
SUBSCRIBED = {  # no two alike: a subscription's number is made of its parameters
    "area": RANGES,
    "unions": [(0, 3), (5, 1), (7, 2)],
    "pieces": [(0, 2), (5, 3), (7, 0), (10, 1)],
}


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    (tmp_path / "subs.csv").write_text("high,low\n" + "".join(f"{high},{low}\n" for low, high in RANGES) + "1,2\n")
    (tmp_path / "stock.csv").write_text("id,name,x,y\n1,first,5.0,0\n2,second,50.0,0\n")
    table = render(STOCK).replace("KEY (id)", "KEY (id) FROM 'stock.csv'")
    corners = "".join(f"SUBSCRIBE {name}{values};\n" for name in ("unions", "pieces") for values in SUBSCRIBED[name])
    statements = f"{table};\n{render(AREA)};\n{UNIONS};\n{PIECES};\nSUBSCRIBE area FROM 'subs.csv';\n{corners}"
    one = Live(tmp_path, statements, stream="")
    yield one
    one.close()


def play(table: Table, model: Model, chance: random.Random, count: int) -> None:
    for _ in range(count):
        key, x = chance.randrange(6), chance.choice([0.0, 5.0, 7.0, 10.0, 11.0])
        if chance.random() < 0.7:
            row = {"id": key, "name": "n", "x": x, "y": chance.randrange(4)}
            table.update(row)
            model.put(str(key), row)
        else:
            table.delete(key)
            model.drop(str(key))
        time.sleep(0.01)


def numbered(name: str, values: tuple[int, int]) -> int:
    """The subscription's number: that of one with the same parameters to a template that takes the same."""
    return number_of(parse(f"SUBSCRIBE {'area' if name == 'area' else 'box'}{values}"))


def heard(live: Live, name: str) -> ChannelListenerFactory:
    """What a query's channels say to each subscription, strictly by their headers."""
    ranges = {numbered(name, values): values for values in SUBSCRIBED[name]}
    entries = live.log.read([f"channels.{name}", f"answers.{name}"])
    found = ChannelListenerFactory(lambda number, row: inside(name, ranges[number], row)).read(entries)
    assert found.faults == []
    return found


def delivered(live: Live) -> dict[tuple[str, int], list[tuple]]:
    return {
        (name, number): [(row["kind"], row["key"], row["row.x"], row["row.y"]) for row in rows]
        for name in SUBSCRIBED
        for number, rows in heard(live, name).told.items()
    }


def shared(live: Live, name: str) -> set[int]:
    """The channels in the table that are not a subscription's own."""
    entries = live.log.read(f"channels.{name}")
    found = {channel for entry in entries for channel in unpack(entry.payload).column("channel").to_pylist()}
    return {channel for channel in found if channel >= 0}


def test_rows_reach_their_subscriptions_through_a_kill(live: Live) -> None:
    chance, model = random.Random(3), Model()
    live.run()
    live.wait(lambda: live.log.latest("status.stock", "summary/0"), "the table's pipeline")
    for name, values in ((name, values) for name, held in SUBSCRIBED.items() for values in held):
        model.subscribed[numbered(name, values)] = (name, values)
    said = (live.folder / "run-0.txt").read_text()
    assert "3 from subs.csv, 1 refused" in said
    assert "row 4: the range of x is empty" in said

    # The subscriptions stood in the log when time began: they hear of the file's rows, a later one finds them there.
    model.put("1", {"id": 1, "name": "first", "x": 5.0, "y": 0})
    model.put("2", {"id": 2, "name": "second", "x": 50.0, "y": 0})
    wide = Client(live.log).subscribe("area", low=-100, high=100)
    assert {str(change.row["id"]): change.row for change in wide.ready()} == model.rows

    with Table("stock", live.uri, "shop") as table:
        play(table, model, chance, 40)
        live.kill(live.runs[-1])
        play(table, model, chance, 40)
        live.run()
        play(table, model, chance, 40)
    live.wait(lambda: delivered(live) == model.delivered, "every change at every subscription, once")

    # By now a boundary has passed: all of them share a channel, and a row goes over it once.
    live.wait(lambda: all(shared(live, name) for name in SUBSCRIBED), "channels that are shared")
    with Table("stock", live.uri, "shop") as table:
        play(table, model, chance, 20)
        live.kill(live.runs[-1])
        live.run()
        play(table, model, chance, 20)
    live.wait(lambda: delivered(live) == model.delivered, "every change over shared channels, once")
    assert heard(live, "pieces").wasted == 0  # nobody is sent what is not theirs
    assert heard(live, "unions").wasted > 0
    assert "of them shared" in live.tolerant("explain", "area").stdout

    changes = list(wide.changes(stop=lambda: True))
    while wide.poll():
        changes += wide.ready()
    told = model.delivered["area", wide.number][2:]
    assert [(c.kind, str(c.row["id"]), c.row["x"], c.row["y"]) for c in changes] == told

    # A template can be watched from the terminal, and one who unsubscribes is let go.
    watched = live.tolerant("watch", "area(-100, 100)", "--json", "--for", "2").stdout.splitlines()
    assert {json.loads(line)["row"]["id"] for line in watched} == {int(key) for key in model.rows}
    assert "unsubscribed from area" in live.tolerant("sql", "UNSUBSCRIBE area(5, 5)").stdout
    assert "subscriptions" in live.tolerant("status").stdout
