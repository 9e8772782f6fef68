"""Runs a command, and prints the seconds and processor seconds that it and all that it started took: `make test`.

`python tools/processor_time.py COMMAND …`; the exit code is the command's. Java outlives the Python process that
started it by some seconds, and nobody waits for it: on Linux such processes become children of this one, which does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import time

import psutil

_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_PATIENCE = 10.0
"""Seconds in which what the command has left running may end; after that it counts with what it took until then."""


def main() -> int:
    """Run the command of the command line; return its exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    command = subprocess.Popen(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal interrupts the command as well
    signal.signal(signal.SIGTERM, lambda *_: command.terminate())
    code = _wait_for(command.pid)
    seconds = time.monotonic() - started
    _wait_for_others()
    print(f"{seconds:,.1f} s, {_processor_seconds():,.1f} s of processor time with all processes", flush=True)
    return code


def _wait_for(command: int) -> int:
    """Wait for the command, and for every orphan that ends before it."""
    while True:
        process, status = os.wait()
        if process == command:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _wait_for_others() -> None:
    end = time.monotonic() + _PATIENCE
    with contextlib.suppress(ChildProcessError):  # there are none
        while time.monotonic() < end:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)


def _processor_seconds() -> float:
    """What has ended, and what is still there."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = usage.ru_utime + usage.ru_stime
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            seconds += sum(process.cpu_times()[:4])  # with the children that it has waited for
    return seconds


if __name__ == "__main__":
    sys.exit(main())
