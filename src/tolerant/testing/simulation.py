"""The seeded fault simulator: log, sources, pipelines and clocks in one process, and everything that can go wrong.

`simulate_faults(seed)` plays one history, chosen by the seed, and judges it. The same seed plays the same history, so
a failing one can be looked at: `print(simulate_faults(4711))`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from tolerant.edge.source_core import SourceCore
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.pipeline.hosting import Output
from tolerant.streams import SECOND, Column, Stream, StreamOptions
from tolerant.testing.administrator import Administrator, CommonClock, Operator
from tolerant.testing.adversarial import AdversarialShard, AdversarialSource
from tolerant.testing.audit import SETTLES_WITHIN, Audit, Violation
from tolerant.testing.faults import Faults
from tolerant.testing.pipelines import Checkpoint, ShardFactory
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.testing.sources import SimulatedSource, SourceFactory
from tolerant.transport.quarantine import bodies, marked
from tolerant.transport.rows import Grant, read_grants, unpack
from tolerant.transport.topics import QUERIES, REPLIES_TOPIC, TopicKind

STEPS = 10
_POLICIES = ("adaptive", "predictive", "predictive", "adaptive", "predictive", "uniform", "predictive", "exact")
_KINDS = ["a", "b", "c"]
_COMMON_CLOCK = 7  # one history in so many has clock rows that are everybody's
_RECUT = 4  # one history in so many is also read in other batches, which takes as long as all the rest
_HISTORY = 60  # lines of a failing history that are shown


@dataclass(frozen=True)
class Report:
    """What a simulated history came to; printed, it shows what led to the first violation."""

    seed: int
    violations: list[Violation]
    answers: int
    settled_answers: int
    messages: dict[str, int]
    rows: int
    late: int
    history: list[tuple[int, str]]

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations

    def __str__(self) -> str:
        summary = f"{len(self.violations)} violations, {self.settled_answers} settled answers of {self.answers}"
        lines = [f"seed {self.seed}: {summary}"]
        if self.violations:
            first = min(self.violations, key=lambda violation: violation.at)
            before = [line for line in self.history if line[0] <= first.at + 2 * SECOND]
            lines += [f"  {at:>12}  {text}" for at, text in before[-_HISTORY:]]
            lines += [f"  {v.promise} at {v.at}: {v.text}" for v in self.violations[:20]]
        return "\n".join(lines)


def simulate_faults(
    seed: int,
    *,
    shard_factory: ShardFactory | None = None,
    source_factory: SourceFactory | None = None,
    steps: int = STEPS,
    faults: Faults | None = None,
    latency: int | None = None,
) -> Report:
    """Plays a history of `steps` adjustment periods under faults and then some without, and audits it.

    shard_factory: (stream, shard, epoch, checkpoint) → the shard to be tested; default: `BoundedShard`.
    source_factory: (name, epoch, options) → the source to be tested; default: `SourceCore`.

    latency: λ of the stream, microseconds; default: one of a few that the seed chooses.

    Half of the histories of a predicted stream have sources that forecast and shards that plan at random.
    """
    adversarial = seed % 16 < 8
    simulation = _Simulation(
        seed,
        shard_factory or (AdversarialShard if adversarial else BoundedShard),
        source_factory or (AdversarialSource if adversarial else SourceCore),
        faults or Faults(),
        latency,
    )
    simulation.play(steps)
    return simulation.judge()


class _Simulation:
    def __init__(
        self, seed: int, shards: ShardFactory, sources: SourceFactory, faults: Faults, latency: int | None
    ) -> None:
        self._seed = seed
        self._shards = shards
        self._violations: list[Violation] = []
        stream = _stream(seed, latency)
        self._period = stream.options.boundary
        self.cluster = SimulatedCluster(seed, stream, faults, start=1000 * self._period)
        hosts = [f"h{number}" for number in range(self.cluster.random.randint(2, 3))]
        # A source that may filter sums has something to add up.
        least = 2 if isinstance(sources, type) and issubclass(sources, AdversarialSource) else 1
        self.sources = [
            SimulatedSource(self.cluster, host, _KINDS[: self.cluster.random.randint(least, 3)], sources)
            for host in hosts
        ]
        Administrator(self.cluster, _KINDS, hosts)
        if seed % _COMMON_CLOCK == 0:
            CommonClock(self.cluster)
        self.operator = Operator(self.cluster, shards, self._replayed_differently)
        self._settled_from = 0

    def play(self, steps: int) -> None:
        cluster = self.cluster
        cluster.run(cluster.now + steps * self._period)
        cluster.faults = Faults.none()
        cluster.log_event("no faults from here on")
        for source in self.sources:
            source.stop_faults()
        self.operator.stop_faults()
        # A source whose clock was far ahead stays silent until its own time has come.
        ahead = max(source.core.clock for source in self.sources if source.core is not None)
        self._settled_from = max(cluster.now, ahead) + SETTLES_WITHIN * self._period + cluster.stream.options.lease
        cluster.run(self._settled_from + self._period + cluster.stream.options.latency)
        for pipeline in self.operator.running()[-1:]:  # none is left where all have diverged
            pipeline.finish()

    def judge(self) -> Report:
        answers = settled = late = 0
        last = next((pipeline.checkpoint for pipeline in self.operator.running()[-1:]), None)
        adversarial = isinstance(self._shards, type) and issubclass(self._shards, AdversarialShard)
        for checkpoint in self.operator.checkpoints:
            audit = Audit(self.cluster, checkpoint, self._violations.append, adversarial)
            audit.run()
            if checkpoint is last:
                audit.run_last(self._settled_from)
                if self._seed % _RECUT == 0:
                    self._cut_differently(checkpoint)
                late = sum(len(spans) for spans in audit.reading.late.values())
            answers, settled = answers + audit.answers, settled + audit.settled
        rows = sum(len(entry.rows) for entry in self.cluster.appended)
        return Report(
            self._seed, self._violations, answers, settled, self.cluster.counts, rows, late, self.cluster.journal
        )

    def _replayed_differently(self, text: str) -> None:
        self._violations.append(Violation("replay", self.cluster.now, text))

    def _cut_differently(self, checkpoint: Checkpoint) -> None:
        """Checks that the outputs are a function of the log: other batches must yield the same outputs."""
        cluster = self.cluster
        shard = self._shards(cluster.stream, 0, checkpoint.epoch, checkpoint.id)
        read = [e for e in cluster.log.read((cluster.updates, QUERIES)) if e.position <= checkpoint.position]
        entries = marked(read, bodies(cluster.log, cluster.stream.name))
        outputs: list[Output] = []
        while entries:
            cut = cluster.random.choice([1, 3, 10, 40])
            outputs += shard.apply(entries[:cut])
            entries = entries[cut:]
        published = [output for observation in checkpoint.observations for output in observation.outputs]
        once, again = _function_of_the_log(published), _function_of_the_log(outputs)
        for topic in sorted({*once, *again}):
            here, there = once.get(topic, Counter()), again.get(topic, Counter())
            if here != there:
                difference = [*(here - there).elements(), *(there - here).elements()]
                text = f"{topic} depends on how the log is cut into batches: {difference[:4]}"
                self._violations.append(Violation("replay", cluster.now, text))


def _stream(seed: int, latency: int | None) -> Stream:
    """Short periods, and options that differ from seed to seed."""
    columns = (Column("host", "STRING"), Column("kind", "STRING"), Column("rate", "DOUBLE"))
    policy = _POLICIES[seed % len(_POLICIES)]
    # Short ticks where values are predicted: a forecast has to be learnt.
    ticks = 10 if policy == "predictive" else 2
    options = StreamOptions(
        tick=SECOND // ticks,
        period=ticks,
        latency=latency or (SECOND, SECOND, SECOND // 2)[seed % 3],
        lease=2 * SECOND,
        shrink=(0.05, 0.3)[seed % 2],
        policy=policy,
    )
    return Stream("stream", columns, ("host", "kind"), options=options)


def _function_of_the_log(outputs: list[Output]) -> dict[str, Counter[str]]:
    """Topic → the rows said to it, less what may depend on batches: status and current answers.

    Of grants and forms only the newest of each item or source counts, as in the compacted topics: the others may be
    left out of a batch.
    """
    rows: dict[str, Counter[str]] = {}
    grants: dict[str, Grant] = {}
    forms: dict[str, dict[str, Any]] = {}
    for output in outputs:
        batch = unpack(output.payload)
        if TopicKind.GRANTS.matches(output.topic):
            for grant in read_grants(batch.filter(batch.column("body").is_valid())):
                if grant.item not in grants or grant.version >= grants[grant.item].version:
                    grants[grant.item] = grant
        elif TopicKind.SUMS.matches(output.topic):
            forms.update({row["key"]: row for row in batch.to_pylist()})
        elif output.topic == REPLIES_TOPIC or TopicKind.of(output.topic) in (TopicKind.ANSWERS, TopicKind.DEAD_LETTERS):
            rows.setdefault(output.topic, Counter()).update(str(tuple(row.values())) for row in batch.to_pylist())
    return rows | {"grants": Counter(map(str, grants.values())), "forms": Counter(map(str, forms.values()))}
