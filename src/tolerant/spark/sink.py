"""The way out of Spark into the log: each batch's outputs in one transaction, exactly once.

Spark runs a batch again when it does not know that it was finished. The log then has the batch's number already, and
nothing is written; and if another process has taken the pipeline over, nothing is written either.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from tolerant.pipeline.hosting import Output, unpack_outputs
from tolerant.pipeline.shard_host import AppliedBatch
from tolerant.spark.phases import StartPhase
from tolerant.spark.source import HostedShard
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.batches import DoneBatch, done_entry
from tolerant.transport.log import START

_RECORD_EVERY = 1.0  # seconds between two records of the position; retention counts in hours


class BatchFailed(Exception):
    """A batch failed; said in few words, because Spark searches the text of what `foreachBatch` raises.

    The trap: it does so with a regular expression that recurses for every character, and overflows its stack on the
    Java stack trace that comes with PySpark's own errors. The stream then dies in silence.
    """


class Progress:
    """How far the shards of a pipeline have come, over all of its queries. For several threads."""

    def __init__(self, shards: int) -> None:
        self._lock = threading.Lock()
        self._ends = [START] * shards
        self._needed = [START] * shards

    def note(self, batches: Iterable[AppliedBatch]) -> None:
        """The outputs of these batches are in the log."""
        with self._lock:
            for batch in batches:
                self._ends[batch.shard], self._needed[batch.shard] = batch.end, batch.needed

    @property
    def position(self) -> int:
        """All shards have applied the log up to here."""
        return min(self._ends)

    @property
    def needed(self) -> int:
        """No shard needs anything before this to be restored."""
        return min(self._needed)


class LogSink:
    """For `foreachBatch`; runs in the driver. `failure` keeps what went wrong, which Spark would only tell as text."""

    def __init__(self, log: PipelineLog, hosted: HostedShard, fence: Fence | None, progress: Progress) -> None:
        self._log, self._fence, self._progress = log, fence, progress
        self._pipeline, self._checkpoint = hosted.pipeline, hosted.checkpoint
        self._batches = f"{hosted.checkpoint}/{hosted.shard}"  # batches are counted per shard
        self._closed = False
        self._busy = threading.Lock()
        self._recorded = float("-inf")
        self._planning = StartPhase("planning the first batch")
        self._running: StartPhase | None = None
        self.failure: Exception | None = None
        self.batch = -1
        """The batch under way, or the last one."""
        self.done = 0
        """How many batches have been written by this run."""

    def __call__(self, outputs: DataFrame, batch: int) -> None:
        """Append a batch's outputs: one row of them for each shard."""
        with self._busy:
            self._planning.end()
            self._running = self._running or StartPhase("running the first batch")
            self.batch = batch
            if self._closed:
                raise BatchFailed("the pipeline is being stopped")
            try:
                # Exactly one action: each would apply the batch once more.
                self._write(batch, applied_batches(outputs.toArrow()))
                self.done += 1
                self._running.end()
            except Exception as error:
                self.failure = error
                raise BatchFailed(f"batch {batch} failed: {type(error).__name__}") from None

    def _write(self, number: int, batches: Sequence[AppliedBatch]) -> None:
        entries = [(output.topic, output.payload) for batch in batches for output in batch.outputs]
        done = [DoneBatch(self._checkpoint, b.shard, b.end, b.one_by_one, b.digest) for b in batches]
        if done:
            entries.append(done_entry(self._pipeline, done))
        self._log.append_once(self._batches, number, entries, self._fence)
        self._progress.note(batches)
        if time.monotonic() - self._recorded >= _RECORD_EVERY:
            self._log.pass_position(self._checkpoint, self._progress.needed)
            self._recorded = time.monotonic()

    @property
    def is_written(self) -> bool:
        """Whether the outputs of the last batch are in the log."""
        return self._log.last_batch(self._batches) >= self.batch

    def close(self, wait: float) -> None:
        """Take no more batches; returns when the one under way is done, or after `wait` seconds."""
        self._closed = True
        if self._busy.acquire(timeout=wait):
            self._busy.release()


def applied_batches(rows: pa.Table) -> list[AppliedBatch]:
    """What the rows of the source say."""
    columns = [column.to_pylist() for column in rows.columns]
    return [
        AppliedBatch(shard, end, [Output(*output) for output in unpack_outputs(outputs)], digest, one_by_one, needed)
        for shard, end, outputs, digest, one_by_one, needed in zip(*columns, strict=True)
    ]
