"""`join` without a model: it is learned on the way (`specs/6-retention.md` §5)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.retention.arrays import Floats, Integers
from tolerant.retention.engine import NO_WINDOW
from tolerant.retention.learner import PERIOD, Learner, believed
from tolerant.retention.replay import play
from tolerant.retention.shelf import Shelf
from tolerant.retention.sides import Ranking, by_benefit, static_ranking
from tolerant.retention.survival import Fixed, Survival, for_joining, of_mean_life


class Beliefs:
    """The learners of both streams, and what follows from them: rankings, keys, and weights between the streams."""

    def __init__(self, memory: int, survival: Survival | None, window: int | None, limit: int | None = None) -> None:
        self.memory, self.survival, self.window = memory, survival, window
        self.learners = (Learner(memory, limit), Learner(memory, limit))

    def rankings(self) -> tuple[Ranking, Ranking]:
        """How rows of r and of s are ranked by what is believed of the other stream."""
        survival = self.survival or for_joining((believed(self.learners[0]), believed(self.learners[1])), self.memory)
        if self.survival is None and isinstance(survival, Fixed) and self.memory > 1:
            # Streams with hardly any noise, one far behind the other: no row is met at the next tick, all would tie.
            survival = of_mean_life(2.0)
        return self._ranking(1, survival), self._ranking(0, survival)

    def _ranking(self, partner: int, survival: Survival) -> Ranking:
        model = self.learners[partner].model
        return static_ranking(survival, self.window) if model is None else by_benefit(model, survival, self.window)

    def keys(self, stream: int, values: Integers) -> Floats:
        """The weights of values of a stream in the other one."""
        partner = self.learners[1 - stream]
        return partner.frequencies.weights(values, partner.memory)

    def scales(self, rankings: tuple[Ranking, Ranking]) -> Floats:
        """What turns weights into probabilities, for rows of r and of s; 1 where scores are not weights."""
        out = np.ones(2)
        for k in (0, 1):
            partner = self.learners[1 - k]
            total = partner.frequencies.total(partner.memory)
            if rankings[k].keyed and total > 0.0:
                out[k] = rankings[k].factor / total
        return out

    def review(self) -> bool:
        """Whether rows have to be ranked anew."""
        changed = [learner.review() for learner in self.learners]
        for k, learner in enumerate(self.learners):
            if learner.frequencies.needs_scaling():
                learner.frequencies.scale()
                changed[k] = True
        return any(changed)


def learned_join(
    r: Integers, s: Integers, memory: int, survival: Survival | None, window: int | None, warmup: int, seed: int
) -> tuple[int, float]:
    """Results that count, and the share of r among the rows held."""
    beliefs = Beliefs(memory, survival, window)
    shelf = Shelf(beliefs.rankings(), memory + 2, memory + 2, window)
    tally = np.zeros(3, np.int64)
    limit = NO_WINDOW if window is None else window
    for start in range(0, len(r), PERIOD):
        ticks = np.arange(start, min(start + PERIOD, len(r)))
        rows = (r[ticks], s[ticks])
        rates = beliefs.scales(shelf.rankings)
        of_s, fresh_r = beliefs.learners[1].observe(ticks, rows[1], asked=rows[0])
        of_r, fresh_s = beliefs.learners[0].observe(ticks, rows[0], asked=rows[1])
        keys = [
            np.stack(pair)[:, :, beliefs.learners[1 - k].memory].copy() if shelf.rankings[k].keyed else np.zeros((0, 0))
            for k, pair in enumerate(((fresh_r, of_s), (fresh_s, of_r)))
        ]
        play(
            start, rows[0], rows[1], keys[0], keys[1], shelf.held, shelf.scorers, rates, memory, limit, warmup, False,
            key_of(seed), tally,
        )  # fmt: skip
        if beliefs.review():
            shelf.house(beliefs.rankings(), beliefs.keys, int(ticks[-1]), memory + 2, memory + 2)
    return int(tally[0]), float(tally[1] / tally[2]) if tally[2] else float("nan")
