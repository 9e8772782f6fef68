"""`join` and `cache` without a model: it is learned on the way (`specs/6-retention.md` §5)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.retention.arrays import Flags, Floats, Integers
from tolerant.retention.engine import NO_WINDOW
from tolerant.retention.learner import PERIOD, Learner, believed
from tolerant.retention.replay import look_up, play
from tolerant.retention.scorers import scorer_of
from tolerant.retention.shelf import Shelf
from tolerant.retention.sides import Ranking, at_random, by_benefit, by_key, ranking_of, static_ranking
from tolerant.retention.survival import Survival, for_caching, for_joining


class Beliefs:
    """The learners of both streams, and what follows from them: rankings, keys, and weights between the streams."""

    def __init__(self, memory: int, survival: Survival | None, window: int | None, limit: int | None = None) -> None:
        self.memory, self.survival, self.window = memory, survival, window
        self.learners = (Learner(memory, limit), Learner(memory, limit))

    def rankings(self) -> tuple[Ranking, Ranking]:
        """How rows of r and of s are ranked by what is believed of the other stream."""
        survival = self.survival or for_joining((believed(self.learners[0]), believed(self.learners[1])), self.memory)
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


def learned_cache(values: Integers, memory: int, survival: Survival | None, seed: int) -> Flags:
    """Which references hit, bool[ticks]."""
    learner, shadows = Learner(memory), _Shadows(memory)
    span = (int(values.min()), int(values.max())) if len(values) else None

    def ranking() -> Ranking:
        model = learner.model
        if model is None:
            return by_key(None)
        return ranking_of(
            model, scorer_of(model, [survival or for_caching(model, memory)], cached=True, span=span), None
        )

    def keys(stream: int, wanted: Integers) -> Floats:
        return shadows.keys(learner, shadows.leader, wanted)

    shelf = Shelf((ranking(), at_random()), memory + 1, memory + 1, None)
    hits = []
    for start in range(0, len(values), PERIOD):
        ticks = np.arange(start, min(start + PERIOD, len(values)))
        weights, _ = learner.observe(ticks, values[ticks])
        weights = np.hstack([np.zeros((len(ticks), 1)), weights])
        given = weights[:, shadows.leader].copy() if shelf.rankings[0].keyed else np.zeros(0)
        hits.append(_looked_up(shelf, start, values[ticks], given, memory))
        changed = shadows.watch(start, values[ticks], weights)
        changed |= learner.review()
        if learner.frequencies.needs_scaling():
            learner.frequencies.scale()
            shadows.rank_anew(learner, int(ticks[-1]))
            changed = True
        if changed:
            shelf.house((ranking(), at_random()), keys, int(ticks[-1]), memory + 1, memory + 1)
    return np.concatenate([np.zeros(0, np.bool_), *hits])


class _Shadows:
    """Stores of values alone, one by recency and one for each memory of the frequencies: whose hits of late are most.

    What predicts best is not what hits most: a short memory foretells the few hot values better, a long one keeps more
    of the many others. So the length is chosen by hits; the likelihood chooses between frequencies and what moves.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.leader = 2  # until something is known: four times the memory
        self._shelves = [Shelf((by_key(None), at_random()), memory + 1, memory + 1, None) for _ in range(5)]
        self._scores = np.zeros(len(self._shelves))
        self._keeps = 1.0 - 1.0 / max(1000, 8 * memory)

    def watch(self, start: int, values: Integers, weights: Floats) -> bool:
        """Take references in, with the scores that each store gives them; whether another one leads."""
        self._scores *= self._keeps ** len(values)
        for k, shelf in enumerate(self._shelves):
            hits = _looked_up(shelf, start, values, weights[:, k].copy(), self.memory)
            self._scores[k] += np.count_nonzero(hits)
        best = int(np.argmax(self._scores))
        if self._scores[best] <= 1.01 * self._scores[self.leader] + 1.0:
            return False
        self.leader = best
        return True

    def keys(self, learner: Learner, which: int, wanted: Integers) -> Floats:
        """The scores that a store gives values; by recency all are the same, and the least recent goes."""
        return np.zeros(len(wanted)) if which == 0 else learner.frequencies.weights(wanted, which - 1)

    def rank_anew(self, learner: Learner, tick: int) -> None:
        """Weights have been brought down."""
        for k, shelf in enumerate(self._shelves):
            room = self.memory + 1
            shelf.house(shelf.rankings, lambda _, wanted, k=k: self.keys(learner, k, wanted), tick, room, room)  # type: ignore[misc]


def _looked_up(shelf: Shelf, start: int, values: Integers, keys: Floats, memory: int) -> Flags:
    layers = np.zeros(len(values), np.int64)
    return look_up(start, values, keys, shelf.held, shelf.scorers[0], layers, memory, False, key_of(0), NO_WINDOW)
