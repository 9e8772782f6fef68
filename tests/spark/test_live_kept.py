"""Joins with room for some rows, and rows that are looked up, on real Spark: results, once each, through a kill."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from live import Live
from test_kept_shard import HOME, LINES, ORDERS, all_pairs, drain, drifting, keep
from test_lookup_join_shard import LOOKED, PARTS, written

from tolerant.client import Client, kept_share
from tolerant.edge import Table
from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.retention import Lookups
from tolerant.sql import AppendOnlyJoinInput, parse, render
from tolerant.transport.rows import unpack

SPREAD = parse(render(keep(40, "spread")) + " WITH (shards = 2)")

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    statements = "".join(
        f"{render(statement)};\n" for statement in (ORDERS, LINES, keep(40), keep(5000, "all"), SPREAD)
    )
    one = Live(tmp_path, statements, stream="")
    yield one
    one.close()


def test_results_come_once_through_a_kill_and_are_those_of_the_log(live: Live) -> None:
    orders, lines = (values.tolist() for values in drifting(400, 30, 10))
    live.run()
    live.wait(lambda: live.log.latest(f"status.{HOME}", "summary/0"), "the pipeline of both tables")
    hearers = {name: Client(live.log).subscribe(name, timeout=120) for name in ("kept", "all", "spread")}
    heard = {name: [] for name in hearers}

    def listen() -> None:
        for name, hearer in hearers.items():
            heard[name] += [(change.row["orders.id"], change.row["lines.id"]) for change in drain(hearer)]

    with Table("orders", live.uri, "shop") as of_orders, Table("lines", live.uri, "shop") as of_lines:

        def play(begin: int, end: int) -> None:
            for number in range(begin, end):
                of_orders.insert(id=number, part=orders[number], note="x")
                of_lines.insert(id=number, part=lines[number], amount=1.0)
                time.sleep(0.005)

        play(0, 150)
        live.wait(lambda: len(live.log.read("answers.all")), "first results")
        listen()
        live.kill(live.runs[-1])
        play(150, 280)
        live.run()
        play(280, 400)
        of_orders.delete(3)
    possible = all_pairs(orders, lines)
    live.wait(lambda: listen() or len(heard["all"]) == possible, "all results")
    live.wait(lambda: listen() or len(heard["spread"]) == len(heard["kept"]), "what both shards find")
    live.wait(lambda: live.log.read(f"dead_letters.{HOME}"), "the dead letter")
    live.kill(live.runs[-1])
    listen()
    for name, pairs in heard.items():
        assert len(set(pairs)) == len(pairs)
        assert all(orders[order] == lines[line] for order, line in pairs), name
    assert 0.5 * possible < len(heard["kept"]) < possible
    assert sorted(heard["spread"]) == sorted(heard["kept"])  # two shards find what one does
    # Another pipeline, without Spark, says the same to the byte from the same log.
    anew = AppendOnlyJoinShard(AppendOnlyJoinInput.of(ORDERS, LINES))
    said = anew.apply(live.log.read(["queries", "changes.orders", "changes.lines"]))
    answers = [row for o in said if o.topic == "answers.kept" for row in unpack(o.payload).to_pylist()]
    assert [(row["row.orders.id"], row["row.lines.id"]) for row in answers] == heard["kept"]
    share = kept_share(live.log, "kept")
    assert share.found == len(heard["kept"])
    assert abs(share.share - share.found / possible) < 5 * share.error
    told = json.loads(live.tolerant("explain", "kept", "--json").stdout)
    assert (told["keep"], told["kept"], told["found"]) == (40, 40, share.found)


def test_rows_are_looked_up_through_a_kill(tmp_path: Path) -> None:
    written(tmp_path, range(300))
    parts = (np.random.default_rng(0).zipf(1.3, 900) % 400).tolist()
    live = Live(tmp_path, f"{render(ORDERS)};\n{PARTS.format(kind='parquet')}\n{LOOKED.format(rows=30)}", stream="")
    heard: list[tuple[int, str]] = []
    try:
        live.run()
        live.wait(lambda: live.log.latest("status.orders~parts", "summary/0"), "the pipeline of both tables")
        hearer = Client(live.log).subscribe("looked", timeout=120)

        def listen() -> None:
            heard.extend((change.row["orders.id"], change.row["parts.name"]) for change in drain(hearer))

        with Table("orders", live.uri, "shop") as orders:

            def play(begin: int, end: int) -> None:
                for number in range(begin, end):
                    orders.insert(id=number, part=parts[number], note="x")
                    time.sleep(0.003)

            play(0, 300)
            live.wait(lambda: len(live.log.read("answers.looked")), "first results")
            (tmp_path / "parts.parquet").unlink()  # what is looked up stands in the log
            live.kill(live.runs[-1])
            play(300, 600)
            written(tmp_path, range(300))  # `tolerant run` compares it with what the log holds
            live.run()
            play(600, 900)
        expected = [(number, f"ü{part}") for number, part in enumerate(parts) if part < 300]
        live.wait(lambda: listen() or len(heard) >= len(expected), "all results")
        assert heard == expected
        live.wait(lambda: json.loads(live.tolerant("explain", "looked", "--json").stdout)["kept"], "a status")
        told, share = json.loads(live.tolerant("explain", "looked", "--json").stdout), kept_share(live.log, "looked")
        assert (told["keep"], told["kept"], told["looked_up"]) == (30, 30, "parts")
        assert (told["found"], told["fetched"], told["share"]) == (share.found, share.fetched, share.share)
        assert share.share == Lookups.bounded(30).take(parts).mean()
        assert live.tolerant("status").stdout.count("fetched") == 1
    finally:
        live.close()
