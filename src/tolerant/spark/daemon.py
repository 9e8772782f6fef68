"""The process that starts Spark's Python workers (`spark.python.daemon.module`): PySpark's own, but quicker to start.

Spark puts a zip file of PySpark in front of everything else on a worker's path. Python cannot keep compiled code in a
zip, so each worker compiles PySpark again, most of a second; a pipeline starts half a dozen on its way to the first
answer. The same PySpark is installed, compiled, in the environment that the workers run in: the zip is left out.

Nothing but the standard library may be imported above the fork: NumPy and Arrow start threads.
"""

from __future__ import annotations

import importlib.util
import sys


def _leave_out_zip() -> None:
    """Drop Spark's zip files from the path, if PySpark can be had without them."""
    kept = [entry for entry in sys.path if not entry.endswith(".zip") or "pyspark" not in entry]
    before, sys.path[:] = list(sys.path), kept
    if importlib.util.find_spec("pyspark") is None or importlib.util.find_spec("py4j") is None:
        sys.path[:] = before


if __name__ == "__main__":
    _leave_out_zip()
    from pyspark.daemon import manager

    manager()
