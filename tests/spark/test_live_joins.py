"""Joins of two tables on real Spark: a client holds exactly its result rows, through a kill of the pipeline."""

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live import Live
from test_joins_shard import HOME, QUERIES, TABLES, drain, results
from test_spread_joins import RANGED, SpreadHolder, spread

from tolerant.client import Client
from tolerant.edge import Table
from tolerant.sql import PipelineId, render
from tolerant.transport.results import rows_naming
from tolerant.transport.rows import unpack
from tolerant.transport.subscriptions import subscription_ids

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

ASKED = {"matched": (0, 2, 0, 2), "near": (-1, 1), "close": ()}
SPREAD = {"matched": "", "near": "", "close": RANGED}
"""By the product, by subscriptions, by ranges."""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    statements = "".join(f"{render(statement)};\n" for statement in (*TABLES, *(QUERIES[name] for name in ASKED)))
    one = Live(tmp_path, statements, stream="")
    yield one
    one.close()


class SpreadHearer(SpreadHolder):
    """The same for a query with two shards."""

    def __init__(self, live: Live, name: str) -> None:
        given = dict(zip(QUERIES[name].parameters, ASKED[name], strict=True))
        self.name, self.values, self.held, self.position = name, ASKED[name], {}, None
        self.one = Client(live.log).subscribe(name, timeout=120, **given)
        self.take(self.one.ready())

    def is_right(self, rows: dict) -> bool:
        self.take(drain(self.one))
        return self.held.keys() == {tuple(row.items()) for row in results(self.name, self.values, rows).values()}


class Hearer:
    """An application: it holds the result rows of one subscription, and checks that nothing comes twice."""

    def __init__(self, live: Live, name: str) -> None:
        given = dict(zip(QUERIES[name].parameters, ASKED[name], strict=True))
        self.name, self.held = name, {}
        self._one = Client(live.log).subscribe(name, timeout=120, **given)
        self._take(self._one.ready())

    def is_right(self, rows: dict) -> bool:
        self._take(drain(self._one))
        return self.held == results(self.name, ASKED[self.name], rows)

    def _take(self, changes: list) -> None:
        for change in changes:
            key = change.row["supply.id"], change.row["demand.id"]
            assert (key in self.held) == (change.kind == "delete")
            if change.kind == "insert":
                self.held[key] = change.row
            else:
                assert self.held.pop(key) == change.row


def play_at_random(
    chance: random.Random, tables: dict[str, Table], rows: dict, count: int, products: str = "pq"
) -> None:
    for _ in range(count):
        name, key = chance.choice(["supply", "demand"]), chance.randrange(6)
        if chance.random() < 0.7:
            rows[name][key] = {
                "id": key,
                "product": chance.choice(products),
                "a" if name == "supply" else "c": float(chance.randint(0, 3)),
                "b": chance.choice([0.0, 0.1, 0.3, 1.0, 1.3]),
            }
            tables[name].update(rows[name][key])
        else:
            tables[name].delete(key)
            rows[name].pop(key, None)
        time.sleep(0.01)


def subscriptions(live: Live) -> dict[str, int]:
    return json.loads(live.tolerant("status", "--json").stdout)[HOME]["subscriptions"]


def test_result_rows_reach_their_subscribers_through_a_kill(live: Live) -> None:
    chance, rows = random.Random(7), {"supply": {}, "demand": {}}
    live.run()
    live.wait(lambda: live.log.latest(f"status.{HOME}", "summary/0"), "the pipeline of both tables")
    heard = [Hearer(live, name) for name in ASKED]

    def play(tables: dict[str, Table], count: int) -> None:
        play_at_random(chance, tables, rows, count)

    with Table("supply", live.uri, "shop") as supply, Table("demand", live.uri, "shop") as demand:
        tables = {"supply": supply, "demand": demand}
        play(tables, 40)
        lows = [index / 1000 for index in range(2000)]
        columns = {"low": pa.array(lows), "high": pa.array([low + 1 for low in lows])}
        pq.write_table(pa.table(columns), live.folder / "subs.parquet")
        told = live.tolerant("sql", f"SUBSCRIBE near FROM '{live.folder / 'subs.parquet'}'")
        assert told.returncode == 0, told.stderr
        play(tables, 20)
        live.kill(live.runs[-1])
        play(tables, 40)
        live.run()
        play(tables, 40)
    for hearer in heard:
        live.wait(lambda hearer=hearer: hearer.is_right(rows), f"the result rows of {hearer.name}")
    pq.write_table(pa.table(columns).slice(0, 500), live.folder / "gone.parquet")
    told = live.tolerant("sql", f"UNSUBSCRIBE near FROM '{live.folder / 'gone.parquet'}'")
    assert told.returncode == 0, told.stderr
    live.wait(lambda: subscriptions(live) == {"matched": 1, "near": 1501, "close": 1}, "those who have gone")
    last = live.log.end()
    with Table("supply", live.uri, "shop") as supply, Table("demand", live.uri, "shop") as demand:
        play({"supply": supply, "demand": demand}, 30)
    for hearer in heard:
        live.wait(lambda hearer=hearer: hearer.is_right(rows), f"the result rows of {hearer.name}")
    gone = subscription_ids({name: column.slice(0, 500) for name, column in columns.items()})
    said = [unpack(entry.payload) for entry in live.log.read("answers.near", last)]
    assert said
    assert all(not len(rows_naming(batch, gone.tolist())[0]) for batch in said)
    client, chosen = Client(live.log), lows[500::97]
    many = client.subscriptions("near", low=chosen, high=[low + 1 for low in chosen])
    for low, one in zip(chosen, many, strict=True):
        held = {(change.row["supply.id"], change.row["demand.id"]) for change in one.ready()}
        assert held == set(results("near", (low, low + 1), rows))
    watched = live.tolerant("watch", "close", "--json", "--for", "2").stdout.splitlines()
    shown = [json.loads(line)["row"] for line in watched]
    assert sorted((row["supply.id"], row["demand.id"]) for row in shown) == sorted(results("close", (), rows))


def test_two_shards_tell_everything_once_through_a_kill(tmp_path: Path) -> None:
    chance, rows = random.Random(8), {"supply": {}, "demand": {}}
    queries = {name: spread(name, 2, known) for name, known in SPREAD.items()}
    live = Live(tmp_path, "".join(f"{render(one)};\n" for one in (*TABLES, *queries.values())), stream="", patience=240)
    try:
        live.run()
        for query in queries.values():
            home = str(PipelineId.of(query.select))
            live.wait(lambda home=home: live.log.latest(f"status.{home}", "summary/1"), f"both shards of {home}")
        heard = [SpreadHearer(live, name) for name in SPREAD]
        with Table("supply", live.uri, "shop") as supply, Table("demand", live.uri, "shop") as demand:
            tables = {"supply": supply, "demand": demand}
            play_at_random(chance, tables, rows, 40, "pqrstu")
            live.kill(live.runs[-1])
            play_at_random(chance, tables, rows, 20, "pqrstu")
            live.run()
            play_at_random(chance, tables, rows, 40, "pqrstu")
        for hearer in heard:
            live.wait(lambda hearer=hearer: hearer.is_right(rows), f"the result rows of {hearer.name}")
        for name in SPREAD:  # what one begins with is the join of what both shards hold
            assert SpreadHearer(live, name).is_right(rows)
        status = json.loads(live.tolerant("status", "--json").stdout)
        assert all(
            status[str(PipelineId.of(query.select))]["rows"] == sum(map(len, rows.values()))
            for query in queries.values()
        )
    finally:
        live.close()
