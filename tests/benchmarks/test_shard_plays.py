"""How many compiled functions a shard of each kind calls: each costs its start some 20 ms to load."""

import subprocess
import sys
from pathlib import Path

import pytest

PLAYS = Path(__file__).parent.parent.parent / "benchmarks" / "shard_plays.py"

FUNCTIONS = {"bounded": 25, "polled": 11, "network": 19, "tables": 9, "joins": 9, "kept_joins": 10}
"""Signatures that Python calls. One more may be right: then say so here."""


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_signatures_do_not_grow_unseen(kind: str) -> None:
    played = subprocess.run([sys.executable, str(PLAYS), kind], capture_output=True, text=True, check=True)
    assert int(played.stdout.split()[0]) == FUNCTIONS[kind]
