"""Ranks rows by learned models of both streams (`docs/design/retention.md` §5)."""

from __future__ import annotations

import numpy as np

from tolerant.retention.learner import Learner, believed
from tolerant.retention.ranking import Ranking, by_benefit, static_ranking
from tolerant.retention.survival import Fixed, Survival, for_joining, of_mean_life
from tolerant.retention.value_arrays import Floats, Integers


class Beliefs:
    """The learners of both streams, and what follows from them: rankings, keys, and weights between the streams."""

    def __init__(self, memory: int, survival: Survival | None, window: int | None, limit: int | None = None) -> None:
        self.memory, self.survival, self.window = memory, survival, window
        self.learners = (Learner(memory, limit), Learner(memory, limit))

    def rankings(self) -> tuple[Ranking, Ranking]:
        """Return how rows of r and of s are ranked by what is believed of the other stream."""
        survival = self.survival or for_joining((believed(self.learners[0]), believed(self.learners[1])), self.memory)
        if self.survival is None and isinstance(survival, Fixed) and self.memory > 1:
            # Streams with hardly any noise, one far behind the other: no row is met at the next tick, all would tie.
            survival = of_mean_life(2.0)
        return self._ranking(1, survival), self._ranking(0, survival)

    def _ranking(self, partner: int, survival: Survival) -> Ranking:
        model = self.learners[partner].model
        return static_ranking(survival, self.window) if model is None else by_benefit(model, survival, self.window)

    def keys(self, stream: int, values: Integers) -> Floats:
        """Return the weights of values of a stream in the other one."""
        partner = self.learners[1 - stream]
        return partner.frequencies.weights(values, partner.memory)

    def scales(self, rankings: tuple[Ranking, Ranking]) -> Floats:
        """Return what turns weights into probabilities, for rows of r and of s; 1 where scores are not weights."""
        out = np.ones(2)
        for k in (0, 1):
            partner = self.learners[1 - k]
            total = partner.frequencies.total(partner.memory)
            if rankings[k].keyed and total > 0.0:
                out[k] = rankings[k].factor / total
        return out

    def review(self) -> bool:
        """Return whether rows have to be ranked again."""
        changed = [learner.review() for learner in self.learners]
        for k, learner in enumerate(self.learners):
            if learner.frequencies.needs_scaling():
                learner.frequencies.scale()
                changed[k] = True
        return any(changed)
