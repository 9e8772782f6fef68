"""Processor time from a fresh clone to an environment in which the demo starts: what `make venv` takes.

The last commit is cloned into a temporary folder and set up there by `tools/venv.sh`, with all processes counted. Pip's
cache should be warm: run it twice, if it may not be.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from side_by_side import Figure, arguments, report

ROOT = Path(__file__).resolve().parent.parent
BAR = 90.0
PREPARE = ".venv/bin/python -m tolerant.demo.prepare\n"
"""The line of `tools/venv.sh` that is taken apart."""
STEPS = {
    "install": ["sh", "tools/venv.sh"],
    "compile": [".venv/bin/python", "-c", "from tolerant.demo.prepare import warm; warm()"],
    "archive of classes": [
        ".venv/bin/python",
        "-c",
        "from tolerant.demo.prepare import record_classes as r; assert r()",
    ],
}


def main() -> None:
    arguments(__doc__ or "")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "tolerant"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        script = clone / "tools" / "venv.sh"
        before, line, after = script.read_text().partition(PREPARE)
        assert line, "tools/venv.sh prepares in another way"
        script.write_text(before + after)
        seconds = {name: processor_seconds(command, clone) for name, command in STEPS.items()}
    total = sum(seconds.values())
    figures = [Figure("set-up", total, "processor s", f"≤ {BAR:g} s", total <= BAR)]
    figures += [Figure(name, of_it, "processor s") for name, of_it in seconds.items()]
    sys.exit(0 if report("setup-time", {"clone": "last commit"}, figures) else 1)


def processor_seconds(command: list[str], folder: Path) -> float:
    """The processor seconds of a command and of all that it starts."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "VIRTUAL_ENV"))}
    environment = own | {"PYTHON": getattr(sys, "_base_executable", sys.executable)}
    tool = [sys.executable, str(ROOT / "tools" / "processor_time.py")]
    done = subprocess.run([*tool, *command], cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    said = re.search(r"([\d,.]+) s of processor time", done.stdout)
    assert said is not None, done.stdout
    return float(said[1].replace(",", ""))


if __name__ == "__main__":
    main()
