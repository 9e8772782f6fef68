"""What a process pays before it does anything: processor seconds and memory of each import and of compiled code.

Each row is a process of its own, the best of some. What is compiled comes from the cache, which a first run fills. Last
is a shard of each kind at work (`shard_plays.py`): how many compiled functions it calls, and what loading them takes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from side_by_side import Figure, arguments, report

_IMPORTS = {
    "Python itself": "pass",
    "NumPy": "import numpy",
    "Arrow": "import pyarrow",
    "pandas": "import pandas",
    "Numba": "import numba",
    "sqlglot": "import sqlglot.dialects.spark",
    "PySpark's worker": "import pyspark.worker",
    "the edge": "from tolerant.edge import Source",
    "the client": "from tolerant.client import Client",
    "the log as a data source": "import tolerant.spark.source",
    "the host of shards": "import tolerant.spark.processor",
    "shards of streams": "import tolerant.kinds.bounded.shard",
    "shards of polled streams": "import tolerant.kinds.polled.shard",
    "shards of networks": "import tolerant.kinds.network.shard",
    "shards of tables": "import tolerant.kinds.tables.shard",
    "shards of joins": "import tolerant.kinds.joins.shard",
    "shards of kept joins": "import tolerant.kinds.kept_joins.shard",
}
_COMPILED = {
    "a source that is ready": (
        "from tolerant.edge.warm_up import warm_source; from tolerant.streams import StreamOptions;"
        "warm_source(StreamOptions())"
    ),
    "a source and a shard of a stream at work": "from tolerant.demo.prepare import warm; warm()",
}
KINDS = ("bounded", "polled", "network", "tables", "joins", "kept_joins")
PLAYS = Path(__file__).resolve().parent / "shard_plays.py"
_PROGRAM = """
import resource, sys
exec(sys.argv[1])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
"""


def main() -> None:
    rounds = 2 if arguments(__doc__ or "").quick else 5
    for program in _COMPILED.values():
        cost(program)  # compiles, if need be
    figures = []
    for name, program in (_IMPORTS | _COMPILED).items():
        runs = [cost(program) for _ in range(rounds)]
        figures.append(Figure(name, min(seconds for seconds, _ in runs), "processor s"))
        figures.append(Figure(name, min(memory for _, memory in runs), "MB"))
    for kind in KINDS:
        loads = [load(kind) for _ in range(rounds + 1)][1:]  # the first compiles, if need be
        figures.append(Figure(f"shard of {kind}, compiled functions", loads[0][0], ""))
        figures.append(Figure(f"shard of {kind}, loading them", min(seconds for _, seconds in loads), "processor s"))
    sys.exit(0 if report("start-costs", {"rounds": rounds}, figures) else 1)


def cost(program: str) -> tuple[float, float]:
    """Processor seconds and megabytes of a process that runs a program."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, program], capture_output=True, text=True, check=True)
    seconds, memory = done.stdout.split()[-2:]
    return float(seconds), float(memory)


def load(kind: str) -> tuple[int, float]:
    """Compiled functions that a shard of this kind calls, and processor seconds to load them, without Numba itself."""
    command = [sys.executable, str(PLAYS), kind]
    functions, seconds, _ = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(functions), float(seconds)


if __name__ == "__main__":
    main()
