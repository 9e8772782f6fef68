"""A shard hosted as on Spark but without it: the real processor and splitter, and a host that recovers like `Runner`.

In a rig that calls `shard.apply(entries)` it takes the place of the shard.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from pyspark.sql.streaming.tws_tester import TwsTester

from tolerant.pipeline.entry_by_entry import Careful
from tolerant.pipeline.hosting import Hosted, Output, unpack_outputs
from tolerant.pipeline.splitter import Splitter
from tolerant.spark import cache
from tolerant.spark.processor import HostProcessor
from tolerant.spark.recovery import Decision, Recovery, put_into_quarantine, suspected
from tolerant.spark.source import entries_batch
from tolerant.transport import Fence, PipelineLog
from tolerant.transport.log import Entry
from tolerant.transport.quarantine import bodies, marked, quarantined


class Stopped(Exception):
    """The pipeline has given up."""


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
        self._log, self._pipeline, self._split = log, pipeline, split
        self._processor = HostProcessor(factory, f"{pipeline}/{id(self)}")
        self._tester = TwsTester(self._processor)
        self._file = str(folder / "applying")
        self._recovery = Recovery()
        self._careful: Careful | None = None
        self._progressed = False
        self._fence = Fence(f"pipeline/{pipeline}", 1)
        self.decisions: list[Decision] = []
        self.outputs: list[Output] = []

    @property
    def skipped(self) -> list[int]:
        return [one.position for one in quarantined(self._log, self._pipeline)]

    def core(self, shard: int = 0) -> Hosted:
        """The shard as the state store has it."""
        cache.clear()
        handle = self._tester.handle
        handle.setGroupingKey(shard)
        return self._processor._current(shard)[1]

    def apply(self, entries: Sequence[Entry]) -> tuple[list[Output], bytes]:
        while True:
            try:
                outputs = self._batch(marked(entries, bodies(self._log, self._pipeline)))
            except Exception as error:
                self._recover("".join(traceback.format_exception(error)))
            else:
                self._progressed = True
                self.outputs += outputs
                return outputs, b""

    def _batch(self, entries: list[Entry]) -> list[Output]:
        if not entries:
            return []
        if self._split is None:
            return self._host(0, pd.DataFrame([vars(entry) for entry in entries]))
        (routed,) = self._split(iter([entries_batch(entries)]))
        parts = routed.to_pandas().groupby("shard")
        return [output for shard, part in parts for output in self._host(int(shard), part)]

    def _host(self, shard: int, rows: pd.DataFrame) -> list[Output]:
        packed = self._tester.testInPandas(shard, rows)
        return [Output(*output) for one in (packed["outputs"] if len(packed) else ()) for output in unpack_outputs(one)]

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
        cache.clear()
        self._progressed = False
        self._careful = careful if decision.what == "retry" else None
        self._processor._careful = self._careful
        if self._split is not None:
            self._split.careful = self._careful
