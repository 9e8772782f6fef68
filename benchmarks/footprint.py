"""What the base install costs: size on disk, processor time to start commands and to import, memory of a source.

Processor time is the least of several runs, each in a new process. The size is of the packages that `pip install
tolerant` brings, as installed here, without the bytecode that Python makes of them. A source runs as it does in the
base install; beside it what it takes where Numba and pandas are installed. Its memory is the most that it had, and what
of it is its own: the rest is code of Arrow and NumPy, mapped from files, which processes share and the system can drop.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, distribution
from pathlib import Path

from side_by_side import Figure, arguments, report

COMMAND = "import sys; sys.argv[0] = 'tolerant'; from tolerant.cli import main; main()"
COMPLETION = {"_TOLERANT_COMPLETE": "complete_bash", "COMP_WORDS": "tolerant re", "COMP_CWORD": "1"}
BASE_ONLY = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_base(name, path=None, target=None):
    return None if name.split(".")[0] in ("numba", "pandas", "scipy") else find(name, path, target)
PathFinder.find_spec = find_base
"""
"""As if they were not installed: Arrow imports pandas where there is one."""
DEFINITION = """
from tolerant.client import StatementClient
from tolerant.transport import open_log
log = open_log("sqlite:///log.db", create=True)
StatementClient(log).register("CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)")
log.close()
"""
SOURCE = """
import resource
import numpy as np
import psutil
from tolerant.edge import Source
with Source("traffic", "sqlite:///log.db", name="footprint") as source:
    handles = source.register([(f"host-{n}", "in") for n in range(1_000)])
    for step in range(10):
        source.set_many(handles, np.arange(1_000.0) + step)
        source.flush()
    most, own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, psutil.Process().memory_full_info().uss
    print(most * 1024 / 1e6, own / 1e6)
"""
LIBRARIES = """
import resource
import numpy, pyarrow
import psutil
most, own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, psutil.Process().memory_full_info().uss
print(most * 1024 / 1e6, own / 1e6)
"""


def main() -> None:
    runs = 3 if arguments(__doc__ or "").quick else 10
    commands = {
        "`tolerant --help`": ([COMMAND, "--help"], {}, 0.25),
        "`tolerant --version`": ([COMMAND, "--version"], {}, 0.25),
        "shell completion": ([COMMAND], COMPLETION, 0.25),
        "`import tolerant.edge`": (["import tolerant.edge"], {}, 0.3),
        "`from tolerant.edge import Source`": (["from tolerant.edge import Source"], {}, 0.3),
        "`from tolerant.client import Client`": (["from tolerant.client import Client"], {}, None),
        "Python alone": (["pass"], {}, None),
    }
    figures = []
    for name, (call, variables, most) in commands.items():
        seconds = min(processor_seconds(call, variables) for _ in range(runs))
        target = f"≤ {most} s" if most else ""
        figures.append(Figure(f"processor time, {name}", seconds, "s", target, seconds <= most if most else None))
    memory, own = source_memory(BASE_ONLY + SOURCE)
    figures.append(Figure("memory of a source with 1,000 items", memory, "MB", "≤ 80 MB", memory <= 80))
    figures.append(Figure("of it its own (USS)", own, "MB"))
    for name, program in {
        "NumPy and Arrow alone": BASE_ONLY + LIBRARIES,
        "a source where Numba and pandas are installed": SOURCE,
    }.items():
        memory, own = source_memory(program)
        figures.append(Figure(f"memory, {name}", memory, "MB"))
        figures.append(Figure(f"its own, {name}", own, "MB"))
    files, bytecode = base_size()
    figures.append(Figure("base install, files of its packages", files, "MB", "≤ 250 MB", files <= 250))
    figures.append(Figure("bytecode that pip makes of them", bytecode, "MB"))
    sys.exit(not report("footprint", {"runs": runs}, figures))


def processor_seconds(call: list[str], variables: dict[str, str]) -> float:
    """The processor time of a Python process: user and system."""
    process = subprocess.Popen(
        [sys.executable, "-c", *call], stdout=subprocess.DEVNULL, env={**os.environ, **variables}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{call} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def source_memory(program: str) -> tuple[float, float]:
    """The most that a process has in memory beside a log, in MB, and what at its end no other process shares."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", DEFINITION], cwd=folder, check=True)
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, check=True, stdout=subprocess.PIPE, text=True
        )
    most, own = map(float, done.stdout.split())
    return most, own


def base_size() -> tuple[float, float]:
    """Bytes of the packages of the base install in MB, and of the bytecode that was made of them."""
    sizes = [0, 0]
    for package in base_packages():
        for file in package.files or ():
            path = file.locate()
            if os.path.isfile(path):
                sizes[file.suffix == ".pyc"] += os.path.getsize(path)
    return sizes[0] / 1e6, sizes[1] / 1e6


def base_packages() -> list[Distribution]:
    """What `pip install tolerant` installs beside Tolerant itself."""
    found: dict[str, Distribution] = {}
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    waiting = names(project["dependencies"])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = distribution(name)
            waiting += names(text for text in found[name].requires or () if ";" not in text)
    return list(found.values())


def names(requirements: Iterable[str]) -> list[str]:
    """The packages that requirements are for."""
    return [re.split(r"[^\w.-]", text)[0].lower() for text in requirements]


if __name__ == "__main__":
    main()
