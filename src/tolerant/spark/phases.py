"""How long the steps of a start take: what `tolerant run --verbose` prints.

A step goes to the log `tolerant.spark.phases` at level INFO, with the seconds that have passed and the processor time
of this process and those that it has started, Java and its Python workers among them.
"""

from __future__ import annotations

import logging
import time
from types import TracebackType

import psutil

_LOGGER = logging.getLogger(__name__)


class StartPhase:
    """A step from here on, until `end` or the end of a `with` block."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._ended = not _LOGGER.isEnabledFor(logging.INFO)  # then nothing is measured
        if not self._ended:
            self._began, self._processor = time.monotonic(), processor_seconds()

    def end(self) -> None:
        """Log how long it took; only the first call counts."""
        if self._ended:
            return
        self._ended = True
        seconds, processor = time.monotonic() - self._began, processor_seconds() - self._processor
        _LOGGER.info("%s: %.1f s, %.1f s of processor time", self._name, seconds, processor)

    def __enter__(self) -> StartPhase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.end()


def processor_seconds(process: psutil.Process | None = None) -> float:
    """The processor time so far of a process, this one by default, and of all that it has started."""
    root = process or psutil.Process()
    total = 0.0
    for one in (root, *root.children(recursive=True)):
        try:
            total += sum(one.cpu_times()[:4])  # its own, and of children that have ended
        except psutil.Error:
            continue  # it has just ended: its parent counts it
    return total
