"""A worker imports what its kind of shard needs, and no more: another kind's core, Numba and pandas cost its start."""

import subprocess
import sys

import pytest

CORES = {"filters", "polling", "planning", "merging", "joins", "retention", "notifications", "views"}

OWN = {
    "bounded": {"filters"},
    "polled": {"polling"},
    "network": {"filters", "planning"},
    "tables": {"merging", "notifications"},
    "joins": {"joins"},
    "kept_joins": {"retention"},
}
"""The cores of a kind's shard; some it imports only for the queries that need them."""

ROWS = {"tolerant.filters", "tolerant.filters.reports", "tolerant.filters.state"}
"""What a report in a row looks like, which whoever takes rows has to know."""


@pytest.mark.parametrize("kind", OWN)
def test_a_shard_imports_its_own_cores_only(kind: str) -> None:
    program = f"import sys, tolerant.kinds.{kind}.shard; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in modules if name.startswith("tolerant.")} - ROWS
    assert {name.split(".")[1] for name in ours} & CORES <= OWN[kind]
    assert not {"numba", "pandas", "scipy", "pyspark", "matplotlib"} & set(modules)
