"""What the system does is what was recorded: a few of the digests that `tools/digests.py` compares in full.

A change on purpose records them again (`--write`), and `docs/testing.md` says what it was.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
FEW = ["faults: streams", "faults: pairs", "shard: tables", "shard: joined", "core: merging", "core: notifications"]


@pytest.fixture
def digests(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    import digests

    return digests


def test_a_few_digests_are_those_that_were_recorded():
    command = [sys.executable, str(TOOLS / "digests.py"), "--seeds", "3", "--processes", "1", "--only", *FEW]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_run_is_recorded(digests):
    recorded = json.loads(digests.RECORDED.read_text())
    from digested_runs import RUNS

    assert {name: len(texts) for name, texts in recorded.items()} == {name: seeds for name, (seeds, _) in RUNS.items()}


def of(digests, *rows):
    digest = digests.Digest({"old": "new"})
    for topic, row in rows:
        digest.add_row(0, topic, row)
    return digest.hex()


def test_the_order_in_a_topic_counts_and_across_topics_does_not(digests):
    first, second, other = ("a", {"x": 1.0}), ("a", {"x": 2.0}), ("b", {"x": 1.0})
    assert of(digests, first, second, other) == of(digests, other, first, second)
    assert of(digests, first, second, other) != of(digests, second, first, other)
    assert of(digests, first) != of(digests, ("a", {"x": 1.0000000000000002}))


def test_ids_count_by_their_first_appearance_and_names_by_their_new_ones(digests):
    ids = [letter * 32 for letter in "abc"]
    assert of(digests, ("t", ids[0]), ("u", ids[0])) == of(digests, ("t", ids[1]), ("u", ids[1]))
    assert of(digests, ("t", ids[0]), ("u", ids[0])) != of(digests, ("t", ids[0]), ("u", ids[1]))
    assert of(digests, ("t", "the old way")) == of(digests, ("t", "the new way"))
