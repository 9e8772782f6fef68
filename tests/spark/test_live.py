"""The real thing: `tolerant run` and sources as processes on one log, through all that can happen to them."""

import math
import os
import random
import signal
import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from live import STREAM, Live, violations

from tolerant.edge import Source
from tolerant.kernels.versions import version
from tolerant.transport.rows import NO_TIME, unpack, updates_batch

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

QUERY = "CREATE QUERY level AS SELECT AVG(v) FROM live WITHIN 4;"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    one = Live(tmp_path, QUERY)
    yield one
    one.close()


def begin(live: Live) -> None:
    """Two sources and a pipeline, settled."""
    live.run()
    live.wait(lambda: "live" in str(live.tolerant("sql", "SHOW STREAMS").stdout), "the stream")
    live.start("a")
    live.start("b")
    live.wait_settled("level")


def test_a_life(live: Live) -> None:
    begin(live)
    tolerance = [(0, 4.0)]

    # A query comes, is tightened and widened while rows flow, and goes.
    assert live.tolerant("sql", "CREATE QUERY top AS SELECT MAX(v) FROM live WITHIN 3").returncode == 0
    live.wait_settled("top")
    for within in (0.5, 4.0):
        # It takes effect at the watermark, which is behind the clock, but never behind an answer.
        tolerance.append((live.answers("level")[-1].at, max(within, tolerance[-1][1])))
        done = live.tolerant("sql", f"ALTER QUERY level WITHIN {within}")
        assert done.returncode == 0, done.stderr
        live.wait_settled("level")
        tolerance.append((live.answers("level")[-1].at, within))
    assert live.tolerant("sql", "DROP QUERY top").returncode == 0
    assert live.tolerant("sql", "DROP QUERY top").returncode != 0

    # A row that cannot be used stops nobody.
    bad = updates_batch(
        kind="update", keys=["no key"], at=[1], source="a", sequence=[version(9, 1)], through=1, value=[1.0]
    )
    live.log.append("updates.live", bad)
    live.wait(lambda: live.log.read("dead_letters.live"), "the dead letter")
    assert "key" in live.tolerant("dead", "live").stdout
    live.wait_settled("level")

    # A source dies, its items go stale; it comes back.
    live.kill(live.sources["b"])
    live.wait(lambda: live.answers("level")[-1].stale, "stale answers")
    live.start("b")
    live.wait_settled("level")

    # A second run takes over from the first.
    first = live.runs[-1]
    live.run("--take-over")
    assert first.wait(live.patience) == 1
    assert "newer epoch" in (live.folder / "run-0.txt").read_text()
    live.wait_settled("level")

    # Ctrl-C ends cleanly.
    last = live.runs[-1]
    os.killpg(last.pid, signal.SIGINT)
    assert last.wait(60) == 0
    checked, wrong = violations(
        live, "level", fmean, lambda at: next(w for begun, w in reversed(tolerance) if begun < at)
    )
    assert checked > 50
    assert wrong == []


def test_a_minimum_waits_for_the_items_that_it_asks(tmp_path: Path) -> None:
    """The least item jumps over the floors of others, which are asked while the answer waits."""
    live = Live(tmp_path, "CREATE QUERY least AS SELECT MIN(v) FROM live WITHIN 2;", stream=STREAM.replace("'5", "'60"))
    chance, truth, jumps = random.Random(1), [], []
    values = {("s", f"k{number}"): 100.0 + 10 * number for number in range(6)} | {("s", "low"): 0.0}
    try:
        live.run()
        live.wait(lambda: "live" in str(live.tolerant("sql", "SHOW STREAMS").stdout), "the stream")
        with Source("live", log=live.uri, name="s") as source:

            def put(seconds: float) -> None:
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    values.update({k: value + chance.gauss(0, 1) for k, value in values.items() if k[1] != "low"})
                    at = source.set_many(list(values), np.array(list(values.values())))
                    truth.append((at, min(values.values())))
                    time.sleep(0.1)

            put(1.0)
            live.wait_settled("least")
            put(6.0)
            for low in (70.0, 0.0, 70.0):
                values["s", "low"] = low
                put(0.05)
                jumps += [truth[-1][0]] if low else []
                put(6.0)
        answers = live.answers("least")
        for answer in answers:
            index = bisect_right(truth, (answer.at, math.inf)) - 1
            if answer.settled and index >= 0:
                assert answer.low - 1e-9 <= truth[index][1] <= answer.high + 1e-9
                assert answer.high - answer.low <= 4 + 1e-9
        assert any(row.get("recent_ranges") for row in live.rows())
        # A machine that is busy enough takes longer for a round trip than the answer waits.
        assert any(next(answer for answer in answers if answer.at >= jump).settled for jump in jumps)
    finally:
        live.close()


def kill_at_random(live: Live, times: int, seed: int) -> None:
    chance = random.Random(seed)
    begin(live)
    for _ in range(times):
        time.sleep(chance.uniform(0.5, 4.0))
        victims = chance.choice([["run"], ["a"], ["run", "b"], ["a", "b"]])
        for victim in victims:
            live.kill(live.runs[-1] if victim == "run" else live.sources[victim])
        time.sleep(chance.uniform(0.0, 3.0))
        for victim in victims:
            if victim == "run":
                live.run()
            else:
                live.start(victim)
        live.wait_settled("level")
    checked, wrong = violations(live, "level", fmean, lambda _: 4.0)
    assert checked > 50
    assert wrong == []
    assert late_in_backlogs(live) == []
    assert_nothing_said_twice(live)


def late_in_backlogs(live: Live) -> list[dict]:
    """Rows that came while no pipeline wrote clock rows, and are late all the same.

    Elsewhere a row may be late: on a machine that is busy enough a source is.
    """
    latency, downtime = 2_000_000, 1_000_000
    found: list[dict] = []
    backlog: list[dict] = []
    clock = 0
    for row in live.rows():
        if row["kind"] != "clock":
            backlog.append(row)
        elif row["at"] > NO_TIME:
            if row["at"] - clock > downtime:
                found += [one for one in backlog if one["at"] <= clock - latency]
            backlog, clock = [], max(clock, row["at"])
    return found


def assert_nothing_said_twice(live: Live) -> None:
    published = [entry.payload for entry in live.log.read("answers.level")]
    rows = [tuple(row.values()) for payload in published for row in unpack(payload).to_pylist()]
    assert len(rows) == len(set(rows))


def test_killed_at_random_moments_it_breaks_no_promise(live: Live) -> None:
    kill_at_random(live, times=3, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_killed_twenty_times_it_breaks_no_promise(live: Live) -> None:
    kill_at_random(live, times=20, seed=2)
