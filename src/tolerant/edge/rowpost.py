"""Carries a table's rows to the log: one append outstanding at a time, nothing lost or reordered."""

from __future__ import annotations

import threading
import time

import pyarrow as pa

from tolerant.edge.carrier import Trouble
from tolerant.edge.rowbox import RowBox
from tolerant.transport import Fenced, Log, LogError, Replaced
from tolerant.transport.log import EPOCHS


class RowPost:
    """Between a `RowBox`, guarded by `lock`, and a topic. `name` is that of the epochs of who feeds it."""

    def __init__(self, box: RowBox, log: Log, topic: str, name: str, epoch: int, lock: threading.Condition) -> None:
        self.trouble: Trouble | None = None
        self._box, self._log, self._topic, self._lock = box, log, topic, lock
        self._name, self._epoch = name, epoch
        self._unsent: pa.RecordBatch | None = None

    @property
    def unsent(self) -> int:
        """How many rows the log has not accepted yet."""
        return len(self._box) + (self._unsent.num_rows if self._unsent is not None else 0)

    def exchange(self) -> bool:
        """See `Post.exchange`."""
        try:
            while True:
                self._check_epoch()
                with self._lock:
                    if self._unsent is None:
                        self._unsent = self._box.take()
                if self._unsent is None:
                    break
                self._log.append(self._topic, self._unsent)
                with self._lock:
                    self._unsent = None
        except (Fenced, Replaced):
            raise
        except (LogError, OSError) as error:
            self.trouble = Trouble(self.trouble.since if self.trouble else time.monotonic(), error)
            return False
        self.trouble = None
        return True

    def _check_epoch(self) -> None:
        newest = self._log.latest(EPOCHS, self._name)
        if newest is not None and newest.version > self._epoch:
            raise Fenced(
                f"another has started as {self._name!r}, as epoch {newest.version}. Give every process that feeds a "
                "table its own name"
            )
