"""Positions that move and 10,000 subscriptions to rectangles, on Spark: messages and bytes per row, with and
without merging.

`tolerant run` hosts two templates over one table of positions, alike but for `WITH (method = none)`; both have the same
subscriptions, from a file. The feeder is a process of its own and moves 250 of 5,000 positions a second, each a
deletion and an insertion; four in five of the subscriptions gather around a few places ([CBGM] §7.1), and so do the
positions.
Counted are the rows and bytes of `answers.<query>`, and of `channels.<query>` where channels are shared, over the time
that is watched; bytes as packed in the log. A sample of the subscriptions listens to both: each must hear the same.
"""

from __future__ import annotations

import json
import multiprocessing as mp
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from side_by_side import Figure, arguments, report
from tolerant.client import Client, StatementClient
from tolerant.edge import Table
from tolerant.merging import generate
from tolerant.transport import Log, open_log, rows

CARS, MOVED, STEPS = 5000, 250, 10
SAMPLE = 200
BETWEEN = "SELECT * FROM positions WHERE x BETWEEN x1 AND x2 AND y BETWEEN y1 AND y2"
STATEMENTS = f"""
CREATE TABLE positions (car BIGINT, x DOUBLE, y DOUBLE) KEY (car);
CREATE QUERY merged(x1, y1, x2, y2) AS {BETWEEN};
CREATE QUERY apart(x1, y1, x2, y2) AS {BETWEEN} WITH (method = none);
"""
NAMES = ("x1", "y1", "x2", "y2")
Floats = NDArray[np.float64]


def main() -> None:
    quick = arguments(__doc__ or "").quick
    count, seconds = (1000, 20.0) if quick else (10_000, 40.0)
    areas = generate(count, side=400 * (count / 100) ** 0.5, seed=1)
    with tempfile.TemporaryDirectory() as name:
        found = measure(Path(name), areas, seconds)
    inputs = {"subscriptions": count, "positions": CARS, "changes per second": 2 * MOVED, "watched": f"{seconds:g} s"}
    sys.exit(0 if report("merging-positions", inputs, figures_of(found)) else 1)


@dataclass(frozen=True)
class Traffic:
    """What was said in a topic: rows and bytes."""

    rows: int
    size: int


@dataclass(frozen=True)
class Watched:
    """What was said while it was watched; `changes`: different ones, on any channel."""

    merged: Traffic
    apart: Traffic
    table: Traffic
    changes: int
    heard: int
    differing: int
    told: dict[str, Any]


def measure(folder: Path, areas: Floats, seconds: float) -> Watched:
    uri, file = f"sqlite:///{folder}/log.db", folder / "app.sql"
    file.write_text(STATEMENTS)
    pq.write_table(pa.table(dict(zip(NAMES, areas.T, strict=True))), folder / "areas.parquet")
    run = subprocess.Popen(
        [sys.executable, "-m", "tolerant", "run", str(file), "--log", uri], stderr=subprocess.DEVNULL
    )
    feeder = mp.get_context("spawn").Process(target=feed, args=(uri, areas), daemon=True)
    log = open_log(uri, create=True)
    try:
        feeder.start()
        wait_for(log, "summary/0", run)
        for query in ("merged", "apart"):
            (statement,) = StatementClient(log).parse(f"SUBSCRIBE {query} FROM 'areas.parquet'")
            reply = StatementClient(log).reply_to(StatementClient(log).send_subscription(statement, folder).sent, 300)
            if reply is None or not reply.accepted:
                raise RuntimeError(f"the reply to SUBSCRIBE is {reply}")
        end = time.monotonic() + 300
        while not log.read("channels.merged"):  # the boundary from which channels are shared
            if time.monotonic() > end or run.poll() is not None:
                raise RuntimeError("no channel was shared in five minutes")
            time.sleep(0.2)
        time.sleep(10)
        return watch(log, areas, seconds)
    finally:
        feeder.terminate()
        feeder.join()
        run.send_signal(signal.SIGINT)
        run.wait(60)
        log.close()


def wait_for(log: Log, key: str, run: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while log.latest("status.positions", key) is None:
        if time.monotonic() > end or run.poll() is not None:
            raise RuntimeError("the pipeline did not start")
        time.sleep(0.2)


def feed(uri: str, areas: Floats) -> None:
    """The feeder's process: cars that start where subscriptions are, and wander."""
    rng = np.random.default_rng(2)
    centres = (areas[:, :2] + areas[:, 2:])[rng.integers(0, len(areas), CARS)] / 2
    place = centres + rng.normal(0, 50, (CARS, 2))
    with Table("positions", uri, "cars", timeout=120) as table:
        due, first = time.monotonic(), 0
        while True:
            cars = (first + np.arange(MOVED // STEPS)) % CARS
            first += len(cars)
            place[cars] += rng.normal(0, 10, (len(cars), 2))
            table.insert_many({"car": cars, "x": place[cars, 0], "y": place[cars, 1]})
            due += 1 / STEPS
            time.sleep(max(0.0, due - time.monotonic()))


def watch(log: Log, areas: Floats, seconds: float) -> Watched:
    """Count for so long, with clients that listen to both."""
    chosen = areas[np.random.default_rng(3).choice(len(areas), SAMPLE, replace=False)]
    client, begin = Client(log), log.end()
    listening = {
        query: client.subscriptions(query, **dict(zip(NAMES, chosen.T.tolist(), strict=True)))
        for query in ("merged", "apart")
    }
    # The two do not begin at the same step: what came in between is current to the one and a change to the other.
    begun = max(one.position.mark for ones in listening.values() for one in ones)
    time.sleep(seconds)
    end = log.end()
    entries = {topic: log.read(topic, begin) for topic in ("answers.merged", "answers.apart", "channels.merged")}
    held = {topic: [entry for entry in found if entry.position <= end] for topic, found in entries.items()}
    traffic = {
        topic: Traffic(sum(len(rows.unpack(e.payload)) for e in found), sum(len(e.payload) for e in found))
        for topic, found in held.items()
    }
    steps = [rows.unpack(e.payload).column("step").to_numpy() for e in held["answers.merged"] + held["answers.apart"]]
    heard = {query: [_heard(one, begun) for one in ones] for query, ones in listening.items()}
    told = log.latest("status.positions", "channels/merged/0")
    assert told is not None
    pairs = zip(heard["merged"], heard["apart"], strict=True)
    # The two are read one after the other: the later one may have heard more.
    differing = sum(one[: len(other)] != other[: len(one)] for one, other in pairs)
    return Watched(
        traffic["answers.merged"],
        traffic["answers.apart"],
        traffic["channels.merged"],
        len(np.unique(np.concatenate(steps))),
        sum(map(len, heard["merged"])),
        differing,
        json.loads(told.body),
    )


def _heard(subscription: Any, begun: int) -> list[tuple[Any, ...]]:
    """What a subscription hears of steps after `begun`."""
    found: list[Any] = []
    more = True
    while more:
        more = subscription.poll()
        found += [change for change in subscription.ready() if not change.current]
    return [(c.position.mark, c.kind, c.at, *c.row.values()) for c in found if c.position.mark > begun]


def figures_of(found: Watched) -> list[Figure]:
    merged = found.merged.size + found.table.size
    sent = found.merged.rows + found.table.rows
    return [
        Figure("channels, of them shared", found.told["channels"], f"({found.told['shared']})"),
        Figure("messages per change, apart", found.apart.rows / found.changes, ""),
        Figure("messages per change, merged", sent / found.changes, ""),
        Figure("bytes per change, apart", found.apart.size / found.changes, "B"),
        Figure("bytes per change, merged", merged / found.changes, "B"),
        Figure("messages saved", 100 * (1 - sent / found.apart.rows), "%"),
        Figure("bytes saved", 100 * (1 - merged / found.apart.size), "%"),
        Figure("of the bytes, the channel table", 100 * found.table.size / merged, "%"),
        Figure("rows that a sample heard", found.heard, "", "> 0", found.heard > 0),
        Figure("of them, subscriptions that heard otherwise apart", found.differing, "", "0", found.differing == 0),
    ]


if __name__ == "__main__":
    main()
