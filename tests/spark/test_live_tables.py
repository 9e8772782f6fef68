"""Tables on real Spark: rows that change, subscriptions from a file that come to share a channel, a pipeline that is
killed.
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
from tolerant.testing.channel_hearing import ChannelHearing
from tolerant.transport.rows import unpack

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

RANGES = [(0, 10), (5, 5), (-100, 100)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    (tmp_path / "subs.csv").write_text("high,low\n" + "".join(f"{high},{low}\n" for low, high in RANGES) + "1,2\n")
    (tmp_path / "stock.csv").write_text("id,name,x,y\n1,first,5.0,0\n2,second,50.0,0\n")
    table = render(STOCK).replace("KEY (id)", "KEY (id) FROM 'stock.csv'")
    one = Live(tmp_path, f"{table};\n{render(AREA)};\nSUBSCRIBE area FROM 'subs.csv';", stream="")
    yield one
    one.close()


def play(table: Table, model: Model, chance: random.Random, count: int) -> None:
    for _ in range(count):
        key, x = chance.randrange(6), chance.choice([0.0, 5.0, 7.0, 10.0, 11.0])
        if chance.random() < 0.7:
            row = {"id": key, "name": "n", "x": x, "y": 0}
            table.update(row)
            model.put(str(key), row)
        else:
            table.delete(key)
            model.drop(str(key))
        time.sleep(0.01)


def delivered(live: Live) -> dict[int, list[tuple]]:
    """What the channels say to each subscription, strictly by their headers."""
    ranges = {number_of(parse(f"SUBSCRIBE area({low}, {high})")): (low, high) for low, high in RANGES}
    entries = live.log.read(["channels.area", "answers.area"])
    found = ChannelHearing(lambda number, row: inside("area", ranges[number], row)).read(entries)
    assert found.faults == []
    return {
        number: [(row["kind"], row["key"], row["row.x"], row["row.y"]) for row in rows]
        for number, rows in found.told.items()
    }


def shared(live: Live) -> set[int]:
    """The channels in the table that are not a subscription's own."""
    entries = live.log.read("channels.area")
    found = {channel for entry in entries for channel in unpack(entry.payload).column("channel").to_pylist()}
    return {channel for channel in found if channel >= 0}


def test_rows_reach_their_subscriptions_through_a_kill(live: Live) -> None:
    chance, model = random.Random(3), Model()
    live.run()
    live.wait(lambda: live.log.latest("status.stock", "summary/0"), "the table's pipeline")
    for low, high in RANGES:
        model.subscribed[number_of(parse(f"SUBSCRIBE area({low}, {high})"))] = ("area", (low, high))
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
    expected = {number: told for (_, number), told in model.delivered.items()}
    live.wait(lambda: delivered(live) == expected, "every change at every subscription, once")

    # By now a boundary has passed: all of them share a channel, and a row goes over it once.
    live.wait(lambda: shared(live), "a channel that is shared")
    with Table("stock", live.uri, "shop") as table:
        play(table, model, chance, 20)
        live.kill(live.runs[-1])
        live.run()
        play(table, model, chance, 20)
    expected = {number: told for (_, number), told in model.delivered.items()}
    live.wait(lambda: delivered(live) == expected, "every change over shared channels, once")
    assert "of them shared" in live.tolerant("explain", "area").stdout

    heard = list(wide.changes(stop=lambda: True))
    while wide.poll():
        heard += wide.ready()
    assert [(c.kind, str(c.row["id"]), c.row["x"], c.row["y"]) for c in heard] == expected[wide.number][2:]

    # A template can be watched from the terminal, and one who unsubscribes is let go.
    watched = live.tolerant("watch", "area(-100, 100)", "--json", "--for", "2").stdout.splitlines()
    assert {json.loads(line)["row"]["id"] for line in watched} == {int(key) for key in model.rows}
    assert "unsubscribed from area" in live.tolerant("sql", "UNSUBSCRIBE area(5, 5)").stdout
    assert "subscriptions" in live.tolerant("status").stdout
