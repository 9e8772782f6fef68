"""A source works where Numba is not installed, and sends the same rows."""

import subprocess
import sys

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None  # as if it were not installed
import pytest
from tolerant.kernels.compiled import has_numba
assert not has_numba()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


def test_a_source_without_numba_does_what_its_slow_twin_does():
    tests = ["tests/edge/test_source_core.py", "tests/edge/test_source_sums.py", "-k", "twin or sums_after_fifty"]
    run = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA, *tests], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed" in run.stdout


def test_a_source_imports_neither_numba_nor_spark():
    program = "import sys; from tolerant.edge import Source; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "tolerant.edge.source" in modules
    assert not {"numba", "scipy", "pandas", "matplotlib", "pyspark", "sqlglot", "pyarrow.parquet"} & set(modules)
