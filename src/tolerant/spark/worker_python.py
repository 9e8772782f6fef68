"""The Python that Spark starts its helper processes and workers with: this one, but without Spark's zip of PySpark.

Spark puts the zip in front of everything else on their path. Python cannot keep compiled code in a zip, so each process
compiles PySpark again, most of a second. The same PySpark is installed, compiled, in the environment of this process.
"""

from __future__ import annotations

import shlex
import sys
import zlib
from pathlib import Path

from tolerant.spark.java import user_cache, write_program

_SCRIPT = """#!/bin/sh
# Made by tolerant: starts Python without the zip files of PySpark on its path.
kept=
IFS=:
for entry in $PYTHONPATH; do
    case "$entry" in
        */pyspark/python/lib/*.zip) ;;
        *) kept="$kept${{kept:+:}}$entry" ;;
    esac
done
PYTHONPATH="$kept"
export PYTHONPATH
exec {python} "$@"
"""


def worker_python(cache: Path | None = None) -> Path:
    """A program that runs this process's Python so, kept in `cache`."""
    script = _SCRIPT.format(python=shlex.quote(sys.executable))
    program = (cache or user_cache()) / f"python-{zlib.crc32(script.encode()):08x}" / "python"
    write_program(program, script)
    return program
