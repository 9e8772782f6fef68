"""A pipeline in a simulation: batches cut at random, a checkpoint, a sink, and death at any moment of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from tolerant.pipeline.entry_contents import read_names
from tolerant.pipeline.hosting import Hosted, Output
from tolerant.streams import Stream
from tolerant.testing.simulated_cluster import SimulatedCluster
from tolerant.transport import Entry, Fence, Fenced
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
    born: bytes | None = None
    position: int = START
    batch: int = 0
    snapshot: bytes | None = None
    deltas: list[bytes] = field(default_factory=list)
    plan: int | None = None  # the end of a batch that was begun
    said: list[Output] | None = None  # by a batch that was begun
    observations: list[Observation] = field(default_factory=list)


class SimulatedPipeline:
    """One run of a pipeline on a checkpoint, from its start to its crash or fencing."""

    def __init__(
        self, world: SimulatedCluster, checkpoint: Checkpoint, factory: ShardFactory, violated: Callable[[str], None]
    ):
        self._world = world
        self._factory = factory
        self._violated = violated
        self.checkpoint = checkpoint
        self.alive = True
        self._offset = 0.0
        self._fenced_sink = world.random.random() < 0.7
        stream = world.stream.name
        self.epoch = world.log.next_epoch(f"pipeline/{stream}", checkpoint.id)
        world.say(f"pipeline {checkpoint.id} starts as epoch {self.epoch} at position {checkpoint.position}")
        self._shard = self._restored()
        if world.common_clock:
            world.append_rows(clock_batch(NO_TIME, self.epoch, checkpoint.id))
        self._tick()
        self._shift = 0
        world.after(self._pause(), lambda: self._turn(0))

    def crash(self) -> None:
        """Die, and be started again after a while by whoever watches."""
        self._world.say(f"pipeline {self.checkpoint.id} crashes in batch {self.checkpoint.batch}")
        self.alive = False

    def calm(self) -> None:
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
        world, options = self._world, self._world.stream.options
        if not self.alive:
            return
        newest = world.log.latest(EPOCHS, f"pipeline/{world.stream.name}")
        if newest is not None and newest.version > self.epoch and world.random.random() < 0.5:
            self._stop("sees a newer epoch")
            return
        world.after(world.between(0.2, 1.0) * options.latency, self._tick)
        if world.common_clock:
            return
        if world.strikes("pipeline_clock"):
            self._offset = world.between(-1, 0.3) * options.boundary
            world.say(f"clock of pipeline {self.checkpoint.id} is off by {int(self._offset)}")
        elif world.random.random() < 0.2:
            self._offset = 0.0
        world.append_rows(clock_batch(int(world.now + self._offset), self.epoch, self.checkpoint.id))

    def _stop(self, why: str) -> None:
        self._world.say(f"pipeline {self.checkpoint.id} stops: it {why}")
        self.alive = False

    # -- batches ------------------------------------------------------------------------------------------------

    def _turn(self, shift: int) -> None:
        world = self._world
        if not self.alive or shift != self._shift:
            return
        if world.strikes("lost_worker"):
            self._shard = self._restored()
        self._batch()
        pause = self._pause()
        if world.strikes("pipeline_stall"):
            pause *= 8
        world.after(pause, lambda: self._turn(shift))

    def _batch(self, whole: bool = False) -> bool:
        """One micro-batch, as Spark makes them: planned, applied, written, committed; it can die between any two.

        False: there was nothing to do, or it did not live to commit.
        """
        world, checkpoint = self._world, self.checkpoint
        entries = self._plan(whole)
        if not entries:
            return False
        poison = [entry for entry in entries if entry.position in world.poison and not is_marked(entry.topic)]
        if poison:
            self._quarantine(poison[0])
            return self.alive
        outputs, delta = self._shard.apply(entries)
        if checkpoint.said is not None and checkpoint.said != outputs and checkpoint.snapshot is not None:
            self._violated(f"pipeline {checkpoint.id} says something else when batch {checkpoint.batch} is run again")
        checkpoint.said = outputs
        dies = world.strikes("pipeline_crash")
        if dies and world.random.random() < 0.5:
            self.crash()
            return False
        if not self._write(outputs):
            return False
        if dies:
            self.crash()
            return False
        self._commit(entries[-1].position, delta, outputs)
        return True

    def _quarantine(self, entry: Entry) -> None:
        """The batch has failed at an entry, twice: it is recorded, and the shard begins again where the batch began."""
        world, stream = self._world, self._world.stream.name
        skipped = Quarantined(entry.topic, entry.position, "poison", 0, tuple(read_names(entry.payload)))
        try:
            record(world.log, stream, skipped, Fence(f"pipeline/{stream}", self.epoch))
        except Fenced:
            self._stop("is fenced by the log")
            return
        world.say(f"pipeline {self.checkpoint.id} puts entry {entry.position} into quarantine")
        self.checkpoint.said = None
        self._shard = self._restored()

    def _plan(self, whole: bool) -> Sequence[Entry]:
        """The entries of the next batch. A batch that was begun is begun again with the same ones."""
        world, checkpoint = self._world, self.checkpoint
        read = world.log.read((world.updates, QUERIES), checkpoint.position)
        entries = marked(read, bodies(world.log, world.stream.name))
        if checkpoint.plan is not None:
            return [entry for entry in entries if entry.position <= (checkpoint.plan or 0)]
        if entries and not whole and world.random.random() < 0.4:
            entries = entries[: world.random.randint(1, len(entries))]
        if entries:
            checkpoint.plan = entries[-1].position
        return entries

    def _write(self, outputs: Sequence[Output]) -> bool:
        """The sink: exactly once for each batch; with a fence, not at all once a newer epoch has been taken."""
        world, checkpoint = self._world, self.checkpoint
        fence = Fence(f"pipeline/{world.stream.name}", self.epoch) if self._fenced_sink else None
        entries = [(output.topic, output.payload) for output in outputs]
        try:
            world.log.append_once(checkpoint.id, checkpoint.batch, entries, fence)
        except Fenced:
            self._stop("is fenced by the log")
            return False
        return True

    def _commit(self, position: int, delta: bytes, outputs: list[Output]) -> None:
        world, checkpoint = self._world, self.checkpoint
        if checkpoint.snapshot is None:
            checkpoint.snapshot, checkpoint.epoch = checkpoint.born, self.epoch
        checkpoint.deltas.append(delta)
        if world.random.random() < 0.15:
            checkpoint.snapshot, checkpoint.deltas = self._shard.snapshot(), []
        checkpoint.position, checkpoint.batch = position, checkpoint.batch + 1
        checkpoint.plan = checkpoint.said = None
        checkpoint.observations.append(Observation(position, outputs, self._look()))

    def _look(self) -> dict[str, Belief]:
        found: dict[str, Belief] = {}
        for key in self._world.truth.items:
            try:
                found[key] = Belief(*self._shard.believed(key), *self._shard.ends(key), self._shard.recalled(key))
            except KeyError:
                continue
        return found

    def _restored(self) -> Auditable:
        checkpoint = self.checkpoint
        shard = self._factory(self._world.stream, 0, self.epoch, checkpoint.id)
        if checkpoint.snapshot is None:
            checkpoint.born = shard.snapshot()
        shard.restore(checkpoint.snapshot, checkpoint.deltas)
        return shard

    def _pause(self) -> float:
        return self._world.between(0.2, 1.5) * self._world.stream.options.latency
