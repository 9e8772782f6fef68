"""The demo's pipeline: `tolerant run` as a process of its own, with its time taken from the log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tolerant.demo.traffic import Shape, statements


def log_uri(folder: Path) -> str:
    """The demo's log in its folder."""
    return f"sqlite:///{folder / 'log.db'}"


_LONGEST = "1800"
"""Seconds after which the pipeline ends by itself, if the demo was killed and could not end it."""


class DemoPipeline:
    """A `tolerant run` process; what it says is kept in `run.txt` beside its log."""

    def __init__(self, folder: Path, master: str, shape: Shape) -> None:
        file = folder / "demo.sql"
        # The stream alone: the queries come when the sources have said what items there are.
        file.write_text(statements(shape)[0] + "\n")
        self._said = folder / "run.txt"
        command = [sys.executable, "-m", "tolerant", "run", str(file), "--log", log_uri(folder), "--clock", "log"]
        command += ["--for", _LONGEST]
        with self._said.open("w") as output:
            self._process = subprocess.Popen(
                [*command, "--checkpoint", str(folder / "checkpoint"), "--master", master],
                stdout=output,
                stderr=subprocess.STDOUT,
                # A group of its own: Ctrl-C is for the demo, which ends this process itself.
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise if the process has ended.

        Raises:
            RuntimeError: with the last of what it said.
        """
        code = self._process.poll()
        if code is not None:
            last = self._said.read_text(errors="replace").strip().splitlines()[-5:]
            raise RuntimeError(f"the pipeline ended with exit code {code}: " + " / ".join(last))

    def stop(self) -> None:
        """End it as Ctrl-C would."""
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
