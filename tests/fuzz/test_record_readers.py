"""Forged records of compacted topics to everybody who reads them back: no exception, no crash, no hang, memory bounded,
and what is true beside them is read as it was written.
"""

from __future__ import annotations

import time
import warnings

import pytest
from record_readers import READERS
from test_payloads import DEADLINE, MEMORY, PAYLOADS, deadline
from test_payloads import _memory as memory

SECONDS = 0.8
"""For each kind of reader, in `make test`."""
EPISODE = 500
TOGETHER = {"models": 1}
"""Records between two readings, where not 5."""


def feed(name: str, topic: str | None, payloads: int, seconds: float) -> int:
    """Forge records for one topic of a reader, or for all in turn; how many there were."""
    end, done, number = time.monotonic() + seconds, 0, 0
    together = TOGETHER.get(name, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # readers say which records they leave out
        while done < payloads and (not number or time.monotonic() < end):
            with deadline(DEADLINE):
                reader = READERS[name](number)
                for _ in range(min(EPISODE, payloads - done) // together):
                    for _ in range(together):
                        topics = list(reader.forgers) if topic is None else [topic]
                        reader.put(topics[done % len(topics)])
                        done += 1
                    reader.read()
                    if done > 20 and time.monotonic() > end:
                        break
            number += 1
    return done


@pytest.mark.parametrize("name", READERS)
def test_forged_records_for_a_while(name: str) -> None:
    assert feed(name, None, PAYLOADS, SECONDS) > 0


@pytest.mark.soak
@pytest.mark.timeout(0)  # each episode has its own deadline
@pytest.mark.parametrize("name", READERS)
def test_a_hundred_thousand_forged_records_of_each_kind(name: str) -> None:
    before = memory()
    for topic in READERS[name](0).forgers:
        assert feed(name, topic, PAYLOADS, float("inf")) >= PAYLOADS
        assert memory() - before < MEMORY
