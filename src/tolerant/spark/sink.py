"""The way out of Spark into the log: each batch's outputs in one transaction, exactly once.

Spark runs a batch again when it does not know that it was finished. The log then has the batch's number already, and
nothing is written; and if another process has taken the pipeline over, nothing is written either.
"""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame

from tolerant.pipeline.hosting import unpack_outputs
from tolerant.spark.phases import StartPhase
from tolerant.transport import Fence, PipelineLog


class BatchFailed(Exception):
    """A batch failed; said in few words, because Spark searches the text of what `foreachBatch` raises.

    The trap: it does so with a regular expression that recurses for every character, and overflows its stack on the
    Java stack trace that comes with PySpark's own errors. The stream then dies in silence.
    """


class LogSink:
    """For `foreachBatch`; runs in the driver. `failure` keeps what went wrong, which Spark would only tell as text."""

    def __init__(self, log: PipelineLog, checkpoint: str, fence: Fence | None) -> None:
        self._log = log
        self._checkpoint = checkpoint
        self._fence = fence
        self._closed = False
        self._busy = threading.Lock()
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
                # Exactly one action: each would run the batch, and so change the state, once more.
                packed = outputs.toArrow().column("outputs").to_pylist()
                entries = [entry for shard in packed for entry in unpack_outputs(shard)]
                self._log.append_once(self._checkpoint, batch, entries, self._fence)
                self.done += 1
                self._running.end()
            except Exception as error:
                self.failure = error
                raise BatchFailed(f"batch {batch} failed: {type(error).__name__}") from None

    @property
    def is_written(self) -> bool:
        """Whether the outputs of the last batch are in the log."""
        return self._log.last_batch(self._checkpoint) >= self.batch

    def close(self, wait: float) -> None:
        """Take no more batches; returns when the one under way is done, or after `wait` seconds."""
        self._closed = True
        if self._busy.acquire(timeout=wait):
            self._busy.release()
