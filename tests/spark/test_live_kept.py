"""A join with room for some rows on real Spark: its results, once each, through a kill of the pipeline; their share."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live
from test_kept_shard import HOME, LINES, ORDERS, all_pairs, drain, drifting, keep

from tolerant.client import Client, kept_share
from tolerant.edge import Table
from tolerant.spark.kinds.growing import GrowingShard
from tolerant.sql import GrowingPair, render
from tolerant.transport.rows import unpack

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    statements = "".join(f"{render(statement)};\n" for statement in (ORDERS, LINES, keep(40), keep(5000, "all")))
    one = Live(tmp_path, statements, stream="")
    yield one
    one.close()


def test_results_come_once_through_a_kill_and_are_those_of_the_log(live: Live) -> None:
    orders, lines = (values.tolist() for values in drifting(400, 30, 10))
    live.run()
    live.wait(lambda: live.log.latest(f"status.{HOME}", "summary/0"), "the pipeline of both tables")
    hearers = {name: Client(live.log).subscribe(name, timeout=120) for name in ("kept", "all")}
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
    live.wait(lambda: live.log.read(f"dead.{HOME}"), "the dead letter")
    live.kill(live.runs[-1])
    listen()
    for name, pairs in heard.items():
        assert len(set(pairs)) == len(pairs)
        assert all(orders[order] == lines[line] for order, line in pairs), name
    assert 0.5 * possible < len(heard["kept"]) < possible
    # Another pipeline, without Spark, says the same to the byte from the same log.
    anew = GrowingShard(GrowingPair.of(ORDERS, LINES))
    said = anew.apply(live.log.read(["queries", "changes.orders", "changes.lines"]))[0]
    answers = [row for o in said if o.topic == "answers.kept" for row in unpack(o.payload).to_pylist()]
    assert [(row["row.orders.id"], row["row.lines.id"]) for row in answers] == heard["kept"]
    share = kept_share(live.log, "kept")
    assert share.found == len(heard["kept"])
    assert abs(share.share - share.found / possible) < 5 * share.error
    told = json.loads(live.tolerant("explain", "kept", "--json").stdout)
    assert (told["keep"], told["kept"], told["found"]) == (40, 40, share.found)
