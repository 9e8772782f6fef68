"""Carries a table's rows to the log."""

from __future__ import annotations

import threading

from tolerant.edge.background_sender import Transport
from tolerant.edge.change_buffer import ChangeBuffer
from tolerant.edge.sender import Sender
from tolerant.streams import Limits
from tolerant.transport import Log


class TableTransport(Transport):
    """Carries changes from a buffer, guarded by `lock`, to a topic. `owner`: the name of the feeder's epochs;
    `max_rows`: the most rows of an entry.
    """

    def __init__(
        self,
        changes: ChangeBuffer,
        log: Log,
        topic: str,
        owner: str,
        epoch: int,
        lock: threading.Condition,
        max_rows: int = Limits.entry_rows,
    ) -> None:
        sender = Sender(log, owner, epoch, lambda newest: _refusal(owner, newest), max_rows=max_rows)
        super().__init__(changes, sender, lock)
        self._changes, self._topic = changes, topic

    def _exchange(self) -> None:
        while True:
            self._sender.check_epoch()
            with self._lock:
                if not self._sender.unsent and (batch := self._changes.drain()) is not None:
                    self._sender.add(self._topic, batch)
            if not self._sender.unsent:
                return
            self._sender.append_all()


def _refusal(owner: str, newest: int) -> str:
    return f"another has started as {owner!r}, as epoch {newest}. Give every process that feeds a table its own name"
