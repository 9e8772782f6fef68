"""Sources that may filter sums, and a shard, moved tick by tick, and held against the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from stream_pipeline import StreamPipeline, key

from tolerant.streams import SECOND
from tolerant.transport.conflicts import read_conflicts
from tolerant.transport.rows import read_grants, unpack
from tolerant.transport.sums import read_sums


class Play:
    """One tick a second: readings, the shard, what it says to the sources.

    `formed`: whether sources hear of sums. `form`: what they take to be the better form at every boundary; None: what
    they find out, every fifty.
    """

    def __init__(
        self,
        *statements: str,
        policy: str = "predictive",
        formed: bool = True,
        form: str | None = None,
        period: int = 4,
        shards: int = 1,
    ) -> None:
        spread = f", shards = {shards}, shard = host" if shards > 1 else ""
        options = f"WITH (policy = '{policy}', period = {period}{spread})"
        stream = f"CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) {options}"
        self.pipeline = StreamPipeline(*statements, stream=stream)
        self.formed, self.form = formed, form
        self.heard: dict[str, int] = {}
        self.sent: Counter[str] = Counter()
        self.truth: list[dict[str, float]] = []

    @property
    def groups(self):
        return self.pipeline.shard._engine.sums.groups

    def start(self, source: str, epoch: int = 1) -> None:
        """Start a source, or start it again, as it would: told what stands before its first hello."""
        core = self.pipeline.start_source(source, epoch)
        if self.form is not None:
            sums = core._sum_filter.sums
            sums.every, sums.better = 1, lambda group: self.form
        self.heard[source] = 0
        self.tell(source)

    def tick(self, readings: Mapping[str, Mapping[str, float]], *, read: bool = True) -> None:
        """A second passes: source → host, or host/kind → reading."""
        pipeline = self.pipeline
        pipeline.now += SECOND
        self.truth.append({host: value for values in readings.values() for host, value in values.items()})
        for source, values in readings.items():
            core = pipeline.sources[source]
            handles = core.register([key(*host.split("/")) for host in values])
            core.offer(handles, np.array(list(values.values()), np.float64), pipeline.now)
            pipeline.append_updates(source)
        pipeline.clock(pipeline.now + SECOND - 1)
        if read:
            pipeline.read()
            for source in pipeline.sources:
                self.tell(source)

    def remove(self, source: str, host: str) -> None:
        core = self.pipeline.sources[source]
        core.remove(int(core.register([key(host)])[0]), self.pipeline.now)

    def tell(self, source: str) -> None:
        """Give a source what the shard has said since it was last told."""
        pipeline, core = self.pipeline, self.pipeline.sources[source]
        grants, forms, taken = [], [], []
        for entry in pipeline.log.read(("grants.traffic", "sums.traffic", "conflicts.traffic"), self.heard[source]):
            self.heard[source] = entry.position
            batch = unpack(entry.payload)
            batch = batch.filter(batch.column("body").is_valid())
            if entry.topic == "sums.traffic":
                forms += read_sums(batch, source)
            elif entry.topic == "conflicts.traffic":
                taken += [conflict.item for conflict in read_conflicts(batch, source)]
            else:
                grants += read_grants(batch)
        now = pipeline.now + SECOND // 2
        if self.formed:
            core.apply_sum_offers(forms, now)
            self.sent["forms"] += len(forms)
        self.sent["grant"] += len(grants)
        core.grant(grants, now)
        core.give_up(taken, now)
        core.advance(now)
        pipeline.append_updates(source)

    def restore(self) -> None:
        """Go on with a shard that was made from the snapshot of this one."""
        snapshot = self.pipeline.shard.snapshot()
        self.pipeline.shard = self.pipeline.new_shard()
        self.pipeline.shard.restore(snapshot)
        assert self.pipeline.shard.snapshot() == snapshot

    def counted(self) -> Counter[str]:
        """Messages so far, by kind."""
        rows = (row["kind"] for row in self.pipeline.rows("updates.traffic") if row["kind"] != "clock")
        return self.sent + Counter(rows)

    def messages(self) -> int:
        """Messages so far."""
        return sum(self.counted().values())

    def phases(self) -> list[int]:
        """Of all sets."""
        return [group.phase for group in self.groups]

    def check(
        self, query: str, truth: Sequence[float], within: float, unsettled: range = range(0), group: str = ""
    ) -> None:
        """Every settled answer holds; all are settled but the first and those of some ticks. `truth` at each tick."""
        answers = self.pipeline.answers(query, group)
        assert answers
        for answer in answers:
            tick = (answer.at - 1_000_000 * SECOND) // SECOND - 1
            if 0 <= tick < len(truth) and answer.settled:
                assert answer.low - 1e-9 <= truth[tick] <= answer.high + 1e-9, (answer, truth[tick])
                assert answer.high - answer.low <= 2 * within * (1 + 1e-9)
            assert answer.settled or tick < 5 or tick in unsettled, (tick, answer)
