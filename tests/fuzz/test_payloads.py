"""Mutated and strange payloads through every kind of shard: no exception, no crash, no hang, memory bounded, and after
each what is settled is still true.
"""

from __future__ import annotations

import resource
import time
import warnings

import pyarrow as pa
import pytest
from stages import STAGES, Stage, stage

SECONDS = 1.5
"""For each kind of shard, in `make test`; `make soak` has no such bound."""
PAYLOADS = 100_000
EPISODE = 500
TOGETHER = 20
"""Payloads between two looks at what the shard says."""
MEMORY = 1 << 30


def episode(of: Stage, kind: str, count: int, end: float) -> int:
    """Feed payloads of one kind to a stage until there were enough, time is over, or a forged clock has been taken."""
    topic, forger = of.kinds[kind]
    done = 0
    while done < count and of.is_sound and (done < TOGETHER or time.monotonic() < end):
        for _ in range(TOGETHER):
            of.put(topic, forger.payload(of.now))
        done += TOGETHER
        of.step()
    of.finish()
    return done


def feed(name: str, kinds: list[str], payloads: int, seconds: float) -> int:
    """Episodes, one kind after the other; how many payloads there were."""
    end, done, number = time.monotonic() + seconds, 0, 0
    warnings.simplefilter("ignore", UserWarning)  # who reads records back says which it leaves out
    while done < payloads and (number < len(kinds) or time.monotonic() < end):
        done += episode(stage(name, number), kinds[number % len(kinds)], min(EPISODE, payloads - done), end)
        number += 1
    return done


def kinds_of(name: str) -> list[str]:
    return list(stage(name, 0).kinds)


@pytest.mark.parametrize("name", STAGES)
def test_forged_payloads_for_a_while(name: str) -> None:
    assert feed(name, kinds_of(name), PAYLOADS, SECONDS) > 0


@pytest.mark.soak
@pytest.mark.timeout(0)  # hours, for all kinds of rows of a stage
@pytest.mark.parametrize("name", STAGES)
def test_a_hundred_thousand_forged_payloads_of_each_kind(name: str) -> None:
    before = _memory()
    for kind in kinds_of(name):
        assert feed(name, [kind], PAYLOADS, float("inf")) >= PAYLOADS
        assert _memory() - before < MEMORY
    assert pa.total_allocated_bytes() < MEMORY


def _memory() -> int:
    """The most that this process ever had, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
