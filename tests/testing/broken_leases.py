"""The real ends with one mistake each about sources that have died, which the fault simulator has to catch."""

from __future__ import annotations

import numpy as np

from tolerant.spark.kinds.bounded import BoundedShard
from tolerant.testing import Faults
from tolerant.testing.bold import BoldShard, BoldSource

OFTEN = Faults(source_crash=0.05)


class ExtrapolatesBeyondThrough(BoldShard):
    """Predicted centres move on, whether or not their source is known to live."""

    weather = OFTEN
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._engine._prove = lambda items: items[:0]


class ShrinksTheDead(BoundedShard):
    """Widths shrink at boundaries, whether or not their source is known to live."""

    weather = OFTEN
    policy = "adaptive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._engine._prove = lambda items: items[:0]


class TakesEveryRowForAnyStart(BoldShard):
    """A restart vouches for the time before it."""

    weather = OFTEN
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        sources = self._engine.sources
        count = sources.count

        def all_starts(rows):
            count(rows)
            np.maximum.at(sources.lived, rows["source"], rows["through"])

        sources.count = all_starts


class HoldsWhereItWas(BoldShard):
    """Centres stop where their source was last known to live: of one that is alive but not heard, that is wrong."""

    weather = Faults(slow_append=0.1)
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        coordinator = self._engine.coordinator

        def stop(items, lived):
            state, tick = coordinator._book.items, lived // coordinator._length
            late = (tick < coordinator.tick) & (state.slope[items] != 0.0) & (state.since[items] <= tick)
            some, reached = items[late], tick[late]
            state.level[some] += state.slope[some] * (reached - state.since[some])
            state.slope[some], state.since[some] = 0.0, reached
            coordinator._book.queries.dirty[coordinator._book.alive()] = True
            return some

        coordinator.prove = stop


class SaysNothingWhenItsFiltersMove(BoldSource):
    """A source beats once in a third of its lease, whatever its filters do meanwhile: nothing settles."""

    weather = Faults()
    policy = "predictive"

    def _owes_a_row(self):
        return False
