"""Shards hosted as on Spark but without it: the real host and splitter, and a recovery like that of `Runner`.

In a `LocalPipeline` it takes the place of the shard.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.shard_host import ShardHost
from tolerant.pipeline.splitter import Splitter
from tolerant.spark.recovery import Decision, Recovery, put_into_quarantine, suspected
from tolerant.testing.snapshots import MemorySnapshots
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.batches import DoneBatch
from tolerant.transport.log import START, Entry
from tolerant.transport.quarantine import bodies, marked, quarantined


class Stopped(Exception):
    """The pipeline has given up."""


class GivenInput:
    """The entries that came so far, and the batches of a shard that were done."""

    def __init__(self, log: PipelineLog, pipeline: str, shard: int) -> None:
        self._log, self._pipeline, self._shard = log, pipeline, shard
        self.all: list[Entry] = []
        self.written: list[DoneBatch] = []

    def entries(self, start: int, end: int) -> list[Entry]:
        wanted = [entry for entry in self.all if start < entry.position <= end]
        return marked(wanted, bodies(self._log, self._pipeline, self._shard))

    def done(self, after: int, until: int) -> list[DoneBatch]:
        return [batch for batch in self.written if after < batch.end <= until]

    def trimmed(self) -> int:
        return START


class HostedShard:
    """See the module; `decisions` has what was done about each failure."""

    def __init__(
        self,
        log: PipelineLog,
        pipeline: str,
        factory: Callable[[int], Hosted],
        folder: Path,
        split: Splitter | None = None,
    ) -> None:
        self._log, self._pipeline, self._split, self._factory = log, pipeline, split, factory
        self._shards = range(split.shards if split else 1)
        self._inputs = [GivenInput(log, pipeline, shard) for shard in self._shards]
        self._snapshots = [MemorySnapshots() for _ in self._shards]
        self._file = str(folder / "applying")
        self._recovery = Recovery()
        self._careful: Careful | None = None
        self._progressed = False
        self._fence = Fence(f"pipeline/{pipeline}", 1)
        self._position = START
        self.decisions: list[Decision] = []
        self.outputs: list[Output] = []
        self._restart()

    @property
    def skipped(self) -> list[int]:
        return [one.position for one in quarantined(self._log, self._pipeline)]

    def core(self, shard: int = 0) -> Hosted:
        """The shard as a new worker restores it."""
        return self._host(shard).core(self._position)

    def apply(self, entries: Sequence[Entry]) -> list[Output]:
        if not entries:
            return []
        for source in self._inputs:
            source.all += entries
        while True:
            try:
                outputs = [output for shard in self._shards for output in self._batch(shard, entries[-1].position)]
            except Exception as error:
                self._recover("".join(traceback.format_exception(error)))
            else:
                self._position, self._progressed = entries[-1].position, True
                self.outputs += outputs
                return outputs

    def _batch(self, shard: int, end: int) -> list[Output]:
        start = max([START, *(batch.end for batch in self._inputs[shard].written)])
        if start >= end:
            return []  # written before another shard failed
        applied = self._hosts[shard].apply(start, end)
        self._inputs[shard].written.append(DoneBatch("c", shard, end, applied.one_by_one, applied.digest))
        return applied.outputs

    def _host(self, shard: int) -> ShardHost:
        return ShardHost(shard, self._factory, self._inputs[shard], self._snapshots[shard], self._split, self._careful)

    def _restart(self) -> None:
        self._hosts = [self._host(shard) for shard in self._shards]

    def _recover(self, error: str) -> None:
        careful = Careful(self._file, self._log.end())
        suspect = suspected(error, careful.suspect() if self._careful else None)
        skipped = quarantined(self._log, self._pipeline)
        decision = self._recovery.decide(error, suspect, self._progressed, skipped, 0)
        self.decisions.append(decision)
        if decision.what == "stop":
            raise Stopped(decision.reason)
        if decision.what == "quarantine":
            assert put_into_quarantine(self._log, self._pipeline, decision, self._fence, 0)
        careful.clear()
        self._progressed = False
        self._careful = careful if decision.what == "retry" else None
        self._restart()
