"""Sources that may filter sums, and a shard, moved tick by tick, and held against the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rig import CHECKPOINT, Rig, key

from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.pipeline.splitter import Split
from tolerant.streams import SECOND
from tolerant.testing.several_shards import SeveralShards
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
        self.rig = Rig(*statements, stream=stream)
        if shards > 1:
            own = [BoundedShard(self.rig.stream, shard, 1, CHECKPOINT) for shard in range(shards)]
            self.rig.shard = SeveralShards(Split(self.rig.stream), own)
        self.formed, self.form = formed, form
        self.heard: dict[str, int] = {}
        self.sent: Counter[str] = Counter()
        self.truth: list[dict[str, float]] = []

    @property
    def groups(self):
        return self.rig.shard._engine.sums.groups

    def start(self, source: str, epoch: int = 1) -> None:
        """Start a source, or start it again, as it would: told what stands before its first hello."""
        core = self.rig.start(source, epoch)
        if self.form is not None:
            sums = core._sum_filter.sums
            sums.every, sums.better = 1, lambda group: self.form
        self.heard[source] = 0
        self.tell(source)

    def tick(self, readings: Mapping[str, Mapping[str, float]], *, read: bool = True) -> None:
        """A second passes: source → host, or host/kind → reading."""
        rig = self.rig
        rig.now += SECOND
        self.truth.append({host: value for values in readings.values() for host, value in values.items()})
        for source, values in readings.items():
            core = rig.sources[source]
            handles = core.register([key(*host.split("/")) for host in values])
            core.offer(handles, np.array(list(values.values()), np.float64), rig.now)
            rig.flush(source)
        rig.clock(rig.now + SECOND - 1)
        if read:
            rig.read()
            for source in rig.sources:
                self.tell(source)

    def remove(self, source: str, host: str) -> None:
        core = self.rig.sources[source]
        core.remove(int(core.register([key(host)])[0]), self.rig.now)

    def tell(self, source: str) -> None:
        """Give a source what the shard has said since it was last told."""
        rig, core = self.rig, self.rig.sources[source]
        grants, forms, taken = [], [], []
        for entry in rig.log.read(("grants.traffic", "sums.traffic", "conflicts.traffic"), self.heard[source]):
            self.heard[source] = entry.position
            batch = unpack(entry.payload)
            batch = batch.filter(batch.column("body").is_valid())
            if entry.topic == "sums.traffic":
                forms += read_sums(batch, source)
            elif entry.topic == "conflicts.traffic":
                taken += [conflict.item for conflict in read_conflicts(batch, source)]
            else:
                grants += read_grants(batch)
        now = rig.now + SECOND // 2
        if self.formed:
            core.apply_sum_offers(forms, now)
            self.sent["forms"] += len(forms)
        self.sent["grant"] += len(grants)
        core.grant(grants, now)
        core.give_up(taken, now)
        core.advance(now)
        rig.flush(source)

    def restore(self) -> None:
        """Go on with a shard that was made from the snapshot of this one."""
        snapshot = self.rig.shard.snapshot()
        self.rig.shard = BoundedShard(self.rig.stream, 0, 1, CHECKPOINT)
        self.rig.shard.restore(snapshot)
        assert self.rig.shard.snapshot() == snapshot

    def counted(self) -> Counter[str]:
        """Messages so far, by kind."""
        rows = (row["kind"] for row in self.rig.rows("updates.traffic") if row["kind"] != "clock")
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
        answers = self.rig.answers(query, group)
        assert answers
        for answer in answers:
            tick = (answer.at - 1_000_000 * SECOND) // SECOND - 1
            if 0 <= tick < len(truth) and answer.settled:
                assert answer.low - 1e-9 <= truth[tick] <= answer.high + 1e-9, (answer, truth[tick])
                assert answer.high - answer.low <= 2 * within * (1 + 1e-9)
            assert answer.settled or tick < 5 or tick in unsettled, (tick, answer)
