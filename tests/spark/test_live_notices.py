"""Exact aggregates over ranges on real Spark: a client hears every change once, through a kill of the pipeline."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live
from test_notices_shard import QUERIES, answer
from test_table_shard import STOCK

from tolerant.client import Client
from tolerant.edge import Table
from tolerant.sql import render

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

NAMES = ("lowest", "mean", "names")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    statements = "".join(f"{render(QUERIES[name])};\n" for name in NAMES)
    one = Live(tmp_path, f"{render(STOCK)};\n{statements}", stream="")
    yield one
    one.close()


def test_answers_reach_their_subscribers_through_a_kill(live: Live) -> None:
    chance, rows = random.Random(7), {}
    live.run()
    live.wait(lambda: live.log.latest("status.stock", "summary/0"), "the table's pipeline")
    heard = {name: Client(live.log).subscribe(name, low=4, high=10) for name in NAMES}
    told = {name: [change.value for change in one.ready()] for name, one in heard.items()}
    expected = {name: [answer(name, rows, 4, 10)] for name in NAMES}
    assert told == expected

    def play(table: Table, count: int) -> None:
        for _ in range(count):
            key = chance.randrange(6)
            if chance.random() < 0.7:
                rows[key] = {
                    "id": key,
                    "name": chance.choice("abc"),
                    "x": chance.choice([0.0, 4.0, 7.0, 11.0]),
                    "y": chance.randint(0, 5),
                }
                table.update(rows[key])
            else:
                table.delete(key)
                rows.pop(key, None)
            for name in NAMES:
                now = answer(name, rows, 4, 10)
                if now != expected[name][-1]:
                    expected[name].append(now)
            time.sleep(0.01)

    def all_heard() -> bool:
        for name, one in heard.items():
            while one.poll():
                pass
            told[name] += [change.value for change in one.ready()]
        return told == expected

    with Table("stock", live.uri, "shop") as table:
        play(table, 30)
        live.kill(live.runs[-1])
        play(table, 30)
        live.run()
        play(table, 30)
    live.wait(all_heard, f"every answer once: {expected}")
    watched = live.tolerant("watch", "names(4, 10)", "--json", "--for", "2").stdout.splitlines()
    assert [json.loads(line)["value"] for line in watched] == [sorted(expected["names"][-1])]
