"""Mutated and strange payloads through every kind of shard: no exception, no crash, no hang, memory bounded, and after
each what is settled is still true.
"""

from __future__ import annotations

import faulthandler
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from stages import STAGES, Stage, stage

SECONDS = 1.5
"""For each kind of shard, in `make test`; `make soak` has no such bound."""
PAYLOADS = 100_000
EPISODE = 2000
TOGETHER = 20
"""Payloads between two looks at what the shard says, in `make test`."""
SOAK_TOGETHER = 200
"""The same in `make soak`, where the true sources would otherwise take most of the time."""
DEADLINE = 600.0
"""Seconds after which an episode counts as hanging: it takes a few, and a busy machine is slow."""
MEMORY = 1 << 30
OF_STREAMS = ("bounded", "adaptive", "summed", "split", "polled", "networked")
"""The soak of these is here, that of the others in `test_table_payloads.py`: a file's tests share a process."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """End the process, with every stack in a file, if the body takes longer: also where compiled code hangs."""
    with open(Path(tempfile.gettempdir()) / "tolerant_fuzz_hang.txt", "a") as file:
        faulthandler.dump_traceback_later(seconds, exit=True, file=file)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def episode(of: Stage, kind: str, count: int, end: float, together: int = TOGETHER) -> int:
    """Feed payloads of one kind to a stage until there were enough, time is over, or a forged clock has been taken."""
    topic, forger = of.kinds[kind]
    done = 0
    while done < count and of.is_sound and (done < together or time.monotonic() < end):
        for _ in range(together):
            of.put(topic, forger.payload(of.now))
        done += together
        of.step()
    of.finish()
    return done


def feed(name: str, kinds: list[str], payloads: int, seconds: float, together: int = TOGETHER) -> int:
    """Episodes, one kind after the other; how many payloads there were."""
    end, done, number = time.monotonic() + seconds, 0, 0
    warnings.simplefilter("ignore", UserWarning)  # who reads records back says which it leaves out
    while done < payloads and (number < len(kinds) or time.monotonic() < end):
        with deadline(DEADLINE):
            count = min(EPISODE, payloads - done)
            done += episode(stage(name, number), kinds[number % len(kinds)], count, end, together)
        number += 1
    return done


def kinds_of(name: str) -> list[str]:
    return list(stage(name, 0).kinds)


@pytest.mark.parametrize("name", STAGES)
def test_forged_payloads_for_a_while(name: str) -> None:
    assert feed(name, kinds_of(name), PAYLOADS, SECONDS) > 0


@pytest.mark.soak
@pytest.mark.timeout(0)  # an hour or two for all kinds of rows of a stage; each episode has its own deadline
@pytest.mark.parametrize("name", OF_STREAMS)
def test_a_hundred_thousand_forged_payloads_of_each_kind(name: str) -> None:
    feed_all(name)


def feed_all(name: str) -> None:
    """All payloads of every kind of row of a stage."""
    before = _memory()
    for kind in kinds_of(name):
        assert feed(name, [kind], PAYLOADS, float("inf"), SOAK_TOGETHER) >= PAYLOADS
        assert _memory() - before < MEMORY
    assert pa.total_allocated_bytes() < MEMORY


def _memory() -> int:
    """The most that this process ever had, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


HANGS = """
import sys
sys.path.append(sys.argv[1])
from test_payloads import deadline
with deadline(60):
    pass
print("begins", flush=True)
with deadline(0.2):
    while True:
        pass
"""


def test_an_episode_that_hangs_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    here = str(Path(__file__).parent)
    ended = subprocess.run([sys.executable, "-c", HANGS, here], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("begins\n", 1), ended.stderr
    assert "Timeout" in (tmp_path / "tolerant_fuzz_hang.txt").read_text()
