"""Sources that may filter sums, and a shard, moved tick by tick, and held against the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from rig import Rig, key

from tolerant.streams import SECOND
from tolerant.transport.forms import read_forms
from tolerant.transport.rows import read_grants, unpack


class Play:
    """One tick a second: readings, the shard, what it says to the sources. `formed`: whether sources hear of sums."""

    def __init__(self, *statements: str, policy: str = "predictive", formed: bool = True) -> None:
        options = f"WITH (policy = '{policy}')"
        stream = f"CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind) {options}"
        self.rig = Rig(*statements, stream=stream)
        self.formed = formed
        self.heard: dict[str, int] = {}
        self.sent: Counter[str] = Counter()

    def start(self, source: str, epoch: int = 1) -> None:
        """Start a source, or start it again, as it would: told what stands before its first hello."""
        self.rig.start(source, epoch)
        self.heard[source] = 0
        self.tell(source)

    def tick(self, readings: Mapping[str, Mapping[str, float]]) -> None:
        """A second passes: source → host → reading."""
        rig = self.rig
        rig.now += SECOND
        for source, values in readings.items():
            core = rig.sources[source]
            handles = core.register([key(host) for host in values])
            core.offer(handles, np.array(list(values.values()), np.float64), rig.now)
            rig.flush(source)
        rig.clock(rig.now + SECOND - 1)
        rig.read()
        for source in rig.sources:
            self.tell(source)

    def tell(self, source: str) -> None:
        """Give a source what the shard has said since it was last told."""
        rig, core = self.rig, self.rig.sources[source]
        grants, forms = [], []
        for entry in rig.log.read(("grants.traffic", "forms.traffic"), self.heard[source]):
            self.heard[source] = entry.position
            batch = unpack(entry.payload)
            batch = batch.filter(batch.column("body").is_valid())
            if entry.topic == "forms.traffic":
                forms += read_forms(batch, source)
            else:
                grants += read_grants(batch)
        if self.formed:
            core.form(forms, rig.now + SECOND // 2)
        self.sent["forms"] += len(forms) * self.formed
        self.sent["grant"] += len(grants)
        core.grant(grants, rig.now + SECOND // 2)
        core.advance(rig.now + SECOND // 2)
        rig.flush(source)

    def counted(self) -> Counter[str]:
        """Messages so far, by kind."""
        rows = (row["kind"] for row in self.rig.rows("updates.traffic") if row["kind"] != "clock")
        return self.sent + Counter(rows)

    def messages(self) -> int:
        """Messages so far."""
        return sum(self.counted().values())

    def formed_sums(self) -> int:
        """How many sums stand in queries."""
        return sum(len(one.parts) for one in self.rig.shard._engine.forms.sets.values() if one.phase >= 2)

    def phases(self) -> list[int]:
        """Of all sets."""
        return [one.phase for one in self.rig.shard._engine.forms.sets.values()]

    def check(self, query: str, truth: Sequence[float], within: float, settled_from: int = 5) -> None:
        """Every settled answer holds; from a tick on all are settled. `truth` at tick 1, 2, …"""
        answers = self.rig.answers(query)
        assert answers
        for answer in answers:
            tick = (answer.at - 1_000_000 * SECOND) // SECOND - 1
            if 0 <= tick < len(truth) and answer.settled:
                assert answer.low - 1e-9 <= truth[tick] <= answer.high + 1e-9, (answer, truth[tick])
                assert answer.high - answer.low <= 2 * within * (1 + 1e-9)
            assert answer.settled or tick < settled_from, answer
