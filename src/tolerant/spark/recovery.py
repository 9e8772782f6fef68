"""What is done about a batch that failed: run it again carefully, put one entry into quarantine, or stop.

A failure of the machine or of another program does not happen twice at the same entry; a bug does. So an entry is
skipped only after the batch has failed at it twice, with nothing else in between.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tolerant.pipeline.entry_by_entry import Suspect
from tolerant.pipeline.entry_contents import named_rows
from tolerant.spark.failures import reason
from tolerant.streams import SECOND
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.quarantine import Quarantined, record

MOST = 10
"""Entries that a pipeline may skip within `WINDOW`; a pipeline that fails at everything must stop."""

WINDOW = 3600 * SECOND
"""Microseconds."""

_FAILURES = 40  # of a pipeline within the window, whatever came of them
_FINAL = ("Fenced", "Deleted", "LogError", "StateError", "Diverged", "JavaNotFound")
_SLOW_START = "Python worker failed to connect back"  # Spark gives a new process ten seconds, however busy the machine
_STARTS = 5  # of those in a row
_NAMED = re.compile(r"EntryFailed: entry (\d+) of (\S+), shard (\d+): (.*)")


@dataclass(frozen=True)
class Decision:
    """What to do now; `reason`: why it stops, or what the entry failed with."""

    what: Literal["retry", "quarantine", "stop"]
    reason: str
    suspect: Suspect | None = None


def suspected(error: object, noted: Suspect | None) -> Suspect | None:
    """The entry that a failure is about: as the worker noted it, or as the error says.

    A note without a reason is of a worker that died: if an exception is reported, the note is another shard's.
    """
    if noted is not None and (noted.reason or "Traceback (most recent call last)" not in str(error)):
        return noted
    named = _NAMED.search(str(error))
    return Suspect(named[2], int(named[1]), named[4], shard=int(named[3])) if named else None


@dataclass
class Recovery:
    """The failures of one pipeline."""

    _tries: Counter[tuple[int, int]] = field(default_factory=Counter)  # by shard and position, since a batch succeeded
    _careful: bool = False
    _slow_starts: int = 0
    _failed: list[int] = field(default_factory=list)  # when, by the wall clock

    def decide(
        self, error: object, suspect: Suspect | None, progressed: bool, skipped: Sequence[Quarantined], now: int
    ) -> Decision:
        """What to do about a failure. `progressed`: whether a batch succeeded since the last one.

        `now`: the wall clock, microseconds. `skipped`: what is in quarantine already.
        """
        cause = reason(error)
        self._failed = [at for at in self._failed if at > now - WINDOW] + [now]
        if progressed:
            self._tries.clear()
            self._careful = False
            self._slow_starts = 0
        if cause.startswith(_FINAL):
            return Decision("stop", cause)
        if len(self._failed) > _FAILURES:
            return Decision("stop", f"{cause}; this was failure {len(self._failed)} within an hour")
        if cause.startswith(_SLOW_START) and self._slow_starts < _STARTS:
            self._slow_starts += 1
            return Decision("retry", cause)
        if suspect is None:
            if self._careful:
                return Decision("stop", cause)
            self._careful = True
            return Decision("retry", cause)
        self._careful = True
        self._tries[suspect.shard, suspect.position] += 1
        return self._judge(suspect, skipped, now)

    def _judge(self, suspect: Suspect, skipped: Sequence[Quarantined], now: int) -> Decision:
        cause = suspect.reason or "the Python worker died"
        what = f"{cause} at entry {suspect.position} of {suspect.topic}"
        if any((entry.shard, entry.position) == (suspect.shard, suspect.position) for entry in skipped):
            return Decision("stop", f"{what}, which is in quarantine already")
        if self._tries[suspect.shard, suspect.position] < 2:
            return Decision("retry", what, suspect)
        recent = sum(entry.at > now - WINDOW for entry in skipped)
        if recent >= MOST:
            return Decision("stop", f"{what}; {recent} entries have been put into quarantine within the last hour")
        self._tries.clear()
        self._careful = False
        return Decision("quarantine", cause, suspect)


def put_into_quarantine(
    log: PipelineLog, pipeline: str, decision: Decision, fence: Fence, now: int
) -> Quarantined | None:
    """Write down that the pipeline skips the entry which a decision is about; None: the log does not have it.

    Raises:
        Fenced: another process has taken the pipeline over.
    """
    suspect = decision.suspect
    assert suspect is not None
    entries = log.read(suspect.topic, suspect.position - 1, 1)
    if not entries or entries[0].position != suspect.position:
        return None
    payload = entries[0].payload
    rows, position, shard = named_rows(payload), suspect.position, suspect.shard
    skipped = Quarantined(suspect.topic, position, decision.reason, now, rows, suspect.waiting, payload, shard)
    record(log, pipeline, skipped, fence)
    return skipped
