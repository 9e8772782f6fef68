"""A thousand items on a web server that misbehaves, polled for 200 queries: is the promise kept, and at what price?

The server is in this process, on loopback; `tolerant run` and `tolerant poll` are processes of their own, on one
SQLite log. Each item walks at random, tick by tick; at any time one item in a hundred is in trouble (slow, 500,
malformed, NaN, dropped connections), and now and then the server asks to be left alone. At the end of every tick each
query's answer, as the pipeline published it, is held against the truth.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from million_subscriptions import uri_of, wait_for
from side_by_side import Figure, arguments, report
from tolerant.client import Client
from tolerant.queries import Answer
from tolerant.streams import SECOND
from tolerant.testing.faulty_server import RETRY_AFTER, FaultyServer, ServerThread
from tolerant.transport import Log, open_log
from tolerant.transport.rows import unpack

ITEMS, QUERIES, SIZE = 1_000, 200, 10
WITHIN, FIDELITY = 3.0, 0.95
TICK = 0.5  # seconds
AT_ONCE, PER_SECOND = 16, 300
FAULTS = ("500", "malformed", "nan", "slow", "drop")
WINDOW = 200  # ticks after which the poller corrects itself by what it delivered
BEFORE = 0.05  # seconds before a tick of the poller begins that the items move
IN_FLIGHT = 0.05  # seconds that a request may have been under way when the server asked for a pause
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Truth:
    """The items' values, float64[ticks, items], and when each tick began (microseconds since 1970)."""

    values: Floats
    began: list[int]


def main() -> None:
    ticks = 150 if arguments(__doc__ or "").quick else 900
    rng = np.random.default_rng(0)
    names = [f"s{k:04}" for k in range(ITEMS)]
    queries = members(rng)
    server = FaultyServer(dict.fromkeys(names, 100.0), etags=True)
    with tempfile.TemporaryDirectory() as name, ServerThread(server):
        folder = Path(name)
        log = open_log(uri_of(folder), create=True)
        truth = measure(folder, log, server, names, queries, ticks, rng)
        figures = figures_of(log, server, queries, truth)
        log.close()
    inputs = {"items": ITEMS, "queries": QUERIES, "items a query": SIZE, "tick": f"{TICK} s", "ticks": ticks}
    sys.exit(0 if report("polling-http", inputs | {"fidelity asked": FIDELITY}, figures) else 1)


def members(rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The items of each query; every item is in at least one."""
    parts = np.array_split(rng.permutation(ITEMS), ITEMS // SIZE)
    return [*parts, *(rng.choice(ITEMS, SIZE, replace=False) for _ in range(QUERIES - len(parts)))]


def statements(url: str, names: Sequence[str], queries: Sequence[NDArray[np.int64]]) -> str:
    lines = [
        f"CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM '{url}/quote/{{symbol}}' WITH ("
        f"path = '$.price', tick = '{int(TICK * 1000)} ms', timeout = '1 s', latency = '1 s',"
        f" at_once = {AT_ONCE}, per_second = {PER_SECOND});"
    ]
    for number, items in enumerate(queries):
        listed = ", ".join(f"'{names[k]}'" for k in items)
        lines.append(
            f"CREATE QUERY q{number} AS SELECT SUM(price) FROM quotes WHERE symbol IN ({listed})"
            f" WITHIN {WITHIN} FIDELITY {FIDELITY};"
        )
    return "\n".join(lines)


def measure(
    folder: Path,
    log: Log,
    server: FaultyServer,
    names: list[str],
    queries: list[NDArray[np.int64]],
    ticks: int,
    rng: np.random.Generator,
) -> Truth:
    """Let everything run; the items walk, each at its own pace, and fall into trouble."""
    file = folder / "app.sql"
    file.write_text(statements(server.url, names, queries))
    uri, tolerant = uri_of(folder), [sys.executable, "-m", "tolerant"]
    run = subprocess.Popen([*tolerant, "run", str(file), "--log", uri], stderr=subprocess.DEVNULL)
    processes = [run]
    try:
        wait_for(lambda: log.latest("status.quotes", "summary/0") is not None, run)
        processes.append(subprocess.Popen([*tolerant, "poll", "quotes", "--log", uri], stderr=subprocess.DEVNULL))
        wait_for(lambda: bool(log.read("pulls.quotes", limit=1)), run)
        return walk(server, names, ticks, rng)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGINT)
            process.wait(60)


def walk(server: FaultyServer, names: list[str], ticks: int, rng: np.random.Generator) -> Truth:
    values, steps = np.full(len(names), 100.0), rng.uniform(0.05, 0.2, len(names))
    kept, began = [], []
    due = (time.time_ns() // 1000 // int(TICK * SECOND) + 2) * TICK - BEFORE
    for tick in range(ticks):
        time.sleep(max(0.0, due - time.time()))
        due += TICK
        values = values + rng.normal(0, 1, len(names)) * steps
        began.append(time.time_ns() // 1000)
        server.values.update(zip(names, values.tolist(), strict=True))
        kept.append(values)
        if tick > 10 and tick % 5 == 0:
            broken = rng.choice(names, len(names) // 100, replace=False)
            server.faults = {str(name): FAULTS[k % len(FAULTS)] for k, name in enumerate(broken)}
            if tick % 50 == 0:
                server.faults[str(rng.choice(names))] = "429"
    time.sleep(4.0)  # for the answers of the last ticks
    return Truth(np.array(kept), began)


def figures_of(log: Log, server: FaultyServer, queries: list[NDArray[np.int64]], truth: Truth) -> list[Figure]:
    judged = [judge(Client(log).history(f"q{k}"), truth.values[:, items].sum(axis=1), truth.began)
              for k, items in enumerate(queries)]  # fmt: skip
    fidelity = np.array([one[0] / one[1] for one in judged])
    claimed = [one[2] for one in judged if one[2] is not None]
    pulls = [row for entry in log.read("pulls.quotes") for row in unpack(entry.payload).to_pylist()]
    inside = [row for row in pulls if row["at"] >= truth.began[0]]
    part = len(inside) / truth.values.size
    times = np.sort(np.array(server.times))
    busiest = max((bisect_right(times.tolist(), t + 1.0) - k for k, t in enumerate(times)), default=0)
    failed = sum(row["kind"] == "failed" for row in pulls)
    unsettled = 1 - sum(one[1] for one in judged) / (len(queries) * len(truth.began))
    calibrated = len(truth.began) > 2 * WINDOW  # before, the model goes by itself
    mean, ignored, most = float(fidelity.mean()), disobeyed(server), PER_SECOND + AT_ONCE
    return [
        Figure("fidelity, mean of the queries", mean, "", f"≥ {FIDELITY}", mean >= FIDELITY if calibrated else None),
        Figure("fidelity, 5th percentile of the queries", float(np.quantile(fidelity, 0.05)), ""),
        Figure("fidelity that the answers say, mean", float(np.mean(claimed)) if claimed else float("nan"), ""),
        Figure("stale or settling, part of all ticks", unsettled, ""),
        Figure("pulls over every-tick polling", part, "", "≤ 0.1", part <= 0.1),
        Figure("pulls per second", len(inside) / (len(truth.began) * TICK), ""),
        Figure("pulls that failed", failed, ""),
        Figure("pauses that the server asked for", len(server.pauses), ""),
        Figure("requests during such pauses", ignored, "", "0", ignored == 0),
        Figure("requests at once, most", server.most_at_once, "", f"≤ {AT_ONCE}", server.most_at_once <= AT_ONCE),
        Figure("requests in a second, most", busiest, "", f"≤ {most}", busiest <= most),
    ]


def judge(answers: list[Answer], truth: Floats, began: list[int]) -> tuple[int, int, float | None]:
    """Ticks at whose end the answer was within the tolerance, ticks with a settled answer, and what it says itself."""
    ats = [answer.at for answer in answers]
    good = counted = 0
    for tick, begin in enumerate(began):
        place = bisect_right(ats, begin + int(TICK * SECOND)) - 1
        if place < 0 or not answers[place].settled:
            continue
        counted += 1
        value = answers[place].value
        good += value is not None and abs(value - truth[tick]) <= WITHIN
    return good, max(counted, 1), answers[-1].delivered if answers else None


def disobeyed(server: FaultyServer) -> int:
    """Requests that came while the server wanted none, but for those that were under way."""
    return sum(any(pause + IN_FLIGHT < when < pause + RETRY_AFTER for pause in server.pauses) for when in server.times)


if __name__ == "__main__":
    main()
