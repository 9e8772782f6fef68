"""Finds the entry that a batch fails at: entries are applied one at a time, and which is under way stands in a file.

A worker that dies says nothing, but its file does. Of several shards one works at a time, under a lock that the system
releases with the process; who finds that the one before has not come to an end leaves the file as it is.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tolerant.pipeline.hosting import Hosted
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import NamedRow, Quarantined, WaitingRow, as_marked

T = TypeVar("T")

_LONGEST = 300  # characters of a reason


class EntryFailed(Exception):
    """An entry could not be applied; the text names it."""


@dataclass(frozen=True)
class Suspect:
    """The entry that a batch of a shard failed at. `reason`: what was raised; empty if the worker died."""

    topic: str
    position: int
    reason: str = ""
    waiting: tuple[WaitingRow, ...] | None = None
    """The rows that waited for it and without which it can be applied; None: not known."""
    shard: int = 0


@dataclass(frozen=True)
class Careful:
    """How a batch that failed is run again; travels to the workers. `file`: where the entry under way is written.

    `until`: the end of the log when the batch failed. Batches that begin behind it are applied as usual.
    """

    file: str
    until: int

    def covers(self, entries: Sequence[Entry]) -> bool:
        """Whether a batch is one to be careful with."""
        return bool(entries) and entries[0].position <= self.until

    def each(
        self,
        entries: Sequence[Entry],
        work: Callable[[Entry], Sequence[T]],
        waiting: Callable[[int], tuple[WaitingRow, ...] | None] = lambda number: None,
        shard: int = 0,
    ) -> list[T]:
        """What `work` makes of the entries of a shard, one after the other.

        `waiting`: for the number of an entry that failed, the rows that waited for it and are at fault.

        Raises:
            EntryFailed: `work` raised something.
        """
        results: list[T] = []
        with self._alone() as file:
            for number, entry in enumerate(entries):
                suspect = Suspect(entry.topic, entry.position, shard=shard)
                _write(file, suspect)
                try:
                    results += work(entry)
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"[:_LONGEST]
                    _write(file, Suspect(entry.topic, entry.position, reason, waiting(number), shard))
                    raise EntryFailed(f"entry {entry.position} of {entry.topic}, shard {shard}: {reason}") from error
            os.ftruncate(file, 0)
        return results

    def clear(self) -> None:
        """Forget the entry that was under way, before the next try."""
        Path(self.file).unlink(missing_ok=True)

    def suspect(self) -> Suspect | None:
        """The entry under way when the batch failed, if that is known."""
        try:
            text = Path(self.file).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        if not text:
            return None
        fields = json.loads(text)
        waiting = fields.pop("waiting")
        return Suspect(**fields, waiting=None if waiting is None else tuple(WaitingRow(*row) for row in waiting))

    @contextmanager
    def _alone(self) -> Iterator[int]:
        file = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file).st_size:
                raise InterruptedError("another part of the batch failed first")
            yield file
        finally:
            os.close(file)


def _write(file: int, suspect: Suspect) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(vars(suspect)).encode(), 0)


def rows_at_fault(entry: Entry, rebuilt: Callable[[], Hosted]) -> tuple[WaitingRow, ...] | None:
    """The one row that waited for an entry and without which the entry can be applied; None if there is no such row.

    Most rows are applied not by their own entry but by the clock row that their time comes with. `rebuilt` makes the
    shard as it was before the entry.
    """
    core = rebuilt()
    rows = tuple(core.waiting_rows())
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = half if _passes(entry, half, rebuilt) else rows[len(half) :]
    return rows if rows and _passes(entry, rows, rebuilt) else None


def _passes(entry: Entry, dropped: tuple[WaitingRow, ...], rebuilt: Callable[[], Hosted]) -> bool:
    """Whether an entry can be applied once these rows have been dropped."""
    clock = NamedRow("clock", "", "", 0)
    skipped = Quarantined(entry.topic, entry.position, "", 0, (clock,), dropped)
    core = rebuilt()
    try:
        core.apply([as_marked(skipped, entry)])
        core.apply([entry])
    except Exception:
        return False
    return True
