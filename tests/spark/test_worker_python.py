import json
import os
import subprocess
import sys
from pathlib import Path

from tolerant.spark.worker_python import worker_python

_PROGRAM = "import json, os, sys; print(json.dumps([sys.executable, os.environ['PYTHONPATH'], sys.argv[1:]]))"


def test_the_zips_are_left_out_and_nothing_else(tmp_path: Path) -> None:
    python = worker_python(tmp_path / "a cache")
    zips = ["/x y/pyspark/python/lib/pyspark.zip", "/x y/pyspark/python/lib/py4j-0.10.9-src.zip"]
    path = os.pathsep.join([*zips, "/my code", "/my/other.zip"])
    done = subprocess.run(
        [python, "-c", _PROGRAM, "a b", "$c"], env={"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [sys.executable, "/my code:/my/other.zip", ["a b", "$c"]]
    assert worker_python(tmp_path / "a cache") == python
