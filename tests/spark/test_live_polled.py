"""A polled stream on real Spark: a web server, a poller and a pipeline, with faults, killed and restarted."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

from live import Live

from tolerant.testing.faulty_server import FaultyServer, ServerThread
from tolerant.transport.rows import unpack

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

FAULTS = ("500", "slow", "malformed", "nan")
STATEMENTS = """
CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM '{url}/quote/{{symbol}}'
  WITH (path = '$.price', tick = '200 ms', max_interval = 5, timeout = '500 ms', latency = '1 s');
CREATE QUERY pair AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 2 FIDELITY 0.9;
CREATE QUERY troubled AS SELECT symbol, AVG(price) FROM quotes WHERE symbol IN ('500', 'slow', 'malformed', 'nan')
  GROUP BY symbol WITHIN 1 FIDELITY 0.9;
"""


@pytest.fixture
def exchange() -> Iterator[FaultyServer]:
    with ServerThread(FaultyServer(dict.fromkeys(("A", "B", "E", *FAULTS), 10.0))) as server:
        yield server


@pytest.fixture
def live(tmp_path: Path, exchange: FaultyServer) -> Iterator[Live]:
    one = Live(tmp_path, STATEMENTS.format(url=exchange.url), stream="")
    yield one
    one.close()


def start_poller(live: Live) -> None:
    command = [sys.executable, "-m", "tolerant", "poll", "quotes", "--name", "poller", "--log", live.uri]
    with open(live.folder / "poller.txt", "ab") as output:
        live.sources["poller"] = subprocess.Popen(command, stdout=output, stderr=output)


def current(live: Live, query: str, group: str = ""):
    found = [answer for answer in live.answers(query) if answer.group == group]
    return found[-1] if found else None


def test_answers_through_faults_kills_and_changes(live: Live, exchange: FaultyServer) -> None:
    live.run()
    live.wait(lambda: live.log.latest("status.quotes", "summary/0"), "the stream's pipeline")
    start_poller(live)

    def shows(query: str, value: float, group: str = "") -> bool:
        answer = current(live, query, group)
        return answer is not None and answer.settled and answer.value == value

    live.wait(lambda: shows("pair", 20.0), "the first answer")
    exchange.values["A"] = 12.0
    live.wait(lambda: shows("pair", 22.0), "a change")
    answer = current(live, "pair")
    assert (answer.low, answer.high) == (20.0, 24.0)
    assert 0 < answer.fidelity <= 0.9  # less while an answer is late

    # Servers that misbehave make their items stale, never wrong, and nobody else's.
    for fault in FAULTS:
        live.wait(lambda fault=fault: shows("troubled", 10.0, fault), f"{fault} before its fault")
        exchange.faults[fault] = fault
        exchange.values[fault] = 99.0
    for fault in FAULTS:
        live.wait(lambda fault=fault: current(live, "troubled", fault).stale, f"{fault} to become stale")
        answer = current(live, "troubled", fault)
        assert (answer.low, answer.value, answer.high) == (None, 10.0, None)
    assert current(live, "pair").settled
    explained = json.loads(live.tolerant("explain", "troubled", "--json").stdout)
    assert {one["item"] for one in explained["items"] if one["failures"]} == set(FAULTS)

    # The poller dies and comes back; it goes on, and the servers are well again.
    live.kill(live.sources["poller"])
    exchange.faults.clear()
    exchange.values["B"] = 1.0
    live.wait(lambda: current(live, "pair").stale, "staleness without a poller")
    start_poller(live)
    live.wait(lambda: shows("pair", 13.0), "the pair again")
    for fault in FAULTS:
        live.wait(lambda fault=fault: shows("troubled", 99.0, fault), f"{fault} after its fault")

    # So does the pipeline; queries come, change and go meanwhile.
    live.kill(live.runs[-1])
    exchange.values["A"] = 5.0
    time.sleep(1.0)
    live.run()
    live.wait(lambda: shows("pair", 6.0), "the pipeline again")
    said = live.tolerant("sql", "CREATE QUERY five AS SELECT MAX(price) FROM quotes WHERE symbol = 'E' WITHIN 1")
    assert said.returncode == 0, said.stderr
    assert "every tick" in said.stdout
    live.wait(lambda: shows("five", 10.0), "the new query")
    assert live.tolerant("sql", "ALTER QUERY pair WITHIN 4").returncode == 0
    live.wait(lambda: current(live, "pair").high == 10.0, "the new tolerance")
    assert live.tolerant("sql", "DROP QUERY five").returncode == 0

    watched = live.tolerant("watch", "pair", "--json", "--for", "1").stdout.splitlines()
    line = json.loads(watched[-1])
    assert line["value"] == 6.0
    assert 0 < line["fidelity"] <= 0.9
    status = json.loads(live.tolerant("status", "--json").stdout)["quotes"]["shards"][0]
    assert status["queries"]["pair"]["fidelity"] == 0.9
    assert status["failed"] > 0
    for command in (("status",), ("explain", "pair")):
        assert "fidelity" in live.tolerant(*command).stdout.lower()
    asked_at = [(row["item"], row["tick"], row["at"]) for row in pulls(live)]
    assert len(asked_at) == len(set(asked_at))


def pulls(live: Live) -> list[dict]:
    return [row for entry in live.log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]
