"""Whether another process runs a pipeline: a lock on the checkpoint folder, and heartbeats of other checkpoints."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Container
from pathlib import Path

from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.common import owner_of, wall_clock
from tolerant.transport.heartbeats import Heartbeat, latest_heartbeat
from tolerant.transport.topics import EPOCHS

LIVE = 5 * SECOND
"""A pipeline whose last heartbeat is older than this does not run."""

PATIENCE = 60.0
"""Seconds that the process which runs on a folder gets to end, once it is taken over or dead."""


class PipelineRuns(Exception):
    """Another process runs the pipeline; the message says how it can be taken over."""


class FolderLock:
    """The lock of a checkpoint folder: held by one process, and by the Java process that it started.

    The system releases it when both are dead, however they died.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        self.held = False

    def fileno(self) -> int:
        """The open file: who inherits it holds the lock too."""
        return self._file

    def take(self, wait: float = 0.0) -> bool:
        """Have the lock after at most so many seconds; False: another process has it."""
        end = time.monotonic() + wait
        while not self.held:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    return False
                time.sleep(0.1)
            else:
                self.held = True
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, str(os.getpid()).encode(), 0)
        return True

    def owner(self) -> int | None:
        """The process that took the lock last, if it is alive."""
        text = os.pread(self._file, 32, 0).decode(errors="replace")
        try:
            os.kill(int(text), 0)
        except (ValueError, ProcessLookupError):
            return None
        except PermissionError:
            pass  # another user's
        return int(text)

    def close(self) -> None:
        """Releases the lock, for the Java process too."""
        if self._file >= 0:
            if self.held:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file, self.held = -1, False


def live_owner(log: Log, pipeline: str, own: Container[str | None]) -> tuple[str, Heartbeat] | None:
    """Return the checkpoint that runs a pipeline now, and its heartbeat; None: nobody does but one of `own`.

    A process is known to run by a newer heartbeat than the one found first, whoever gives the pipeline its time; one
    that died leaves a young heartbeat behind, which is given time to grow old.
    """
    checkpoint = owner_of(log.latest(EPOCHS, f"pipeline/{pipeline}"))
    first = heartbeat = latest_heartbeat(log, pipeline)
    while checkpoint not in own and checkpoint is not None and heartbeat is not None and _is_young(heartbeat):
        if heartbeat != first:
            return checkpoint, heartbeat
        time.sleep(0.1)
        heartbeat = latest_heartbeat(log, pipeline)
    return None


def _is_young(heartbeat: Heartbeat) -> bool:
    return not heartbeat.stopped and abs(wall_clock() - heartbeat.at) < LIVE
