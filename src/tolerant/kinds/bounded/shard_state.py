"""What the modules of a shard's engine share: the coordinator, and what is known of items and sources."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.coordinator import Coordinator
from tolerant.filters.state import Flags, Integers
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.kernels.versions import COUNTER_BITS
from tolerant.kinds.bounded.answer_buffer import AnswerBuffer
from tolerant.kinds.bounded.counters import Counters
from tolerant.kinds.bounded.item_conflicts import ItemConflicts
from tolerant.kinds.bounded.item_registry import ItemRegistry
from tolerant.kinds.bounded.reported_history import ReportedHistory
from tolerant.pipeline.intake import DeadRow
from tolerant.pipeline.sources import Sources
from tolerant.streams import Stream

Rows = NDArray[np.void]
"""Rows of type `pipeline.intake.ROW`."""


@dataclass(frozen=True)
class ShardState(Restorable):
    """The items, sources and answers of one shard of a stream."""

    FIELDS = Fields(parts=["coordinator", "answers", "registry", "sources", "history", "conflicts", "counters"])

    stream: Stream
    coordinator: Coordinator
    answers: AnswerBuffer
    registry: ItemRegistry
    sources: Sources
    history: ReportedHistory
    conflicts: ItemConflicts
    counters: Counters
    dead_letters: list[DeadRow]

    @classmethod
    def new(cls, stream: Stream, shard: int, epoch: int, seed: int) -> ShardState:
        """Returns the state of a shard that has read nothing."""
        options = stream.options
        coordinator = Coordinator(
            period=options.period,
            shrink=options.shrink,
            policy=options.policy,
            seed=seed,
            shard=shard,
            epoch=epoch,
            interval=options.boundary,
            tick=options.tick,
            probes=True,
        )
        return cls(
            stream,
            coordinator,
            AnswerBuffer(coordinator),
            ItemRegistry(),
            Sources(options.lease),
            ReportedHistory(options.latency),
            ItemConflicts(options.lease),
            Counters(),
            [],
        )

    @property
    def lease(self) -> int:
        """How long a silent source is trusted, microseconds."""
        return self.stream.options.lease

    def key(self, item: int) -> str:
        """The key of an item."""
        return str(self.coordinator.membership.item_names[item])

    def keys(self, items: Integers) -> list[str]:
        """The keys of items."""
        names = self.coordinator.membership.item_names
        return [str(names[item]) for item in items.tolist()]

    def sequence(self, item: int) -> int:
        """The sequence of the last applied row of an item."""
        return int(self.coordinator.membership.sequences(np.array([item]))[0])

    def is_current(self, items: Integers) -> Flags:
        """Marks the items of which a row has been applied since their owner's last restart."""
        epochs = self.sources.epoch[self.registry.owner[items]]
        current: Flags = self.coordinator.membership.sequences(items) >> COUNTER_BITS >= epochs
        return current
