"""A million subscriptions to an aggregate over a range while its table changes: one notice for all that it concerns.

`tolerant run`, a table's feeder and the sender of `SUBSCRIBE cheapest FROM 'subs.parquet'` are processes of their own,
on one SQLite log; rows and ranges are those of [DISS] Table 5.1. 1,000 rows change per second, nine of ten in place.
A client listens for a sample of the subscriptions; everything that these hear is compared with a full recomputation
after each change. What delivery by name would have sent is counted with all subscriptions.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from million_subscriptions import Memory, Sampler, Sending, hear, uri_of, wait_for
from side_by_side import Figure, arguments, report
from tolerant.client import AnswerChange, Client, StatementClient
from tolerant.edge import Table
from tolerant.notifications import Messages, RangeSubscriptions
from tolerant.transport import Log, open_log, rows
from tolerant.transport.notices import RECTANGLE

KEYS, CHANGED, STEPS = 10_000, 1_000, 20
SAMPLE = 200
STATEMENTS = """
CREATE TABLE stock (id BIGINT, risk DOUBLE, per DOUBLE) KEY (id);
CREATE QUERY cheapest(low, high) AS SELECT MIN(per) FROM stock WHERE risk BETWEEN low AND high;
"""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Done:
    """A run: the sender's part, memory of the run's processes, and what the sample heard, by range: (step, answer)."""

    sending: Sending
    run: list[Memory]
    heard: dict[tuple[float, float], list[tuple[int, float | None]]]
    ages: list[float]  # seconds, of the answers
    begin: int  # the log's positions while the sample listened
    end: int


def main() -> None:
    quick = arguments(__doc__ or "").quick
    count, seconds = (20_000, 10.0) if quick else (1_000_000, 30.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lows, highs = write_subscriptions(folder, count)
        done = measure(folder, lows[:SAMPLE], highs[:SAMPLE], seconds)
        figures = figures_of(folder, done, lows, highs)
    inputs = {"subscriptions": count, "rows": KEYS, "changes per second": CHANGED, "measured": f"{seconds:g} s"}
    sys.exit(0 if report("notices-million", inputs, figures) else 1)


def write_subscriptions(folder: Path, count: int) -> tuple[Floats, Floats]:
    """The file, and one of a few ranges where no row ever is, to warm up with."""
    rng = np.random.default_rng(0)
    middle, half = rng.normal(5_000, 1_500, count), np.abs(rng.normal(1_000, 1_000, count)) / 2
    lows, highs = middle - half, middle + half
    pq.write_table(pa.table({"low": lows, "high": highs}), folder / "subs.parquet")
    pq.write_table(pa.table({"low": -2e4 - np.arange(10.0), "high": -1.9e4 - np.arange(10.0)}), folder / "few.parquet")
    return lows, highs


def measure(folder: Path, lows: Floats, highs: Floats, seconds: float) -> Done:
    uri = uri_of(folder)
    file = folder / "app.sql"
    file.write_text(STATEMENTS)
    command = [sys.executable, "-m", "tolerant", "run", str(file), "--log", uri]
    run = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    context = mp.get_context("spawn")
    here, there = context.Pipe()
    feeder = context.Process(target=feed, args=(uri,), daemon=True)
    sender = context.Process(target=subscribe, args=(uri, folder, there), daemon=True)
    log = open_log(uri, create=True)
    try:
        feeder.start()
        wait_for(lambda: log.latest("status.stock", "summary/0") is not None, run)
        sender.start()
        hear(here, run)  # it has warmed up
        sampler = Sampler(run.pid, children=True)
        sampler.look()
        sampler.start()
        here.send("go")
        sending = hear(here, run)
        time.sleep(5)
        begin = log.end()
        heard, ages = listen(log, lows, highs, seconds)
        return Done(sending, sampler.stop(), heard, ages, begin, log.end())
    finally:
        for process in (feeder, sender):
            if process.pid is not None:
                process.terminate()
                process.join()
        run.send_signal(signal.SIGINT)
        run.wait(60)
        log.close()


def feed(uri: str) -> None:
    """The feeder's process: all rows once, then some of them again and again, in turns."""
    rng = np.random.default_rng(1)
    with Table("stock", uri, "feed", timeout=120) as table:
        places = rng.uniform(0, 10_000, KEYS)
        table.insert_many({"id": np.arange(KEYS), "risk": places, "per": rng.uniform(0, 10_000, KEYS)})
        due, first = time.monotonic(), 0
        while True:
            keys = (first + np.arange(CHANGED // STEPS)) % KEYS
            first += len(keys)
            moved = keys[rng.random(len(keys)) < 0.1]
            places[moved] = rng.uniform(0, 10_000, len(moved))
            table.insert_many({"id": keys, "risk": places[keys], "per": rng.uniform(0, 10_000, len(keys))})
            due += 1 / STEPS
            time.sleep(max(0.0, due - time.monotonic()))


def subscribe(uri: str, folder: Path, pipe: Connection) -> None:
    """The sender's process: what `tolerant sql` does, after a warm-up."""
    log = open_log(uri, create=True)
    (few,) = StatementClient(log).parse("SUBSCRIBE cheapest FROM 'few.parquet'")
    StatementClient(log).reply_to(StatementClient(log).send_subscription(few, folder).sent, 120)
    pipe.send("ready")
    pipe.recv()
    begin, start = log.end(), time.perf_counter()
    (statement,) = StatementClient(log).parse("SUBSCRIBE cheapest FROM 'subs.parquet'")
    done = StatementClient(log).send_subscription(statement, folder)
    appended = time.perf_counter() - start
    reply = StatementClient(log).reply_to(done.sent, 900)
    replied = time.perf_counter() - start
    if reply is None or not reply.accepted or done.refused:
        raise RuntimeError(f"{done.refused} rows were refused, and the reply is {reply}")
    pipe.send(Sending(done.rows, appended, replied, begin, log.end()))
    log.close()


def listen(
    log: Log, lows: Floats, highs: Floats, seconds: float
) -> tuple[dict[tuple[float, float], list[tuple[int, float | None]]], list[float]]:
    """What the sample hears in these seconds, the current answers first; and the ages of the changes."""
    client = Client(log)
    subscriptions = client.subscriptions("cheapest", low=lows.tolist(), high=highs.tolist())
    ranges = dict(zip(subscriptions, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))
    heard: dict[tuple[float, float], list[tuple[int, float | None]]] = {where: [] for where in ranges.values()}
    ages, end = [], time.monotonic() + seconds
    change: AnswerChange
    for one, change in client.changes(subscriptions, stop=lambda: time.monotonic() >= end):
        heard[ranges[one]].append((change.position.mark, change.value))
        if change.at is not None:
            ages.append(time.time() - change.at / 1e6)
    return heard, ages


def figures_of(folder: Path, done: Done, lows: Floats, highs: Floats) -> list[Figure]:
    log, sending = open_log(uri_of(folder), create=True), done.sending
    worker = max((m for m in done.run if "python" in m.name), key=lambda memory: memory.growth)
    entries = [entry for entry in log.read("notices.cheapest", done.begin) if entry.position <= done.end]
    notices = [rows.unpack(entry.payload) for entry in entries]
    steps = np.concatenate([batch.column("step").to_numpy() for batch in notices])
    changes = (int(steps[-1]) - int(steps[0])) // 2  # a row that is replaced takes two steps
    told = affected(notices, lows, highs)
    compared, wrong = compare_with_recomputation(log, done.heard)
    log.close()
    return [
        Figure("read, checked and appended", sending.appended, "s"),
        Figure("taken by the pipeline (the reply)", sending.replied, "s"),
        Figure("subscriptions", sending.accepted, "", f"{len(lows):,}", sending.accepted == len(lows)),
        Figure("shard's Python worker, peak memory", worker.peak / 1e6, "MB"),
        Figure("shard's Python worker, growth of memory", worker.growth, "MB"),
        Figure("changes while the sample listened", changes, ""),
        Figure("notices a change", len(steps) / changes, "", "≤ 1.3", len(steps) <= 1.3 * changes),
        Figure("bytes in the log, a change", sum(len(entry.payload) for entry in entries) / changes, "B"),
        Figure("answers that a change changes, a change", told / changes, ""),
        Figure("age of an answer, p50", float(np.percentile(done.ages, 50)), "s"),
        Figure("age of an answer, p99", float(np.percentile(done.ages, 99)), "s"),
        Figure("answers of the sample compared", compared, ""),
        Figure("of these otherwise than recomputed", wrong, "", "0", wrong == 0),
    ]


def affected(notices: list[pa.RecordBatch], lows: Floats, highs: Floats) -> int:
    """How many answers of all subscriptions the notices change."""
    index = RangeSubscriptions()
    index.add_many(np.arange(len(lows)), lows, highs)
    whom = [np.stack([batch.column(name).to_numpy() for name in RECTANGLE], axis=1) for batch in notices]
    lines = np.insert(np.concatenate(whom), 0, 0.0, axis=1)
    return int(index.count_many(Messages.of(np.zeros(len(lines), np.int64), lines)).sum())


def compare_with_recomputation(
    log: Log, heard: dict[tuple[float, float], list[tuple[int, float | None]]]
) -> tuple[int, int]:
    """How many answers were looked at, and how many ranges heard otherwise than a full recomputation says."""
    ranges = np.array(list(heard))
    begin = next(iter(heard.values()))[0][0]
    end = max(said[-1][0] for said in heard.values())
    held: dict[str, int] = {}
    x, y = np.full(KEYS, np.nan), np.full(KEYS, np.nan)
    expected: list[list[tuple[int, float | None]]] = [[] for _ in ranges]
    for step, key, place, height in changes_made(log, held):
        before = x[held[key]]
        x[held[key]], y[held[key]] = place, height
        if begin < step <= end:
            for at in np.flatnonzero(_inside(ranges, before) | _inside(ranges, place)).tolist():
                follow(expected[at], step, _minimum(x, y, ranges[at]))
        elif step == begin:
            expected = [[(begin, _minimum(x, y, where))] for where in ranges]
    wrong = sum(said != told for said, told in zip(heard.values(), expected, strict=True))
    return sum(map(len, heard.values())), wrong


def _inside(ranges: Floats, x: float) -> NDArray[np.bool_]:
    return (ranges[:, 0] <= x) & (x <= ranges[:, 1])


def _minimum(x: Floats, y: Floats, where: Floats) -> float | None:
    found = y[(where[0] <= x) & (x <= where[1])]
    return float(found.min()) if len(found) else None


def follow(told: list[tuple[int, float | None]], step: int, answer: float | None) -> None:
    if answer != told[-1][1]:
        told.append((step, answer))


def changes_made(log: Log, held: dict[str, int]) -> list[tuple[int, str, float, float]]:
    """(step, key, risk, per) of every row that came or was replaced, from what the feeder said; `held` numbers keys."""
    step, found = 0, []
    for entry in log.read("changes.stock"):
        batch = rows.unpack(entry.payload)
        columns = [batch.column(name).to_pylist() for name in ("at", "kind", "key", "row.risk", "row.per")]
        # As the pipeline does: those of one moment by key.
        for _, kind, key, place, height in sorted(zip(*columns, strict=True), key=lambda row: (row[0], row[2])):
            if kind != "clock":
                step += 2 if key in held else 1
                held.setdefault(key, len(held))
                found.append((step, key, place, height))
    return found


if __name__ == "__main__":
    main()
