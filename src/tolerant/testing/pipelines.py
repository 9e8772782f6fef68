"""A pipeline in a simulation: batches cut at random, a checkpoint, a sink, and death at any moment of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias, cast

from tolerant.pipeline.entry_contents import read_names
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.pipeline.shard_host import AppliedBatch, Diverged, LogInput, ShardHost
from tolerant.streams import Stream
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.testing.snapshots import MemorySnapshots
from tolerant.transport import Entry, Fence, Fenced
from tolerant.transport.batches import DoneBatch, done_entry
from tolerant.transport.log import START
from tolerant.transport.quarantine import Quarantined, bodies, is_marked, marked, record
from tolerant.transport.rows import NO_TIME, clock_batch
from tolerant.transport.topics import EPOCHS, QUERIES


class Auditable(Hosted, Protocol):
    """A shard that shows the audit its filters and bounds."""

    def believed(self, key: str) -> tuple[float, float]:
        """(centre, width) of an item's filter at the watermark; an infinite width is unknown. `KeyError`: no such
        item.
        """
        ...

    def ends(self, key: str) -> tuple[float, float]:
        """Bounds of an item's value at the watermark. `KeyError`: no such item."""
        ...

    def recalled(self, key: str) -> bool:
        """Whether these bounds come from the item's reported history, whatever suppression is in force."""
        ...


ShardFactory: TypeAlias = Callable[[Stream, int, int, str], Auditable]
"""(stream, shard, epoch, checkpoint) → a shard."""


class Belief(NamedTuple):
    """What a shard knows of an item: its filter, the bounds of its value, and whether these come from its reported
    history.
    """

    centre: float
    width: float
    low: float
    high: float
    recalled: bool


class Observation(NamedTuple):
    """The outputs of a pipeline, and what its shard knew of the items, when it had read up to a position."""

    position: int
    outputs: list[Output]
    believed: dict[str, Belief]


@dataclass(eq=False)
class Checkpoint:
    """What is on disk, and what the audit remembers of it."""

    id: str
    epoch: int = 0  # of the empty start
    position: int = START
    batch: int = 0
    snapshots: MemorySnapshots = field(default_factory=MemorySnapshots)
    diverged: bool = False  # it cannot be restored
    plan: int | None = None  # the end of a batch that was begun
    said: list[Output] | None = None  # by a batch that was begun
    observations: list[Observation] = field(default_factory=list)


class SimulatedPipeline:
    """One run of a pipeline on a checkpoint, from its start to its crash or fencing."""

    def __init__(
        self, cluster: SimulatedCluster, checkpoint: Checkpoint, factory: ShardFactory, violated: Callable[[str], None]
    ):
        self._cluster = cluster
        self._factory = factory
        self._violated = violated
        self.checkpoint = checkpoint
        self.alive = True
        self._offset = 0.0
        self._fenced_sink = cluster.random.random() < 0.7
        stream = cluster.stream.name
        self.epoch = cluster.log.next_epoch(f"pipeline/{stream}", checkpoint.id)
        cluster.log_event(f"pipeline {checkpoint.id} starts as epoch {self.epoch} at position {checkpoint.position}")
        self._snapshot_due = False
        self._restore()
        if cluster.common_clock:
            cluster.append_rows(clock_batch(NO_TIME, self.epoch, checkpoint.id))
        self._tick()
        self._shift = 0
        cluster.after(self._pause(), lambda: self._turn(0))

    def crash(self) -> None:
        """Die, and be started again after a while by whoever watches."""
        self._cluster.log_event(f"pipeline {self.checkpoint.id} crashes in batch {self.checkpoint.batch}")
        self.alive = False

    def stop_faults(self) -> None:
        """From now on nothing is wrong with this pipeline."""
        self._offset = 0.0
        self._shift += 1
        self._turn(self._shift)

    def finish(self) -> None:
        """Read the log to its end."""
        while self.alive and self._batch(whole=True):
            pass

    # -- time ---------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Append a clock row, and the next one later; see whether a newer pipeline has started."""
        cluster, options = self._cluster, self._cluster.stream.options
        if not self.alive:
            return
        newest = cluster.log.latest(EPOCHS, f"pipeline/{cluster.stream.name}")
        if newest is not None and newest.version > self.epoch and cluster.random.random() < 0.5:
            self._stop("sees a newer epoch")
            return
        cluster.after(cluster.between(0.2, 1.0) * options.latency, self._tick)
        if cluster.common_clock:
            return
        if cluster.occurs("pipeline_clock"):
            self._offset = cluster.between(-1, 0.3) * options.boundary
            cluster.log_event(f"clock of pipeline {self.checkpoint.id} is off by {int(self._offset)}")
        elif cluster.random.random() < 0.2:
            self._offset = 0.0
        cluster.append_rows(clock_batch(int(cluster.now + self._offset), self.epoch, self.checkpoint.id))

    def _stop(self, why: str) -> None:
        self._cluster.log_event(f"pipeline {self.checkpoint.id} stops: it {why}")
        self.alive = False

    # -- batches ------------------------------------------------------------------------------------------------

    def _turn(self, shift: int) -> None:
        cluster = self._cluster
        if not self.alive or shift != self._shift:
            return
        if cluster.occurs("lost_worker"):
            self._restore()
            if not self.alive:
                return
        self._batch()
        pause = self._pause()
        if cluster.occurs("pipeline_stall"):
            pause *= 8
        cluster.after(pause, lambda: self._turn(shift))

    def _batch(self, whole: bool = False) -> bool:
        """One micro-batch, as Spark makes them: planned, applied, written, committed; it can die between any two.

        False: there was nothing to do, or it did not live to commit.
        """
        cluster, checkpoint = self._cluster, self.checkpoint
        entries = self._plan(whole)
        if not entries:
            return False
        poison = [entry for entry in entries if entry.position in cluster.poison and not is_marked(entry.topic)]
        if poison:
            self._quarantine(poison[0])
            return self.alive
        applied = self._host.apply(checkpoint.position, entries[-1].position)
        outputs = applied.outputs
        if checkpoint.said is not None and checkpoint.said != outputs:
            self._violated(f"pipeline {checkpoint.id} says something else when batch {checkpoint.batch} is run again")
        checkpoint.said = outputs
        dies = cluster.occurs("pipeline_crash")
        if dies and cluster.random.random() < 0.5:
            self.crash()
            return False
        if not self._write(applied):
            return False
        if dies:
            self.crash()
            return False
        self._commit(entries[-1].position, outputs)
        return True

    def _quarantine(self, entry: Entry) -> None:
        """The batch has failed at an entry, twice: it is recorded, and the shard begins again where the batch began."""
        cluster, stream = self._cluster, self._cluster.stream.name
        skipped = Quarantined(entry.topic, entry.position, "poison", 0, tuple(read_names(entry.payload)))
        try:
            record(cluster.log, stream, skipped, Fence(f"pipeline/{stream}", self.epoch))
        except Fenced:
            self._stop("is fenced by the log")
            return
        cluster.log_event(f"pipeline {self.checkpoint.id} puts entry {entry.position} into quarantine")
        self.checkpoint.said = None
        self._restore()

    def _plan(self, whole: bool) -> Sequence[Entry]:
        """The entries of the next batch. A batch that was begun is begun again with the same ones."""
        cluster, checkpoint = self._cluster, self.checkpoint
        read = cluster.log.read((cluster.updates, QUERIES), checkpoint.position)
        entries = marked(read, bodies(cluster.log, cluster.stream.name))
        if checkpoint.plan is not None:
            return [entry for entry in entries if entry.position <= (checkpoint.plan or 0)]
        if entries and not whole and cluster.random.random() < 0.4:
            entries = entries[: cluster.random.randint(1, len(entries))]
        if entries:
            checkpoint.plan = entries[-1].position
        return entries

    def _write(self, applied: AppliedBatch) -> bool:
        """The sink: exactly once for each batch; with a fence, not at all once a newer epoch has been taken."""
        cluster, checkpoint = self._cluster, self.checkpoint
        owner = f"pipeline/{cluster.stream.name}"
        fence = Fence(owner, self.epoch) if self._fenced_sink else None
        entries = [(output.topic, output.payload) for output in applied.outputs]
        done = DoneBatch(checkpoint.id, applied.shard, applied.end, applied.one_by_one, applied.digest)
        entries.append(done_entry(cluster.stream.name, [done]))
        newest = cluster.log.latest(EPOCHS, owner)
        try:
            written = cluster.log.append_once(checkpoint.id, checkpoint.batch, entries, fence)
        except Fenced:
            self._stop("is fenced by the log")
            return False
        if written and fence is not None and newest is not None and newest.version > self.epoch:
            self._violated(f"pipeline {checkpoint.id} of epoch {self.epoch} writes after epoch {newest.version}")
        return True

    def _commit(self, position: int, outputs: list[Output]) -> None:
        cluster, checkpoint = self._cluster, self.checkpoint
        self._snapshot_due = cluster.random.random() < 0.15
        checkpoint.position, checkpoint.batch = position, checkpoint.batch + 1
        checkpoint.plan = checkpoint.said = None
        checkpoint.observations.append(Observation(position, outputs, self._look()))

    def _look(self) -> dict[str, Belief]:
        beliefs: dict[str, Belief] = {}
        shard = cast(Auditable, self._host.core(self.checkpoint.position))
        for key in self._cluster.truth.items:
            try:
                beliefs[key] = Belief(*shard.believed(key), *shard.ends(key), shard.recalled(key))
            except KeyError:
                continue
        return beliefs

    def _restore(self) -> None:
        """Start a worker, which restores the shard."""
        cluster, checkpoint = self._cluster, self.checkpoint
        stored = checkpoint.snapshots.by_position
        if not stored:
            checkpoint.epoch = self.epoch
        elif len(stored) > 1 and cluster.occurs_too("lost_snapshot"):
            cluster.log_event(f"pipeline {checkpoint.id} has lost its snapshot of position {stored.popitem()[0]}")
        self._host = ShardHost(
            0,
            lambda shard: self._factory(cluster.stream, shard, self.epoch, checkpoint.id),
            LogInput(cluster.log, cluster.stream.name, checkpoint.id, (cluster.updates, QUERIES), 0),
            checkpoint.snapshots,
            due=lambda seconds: self._snapshot_due,
        )
        try:
            self._host.core(checkpoint.position)
        except Diverged as error:
            self._violated(f"pipeline {checkpoint.id}: {error}")
            checkpoint.diverged = True
            self._stop("has diverged")

    def _pause(self) -> float:
        return self._cluster.between(0.2, 1.5) * self._cluster.stream.options.latency
