"""A million subscriptions from a file while rows flow: how long it takes, and what it takes.

`tolerant run`, a table's feeder and the sender of `SUBSCRIBE area FROM 'subs.parquet'` are processes of their own, on
one SQLite log. 500 rows are replaced a second, that is 1,000 changes: each row leaves some ranges and comes into
others. The ranges are so long that a change concerns ten subscriptions; no channel is shared, so that each hears of it
by itself. Memory is resident memory (RSS), sampled 20 times a second: of the sender, and of those children of the run
process that are Python; the one that grows most hosts the shard. What is delivered afterwards is compared with brute
force for a sample of the changes.
"""

from __future__ import annotations

import multiprocessing as mp
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from side_by_side import Figure, arguments, report
from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.transport import Log, open_log, rows
from tolerant.transport.subscriptions import subscription_ids

SPAN, CONCERNED = 1e6, 10
KEYS, REPLACED, STEPS = 10_000, 500, 20
SAMPLE = 500
STATEMENTS = """
CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high WITH (method = none);
"""
Floats = NDArray[np.float64]


def main() -> None:
    quick = arguments(__doc__ or "").quick
    count, seconds = (20_000, 10.0) if quick else (1_000_000, 30.0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lows, highs = write_subscriptions(folder, count)
        done = measure(folder, seconds)
        figures = figures_of(folder, done, lows, highs, seconds)
    inputs = {"subscriptions": count, "rows": KEYS, "changes per second": 2 * REPLACED, "measured": f"{seconds:g} s"}
    sys.exit(0 if report("million-subscriptions", inputs, figures) else 1)


def write_subscriptions(folder: Path, count: int) -> tuple[Floats, Floats]:
    """The file, and one of a few ranges where no row ever is, to warm up with."""
    lows = np.random.default_rng(0).uniform(0, SPAN, count)
    highs = lows + SPAN * CONCERNED / count
    pq.write_table(pa.table({"low": lows, "high": highs}), folder / "subs.parquet")
    pq.write_table(pa.table({"low": np.arange(-20.0, -10.0), "high": np.arange(-19.5, -9.5)}), folder / "few.parquet")
    return lows, highs


@dataclass(frozen=True)
class Sending:
    """What the sender says: seconds until the last row was in the log and until the reply, where the log was."""

    accepted: int
    appended: float
    replied: float
    begin: int
    end: int


@dataclass(frozen=True)
class Done:
    """A run: the sender's part, memory by process, and the deliveries that were read while it was watched."""

    sending: Sending
    sender: Memory
    run: list[Memory]
    grown: int  # bytes of the log's files from the statement to the reply
    replied_at: int  # microseconds
    ages: list[float]  # seconds, of the deliveries in the measured time


@dataclass
class Memory:
    """Resident memory of a process, bytes: when the statement was sent, and at most since then."""

    name: str
    before: int = 0
    peak: int = 0

    @property
    def growth(self) -> float:
        """Megabytes."""
        return (self.peak - self.before) / 1e6


class Sampler(threading.Thread):
    """Looks at the memory of a process, and of its children if asked, until it is told to stop."""

    def __init__(self, pid: int, *, children: bool) -> None:
        super().__init__(daemon=True)
        self._process, self._children = psutil.Process(pid), children
        self._over = threading.Event()
        self.found: dict[int, Memory] = {}

    def run(self) -> None:
        """Look 20 times a second."""
        while not self._over.wait(0.05):
            self.look()

    def look(self) -> None:
        """Once."""
        for process in self._process.children(recursive=True) if self._children else [self._process]:
            try:
                size, name = process.memory_info().rss, process.name()
            except psutil.Error:
                continue  # it has just ended
            memory = self.found.setdefault(process.pid, Memory(name, size))
            memory.peak = max(memory.peak, size)

    def stop(self) -> list[Memory]:
        """End, and say what was found, a process each."""
        self._over.set()
        self.join()
        return list(self.found.values())


def measure(folder: Path, seconds: float) -> Done:
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
        time.sleep(5)
        samplers = [Sampler(run.pid, children=True), Sampler(sender.pid or 0, children=False)]
        for sampler in samplers:
            sampler.look()
            sampler.start()
        size = log_size(folder)
        here.send("go")
        sending = hear(here, run)
        grown, replied_at = log_size(folder) - size, time.time_ns() // 1000
        (own,) = samplers[1].stop()
        time.sleep(5)
        ages = watch(log, seconds)
        return Done(sending, own, samplers[0].stop(), grown, replied_at, ages)
    finally:
        for process in (feeder, sender):
            if process.pid is not None:
                process.terminate()
                process.join()
        run.send_signal(signal.SIGINT)
        run.wait(60)
        log.close()


def feed(uri: str) -> None:
    """The feeder's process: rows in turns, so that none is replaced again before its last change was applied."""
    rng = np.random.default_rng(1)
    with Table("stock", uri, "feed", timeout=120) as table:
        due, first = time.monotonic(), 0
        while True:
            keys = (first + np.arange(REPLACED // STEPS)) % KEYS
            first += len(keys)
            table.insert_many({"id": keys, "x": rng.uniform(0, SPAN, len(keys))})
            due += 1 / STEPS
            time.sleep(max(0.0, due - time.monotonic()))


def subscribe(uri: str, folder: Path, pipe: Connection) -> None:
    """The sender's process: what `tolerant sql` does, after a warm-up."""
    log = open_log(uri, create=True)
    (few,) = StatementClient(log).parse("SUBSCRIBE area FROM 'few.parquet'")
    StatementClient(log).reply_to(StatementClient(log).send_subscription(few, folder).sent, 120)
    pipe.send("ready")
    pipe.recv()
    begin, start = log.end(), time.perf_counter()
    (statement,) = StatementClient(log).parse("SUBSCRIBE area FROM 'subs.parquet'")
    done = StatementClient(log).send_subscription(statement, folder)
    appended = time.perf_counter() - start
    reply = StatementClient(log).reply_to(done.sent, 900)
    replied = time.perf_counter() - start
    if reply is None or not reply.accepted or done.refused:
        raise RuntimeError(f"{done.refused} rows were refused, and the reply is {reply}")
    pipe.send(Sending(done.rows, appended, replied, begin, log.end()))
    log.close()


def watch(log: Log, seconds: float) -> list[float]:
    """How old the deliveries of these seconds were when they were read."""
    position, ages = log.end(), []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        entries = log.read("answers.area", position)
        now = time.time()
        for entry in entries:
            ages += (now - rows.unpack(entry.payload).column("at").to_numpy() / 1e6).tolist()
            position = entry.position
        time.sleep(0.02)
    return ages


def figures_of(folder: Path, done: Done, lows: Floats, highs: Floats, seconds: float) -> list[Figure]:
    log, sending = open_log(uri_of(folder), create=True), done.sending
    worker = max((m for m in done.run if "python" in m.name), key=lambda memory: memory.growth)
    java = max((m for m in done.run if "java" in m.name), key=lambda memory: memory.growth)
    meanwhile = {
        topic: [entry.payload for entry in log.read(topic, sending.begin) if entry.position <= sending.end]
        for topic in ("subscriptions.stock", "queries", "changes.stock")
    }
    pieces = meanwhile["subscriptions.stock"]
    decoded = sum(len(rows.unpack(payload)) for payload in meanwhile["queries"])
    changes = [rows.unpack(payload).column("kind").to_pylist() for payload in meanwhile["changes.stock"]]
    flowed = sum(kinds.count("insert") for kinds in changes)
    checked, wrong = compare_with_brute_force(log, done.replied_at, lows, highs)
    log.close()
    return [
        Figure("read, checked and appended", sending.appended, "s"),
        Figure("taken by the pipeline (the reply)", sending.replied, "s"),
        Figure("subscriptions", sending.accepted, "", f"{len(lows):,}", sending.accepted == len(lows)),
        Figure("statements decoded", decoded, "", "1", decoded == 1),
        Figure("rows of the table sent meanwhile", flowed, ""),
        Figure("batches in the log", len(pieces), ""),
        Figure("bytes in the log for a subscription", sum(map(len, pieces)) / sending.accepted, "B"),
        Figure("growth of the log's files until the reply", done.grown / 1e6, "MB"),
        Figure("sender, peak memory", done.sender.peak / 1e6, "MB"),
        Figure("sender, growth of memory", done.sender.growth, "MB"),
        Figure("shard's Python worker, peak memory", worker.peak / 1e6, "MB"),
        Figure("shard's Python worker, growth of memory", worker.growth, "MB"),
        Figure("Spark's JVM, growth of memory", java.growth, "MB"),
        Figure("deliveries afterwards", len(done.ages) / seconds, "a second"),
        Figure("age of a delivery, p50", float(np.percentile(done.ages, 50)), "s"),
        Figure("age of a delivery, p99", float(np.percentile(done.ages, 99)), "s"),
        Figure("changes compared with brute force", checked, ""),
        Figure("of these delivered otherwise", wrong, "", "0", wrong == 0),
    ]


def compare_with_brute_force(log: Log, since: int, lows: Floats, highs: Floats) -> tuple[int, int]:
    """How many of the changes made after `since` were looked at, and how many were not delivered to exactly the
    subscriptions whose range has the row.
    """
    delivered: dict[tuple[int, str, str], list[int]] = {}
    for entry in log.read("answers.area"):
        batch = rows.unpack(entry.payload)
        columns = (batch.column(name).to_pylist() for name in ("at", "kind", "key", "channel"))
        for at, kind, key, channel in zip(*columns, strict=True):
            if at >= since:
                delivered.setdefault((at, kind, key), []).append(~channel)  # a subscription's own
    until = max(at for at, _, _ in delivered)
    expected = [change for change in changes_made(log) if since <= change[0] < until]
    ids = subscription_ids({"low": pa.array(lows), "high": pa.array(highs)})
    chosen = np.random.default_rng(2).choice(len(expected), min(SAMPLE, len(expected)), replace=False)
    wrong = 0
    for at, kind, key, x in (expected[index] for index in chosen):
        inside = sorted(ids[(lows <= x) & (x <= highs)].tolist())
        wrong += sorted(delivered.get((at, kind, key), [])) != inside
    return len(chosen), wrong


def changes_made(log: Log) -> list[tuple[int, str, str, float]]:
    """(at, kind, key, x) of every row that went and every one that came, from what the feeder said."""
    held: dict[str, float] = {}
    found = []
    for entry in log.read("changes.stock"):
        batch = rows.unpack(entry.payload)
        columns = (batch.column(name).to_pylist() for name in ("kind", "key", "at", "row.x"))
        for kind, key, at, x in zip(*columns, strict=True):
            if kind == "clock":
                continue
            if key in held:
                found.append((at, "delete", key, held[key]))
            found.append((at, "insert", key, x))
            held[key] = x
    return found


def uri_of(folder: Path) -> str:
    return f"sqlite:///{folder}/log.db"


def log_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("log.db*") if path.is_file())


def hear(pipe: Connection, run: subprocess.Popen[bytes]) -> Sending:
    wait_for(lambda: pipe.poll(), run, 900)
    found: Sending = pipe.recv()
    return found


def wait_for(condition: Callable[[], bool], run: subprocess.Popen[bytes], patience: float = 180.0) -> None:
    end = time.monotonic() + patience
    while not condition():
        if run.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the pipeline does not answer (exit code {run.poll()})")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
