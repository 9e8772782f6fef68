"""`make test` says what it took, processes that nobody has waited for included."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "processor_time.py"

BURN = """
import os, subprocess, sys, time
while time.process_time() < {seconds}:
    pass
"""
ORPHAN = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {BURN.format(seconds=1.6)!r}], start_new_session=True)
print("done", flush=True)
sys.exit(3)
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody can wait for what is not his child")
def test_what_the_command_leaves_behind_counts() -> None:
    done = run(ORPHAN)
    assert done.returncode == 3
    said = re.fullmatch(r"done\n([\d.]+) s, ([\d.]+) s of processor time with all processes\n", done.stdout)
    assert said is not None, done
    assert float(said[2]) >= 1.6


def test_a_command_that_is_killed_has_failed() -> None:
    assert run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == 128 + 9
