"""The real ends with one mistake each about sources that have died, which the fault simulator has to catch."""

from __future__ import annotations

import numpy as np

from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.testing import Faults
from tolerant.testing.adversarial import AdversarialShard, AdversarialSource

OFTEN = Faults(source_crash=0.05)


class ExtrapolatesBeyondThrough(AdversarialShard):
    """Predicted centres move on, whether or not their source is known to live."""

    faults = OFTEN
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._engine.liveness.record_lived = lambda items: items[:0]


class ShrinksTheDead(BoundedShard):
    """Widths shrink at boundaries, whether or not their source is known to live."""

    faults = OFTEN
    policy = "adaptive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._engine.liveness.record_lived = lambda items: items[:0]


class TakesEveryRowForAnyStart(AdversarialShard):
    """A restart vouches for the time before it."""

    faults = OFTEN
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        sources = self._engine.sources
        count = sources.count

        def all_starts(rows):
            count(rows)
            np.maximum.at(sources.lived, rows["source"], rows["through"])

        sources.count = all_starts


class HoldsWhereItWas(AdversarialShard):
    """Centres stop where their source was last known to live: of one that is alive but not heard, that is wrong."""

    faults = Faults(slow_append=0.1)
    policy = "predictive"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        coordinator = self._engine._coordinator

        def stop(items, lived):
            state, tick = coordinator.membership.items, lived // coordinator.emitter.length
            late = (tick < coordinator.emitter.tick) & (state.slope[items] != 0.0) & (state.since[items] <= tick)
            some, reached = items[late], tick[late]
            state.level[some] += state.slope[some] * (reached - state.since[some])
            state.slope[some], state.since[some] = 0.0, reached
            coordinator.membership.queries.dirty[coordinator.membership.alive()] = True
            return some

        coordinator.evidence.record_liveness = stop


class SaysNothingWhenItsFiltersMove(AdversarialSource):
    """A source beats once in a third of its lease, whatever its filters do meanwhile: nothing settles."""

    faults = Faults()
    policy = "predictive"

    def _owes_a_row(self):
        return False
