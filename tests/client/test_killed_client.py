"""A client that is killed again and again hears every change exactly once: it keeps what it did and where it stands
together.
"""

import multiprocessing
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from killed_application import application

from tolerant.client import StatementClient
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import parse
from tolerant.transport import open_log
from tolerant.transport.changes import clock_row
from tolerant.transport.rows import unpack

STOCK = parse("CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)")
CHEAP = parse("CREATE QUERY cheap AS SELECT * FROM stock WHERE x BETWEEN 0 AND 10")
KILLS = 50
STEPS = 20
"""Of the shop for each client: on a busy machine it would get ahead of clients that live for a moment."""
PATIENCE = 120  # seconds


class Shop(threading.Thread):
    """Changes the table and publishes what a pipeline would, as many times as it is told to."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self.log = open_log(uri, create=True)
        self.over = threading.Event()
        self.steps = threading.Semaphore(STEPS)

    def run(self) -> None:
        chance, position, now = random.Random(1), 0, time.time_ns() // 1000
        shard = TableShard(STOCK)
        table = Table(STOCK, self.log, "shop", clock=lambda: now)
        while self.steps.acquire() and not self.over.is_set():
            for _ in range(3):
                key = chance.randrange(20)
                table.update(id=key, x=chance.uniform(-5, 15)) if chance.random() < 0.8 else table.delete(key)
            table.flush()
            now += 1_000_000
            self.log.append("changes.stock", clock_row(STOCK.columns, now, 1, "checkpoint"))
            entries = self.log.read(["queries", "changes.stock", "subscriptions.stock"], position)
            position = entries[-1].position
            outputs = shard.apply(entries)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])
            time.sleep(0.005)


def test_a_client_killed_at_random_hears_every_change_once(tmp_path: Path) -> None:
    uri, file = f"sqlite:///{tmp_path}/log.db", str(tmp_path / "kept.db")
    shop = Shop(uri)
    StatementClient(shop.log).send(STOCK)
    StatementClient(shop.log).send(CHEAP)
    shop.start()
    chance = random.Random(2)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed_application"])
    for _ in range(KILLS):
        process = context.Process(target=application, args=(uri, file), daemon=True)
        before = len(heard(file))
        process.start()
        shop.steps.release(STEPS)
        if chance.random() < 0.7:  # in the midst of its work; else while it starts
            wait(lambda before=before: len(heard(file)) > before, shop.steps.release)
        time.sleep(chance.uniform(0.0, 0.1))
        process.kill()
        process.join()
    shop.over.set()
    shop.steps.release()
    shop.join()
    delivered = [row["step"] for entry in shop.log.read("answers.cheap") for row in unpack(entry.payload).to_pylist()]
    last = context.Process(target=application, args=(uri, file), daemon=True)
    last.start()
    wait(lambda: heard(file)[-1:] == delivered[-1:])
    last.kill()
    last.join()
    steps = heard(file)
    assert len(steps) > KILLS
    assert steps == [step for step in delivered if step >= steps[0]]
    shop.log.close()


def wait(condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Waits; `meanwhile` lets the shop continue, which may have done all its steps before the client subscribed."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited {PATIENCE} s"
        meanwhile()
        time.sleep(0.05)


def heard(file: str) -> list[int]:
    if not Path(file).exists():
        return []
    with sqlite3.connect(file, timeout=30) as kept:
        if not kept.execute("SELECT count(*) FROM sqlite_master WHERE name = 'heard'").fetchone()[0]:
            return []
        return [step for (step,) in kept.execute("SELECT step FROM heard WHERE NOT current ORDER BY rowid")]
