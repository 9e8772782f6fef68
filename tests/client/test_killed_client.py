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

from tolerant.testing import LocalPipeline
from tolerant.transport import open_log
from tolerant.transport.common import wall_clock

STATEMENTS = """
CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);
CREATE QUERY cheap AS SELECT * FROM stock WHERE x BETWEEN 0 AND 10;
"""
KILLS = 50
STEPS = 20
"""Of the feeder for each client: on a busy machine it would get ahead of clients that live for a moment."""
PATIENCE = 120  # seconds


class Feeder(threading.Thread):
    """Changes the table and lets its pipeline tick, once per step that is released."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self.log = open_log(uri, create=True)
        self.pipeline = LocalPipeline(STATEMENTS, log=self.log, now=wall_clock())
        self.over = threading.Event()
        self.steps = threading.Semaphore(STEPS)

    def run(self) -> None:
        chance, table = random.Random(1), self.pipeline.table()
        while self.steps.acquire() and not self.over.is_set():
            for _ in range(3):
                key = chance.randrange(20)
                table.update(id=key, x=chance.uniform(-5, 15)) if chance.random() < 0.8 else table.delete(key)
            self.pipeline.tick()
            time.sleep(0.005)


def test_a_client_killed_at_random_hears_every_change_once(tmp_path: Path) -> None:
    uri, file = f"sqlite:///{tmp_path}/log.db", str(tmp_path / "kept.db")
    feeder = Feeder(uri)
    feeder.start()
    chance = random.Random(2)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["killed_application"])
    for _ in range(KILLS):
        process = context.Process(target=application, args=(uri, file), daemon=True)
        before = len(heard(file))
        process.start()
        feeder.steps.release(STEPS)
        if chance.random() < 0.7:  # in the midst of its work; else while it starts
            wait(lambda before=before: len(heard(file)) > before, feeder.steps.release)
        time.sleep(chance.uniform(0.0, 0.1))
        process.kill()
        process.join()
    feeder.over.set()
    feeder.steps.release()
    feeder.join()
    delivered = [row["step"] for row in feeder.pipeline.rows("answers.cheap")]
    last = context.Process(target=application, args=(uri, file), daemon=True)
    last.start()
    wait(lambda: heard(file)[-1:] == delivered[-1:])
    last.kill()
    last.join()
    steps = heard(file)
    assert len(steps) > KILLS
    assert steps == [step for step in delivered if step >= steps[0]]
    feeder.log.close()


def wait(condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
    """Waits; `meanwhile` lets the feeder continue, which may have done all its steps before the client subscribed."""
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
