"""Whether another process runs a pipeline: a lock on the checkpoint folder, and clock rows of other checkpoints."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.log import EPOCHS
from tolerant.transport.rows import NO_TIME, unpack

LIVE = 5 * SECOND
"""A pipeline whose last clock row is older than this does not run."""

PATIENCE = 60.0
"""Seconds that the process which runs on a folder gets to end, once it is taken over or dead."""

_LOOK_BACK = 5_000  # entries of the log among which clock rows are looked for


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
        """Let go of the lock, for the Java process too."""
        if self._file >= 0:
            if self.held:
                fcntl.flock(self._file, fcntl.LOCK_UN)
            os.close(self._file)
            self._file, self.held = -1, False


@dataclass(frozen=True)
class Clock:
    """The last clock row of the checkpoint that owns a pipeline; times in microseconds."""

    checkpoint: str
    at: int

    @property
    def age(self) -> int:
        """By the wall clock."""
        return max(0, wall_clock() - self.at)


def last_clock(log: Log, pipeline: str, topics: Iterable[str]) -> Clock | None:
    """The last clock row of a pipeline's owner in `topics`; None: there is none among the newest entries."""
    owner = log.latest(EPOCHS, f"pipeline/{pipeline}")
    if owner is None:
        return None
    checkpoint = owner.body.decode()
    for entry in reversed(log.read(topics, max(0, log.end() - _LOOK_BACK))):
        at = _clock(entry.payload, checkpoint)
        if at is not None:
            return Clock(checkpoint, at)
    return None


def live_rival(log: Log, pipeline: str, topics: Sequence[str], own: Container[str | None]) -> Clock | None:
    """The clock row of another checkpoint, not one of `own`, that runs a pipeline now.

    It does if a newer clock row comes; one that died leaves a young row behind, which is given time to grow old.
    """
    first = clock = last_clock(log, pipeline, topics)
    while first and clock and clock.checkpoint not in own and clock.age < LIVE:
        if clock != first:
            return clock
        time.sleep(0.1)
        clock = last_clock(log, pipeline, topics)
    return None


def _clock(payload: bytes, checkpoint: str) -> int | None:
    """The time of the last clock row of a checkpoint in an entry."""
    try:
        columns = unpack(payload).select(["kind", "source", "at"]).to_pydict().values()
    except (ValueError, KeyError):
        return None
    rows = [at for kind, source, at in zip(*columns, strict=True) if kind == "clock" and source == checkpoint]
    return next((at for at in reversed(rows) if at not in (None, NO_TIME)), None)
