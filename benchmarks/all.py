"""Every benchmark, one after the other, each in a process of its own: `python benchmarks/all.py --quick`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from side_by_side import arguments

HERE = Path(__file__).resolve().parent
HARNESS = {
    "all.py",
    "compare_commits.py",
    "side_by_side.py",
    "entry_source.py",
    "operator_hosting.py",
    "plain_job.py",
    "planning_plain.py",
    "joins_loads.py",
    "joins_plain.py",
    "shard_plays.py",
}


def main() -> None:
    options = ["--quick"] if arguments(__doc__ or "").quick else []
    missed = []
    for script in sorted(path for path in HERE.glob("*.py") if path.name not in HARNESS):
        print(f"\n== {script.name}", flush=True)
        if subprocess.run([sys.executable, str(script), *options], check=False).returncode:
            missed.append(script.name)
    print(f"\n{'every bar that was judged holds' if not missed else 'failed, or missed a bar: ' + ', '.join(missed)}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
