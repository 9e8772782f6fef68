"""Implements the live form of `cache`, which learns its model from the references (`docs/design/retention.md` §5)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.random import key_of
from tolerant.kernels.snapshots import State
from tolerant.retention.held_rows import HeldRows
from tolerant.retention.learner import PERIOD, Learner
from tolerant.retention.models import AR1, StreamModel
from tolerant.retention.possible_results import ShareEstimate
from tolerant.retention.ranked_rows import RankedRows
from tolerant.retention.ranking import Ranking, at_random, by_key, ranking_of
from tolerant.retention.scorer_tables import scorer_of
from tolerant.retention.store_replay import look_up
from tolerant.retention.store_tick import NO_WINDOW
from tolerant.retention.survival import Survival, for_caching
from tolerant.retention.value_arrays import Flags, Floats, Integers, whole_number, whole_numbers

_FEWEST = 1024


class Lookups:
    """A cache of at most `memory` values: those most likely to be referenced again while they are kept.

    survival: as for `cache`. limit: about how many values frequencies are kept of; None: of all. span: the least and
    the largest possible value, where known; only then a mean-reverting stream is modelled as one. Hits are a function
    of the values in their order, however they are divided into calls, and across `state` and `load`.

    >>> lookups = Lookups(2)
    >>> lookups.take([7, 8, 7, 9, 7]).tolist(), lookups.share().value
    ([False, False, True, False, True], 0.4)

    Attributes:
        asked: how many values have been referenced.
        hits: how many of them were held.
    """

    def __init__(
        self,
        memory: int,
        survival: Survival | None = None,
        *,
        limit: int | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        self.memory = whole_number("memory", memory, 0)
        self.asked, self.hits = 0, 0
        self._survival, self._limit, self._span = survival, limit, span
        self._learner, self._shadows = Learner(self.memory, limit), _Shadows(self.memory)
        self._ranked = RankedRows((self._ranking(), at_random()), self.memory + 1, self.memory + 1, None)

    @classmethod
    def bounded(cls, memory: int) -> Lookups:
        """Return a cache for an unbounded stream: its learned state is proportional to what it keeps."""
        return cls(memory, limit=max(4 * memory, _FEWEST))

    def __len__(self) -> int:
        return len(self._ranked)

    def take(self, values: Integers | list[int]) -> Flags:
        """Look up values in this order; return which of them were held at their time, bool[values]."""
        wanted = whole_numbers("values", values)
        hits, begin = [np.zeros(0, np.bool_)], 0
        while begin < len(wanted):
            if self.asked % PERIOD == 0:
                self._learner.frequencies.reserve(PERIOD)
            part = wanted[begin : begin + PERIOD - self.asked % PERIOD]
            hits.append(self._look_up(part))
            begin += len(part)
            if self.asked % PERIOD == 0:
                self._review()
        flags = np.concatenate(hits)
        self.hits += int(np.count_nonzero(flags))
        return flags

    def held(self) -> Integers:
        """Return the values that are kept, in order."""
        return np.sort(self._ranked.listed().value)

    def share(self) -> ShareEstimate:
        """Return the share of references that were held, and its standard error."""
        if not self.asked:
            return ShareEstimate(1.0, 0.0)
        share = self.hits / self.asked
        return ShareEstimate(share, math.sqrt(share * (1.0 - share) / self.asked))

    def state(self) -> State:
        """Return the whole state, for a snapshot."""
        shelves = (self._ranked, *self._shadows.stores)
        return State(
            memory=self.memory,
            limit=self._limit,
            asked=self.asked,
            hits=self.hits,
            leader=self._shadows.leader,
            scores=self._shadows.scores,
            recent=self._shadows.recent,
            learner=self._learner.state(),
            shelves=State({str(k): State(ranked.held._asdict()) for k, ranked in enumerate(shelves)}),
        )

    @classmethod
    def load(cls, state: State) -> Lookups:
        """Restore `state`; the result continues exactly like the original. Only without survival and span."""
        memory, limit, asked, hits, leader, scores, recent, learner, shelves = state.exactly(
            "memory", "limit", "asked", "hits", "leader", "scores", "recent", "learner", "shelves"
        )
        made = cls(memory, limit=limit)
        made.asked, made.hits, made._shadows.leader = asked, hits, leader
        made._learner.load(learner)
        made._ranked.rankings = (made._ranking(), at_random())
        stores = (made._ranked, *made._shadows.stores)
        for ranked, held in zip(stores, shelves.exactly(*map(str, range(len(stores)))), strict=True):
            ranked.held = HeldRows(*(array.copy() for array in held.exactly(*HeldRows._fields)))
        made._shadows.scores, made._shadows.recent = scores.copy(), recent.copy()
        return made

    def _ranking(self) -> Ranking:
        model = self._learner.model
        if model is None or (self._span is None and _reverts(model)):
            return by_key(None)
        survival = self._survival or for_caching(model, self.memory)
        return ranking_of(model, scorer_of(model, [survival], cached=True, span=self._span), None)

    def _keys(self, stream: int, wanted: Integers) -> Floats:
        return self._shadows.keys(self._learner, self._shadows.leader, wanted)

    def _look_up(self, values: Integers) -> Flags:
        ticks = self.asked + np.arange(len(values))
        weights, _ = self._learner.observe(ticks, values)
        weights = np.hstack([np.zeros((len(ticks), 1)), weights])
        given = weights[:, self._shadows.leader].copy() if self._ranked.rankings[0].keyed else np.zeros(0)
        hits = _looked_up(self._ranked, self.asked, values, given, self.memory)
        self._shadows.watch(self.asked, values, weights)
        self.asked += len(values)
        return hits

    def _review(self) -> None:
        changed = self._shadows.settle()
        changed |= self._learner.review()
        if self._learner.frequencies.needs_scaling():
            self._learner.frequencies.scale()
            self._shadows.rank_again(self._learner, self.asked - 1)
            changed = True
        if changed:
            rankings, room = (self._ranking(), at_random()), self.memory + 1
            self._ranked.rank(rankings, self._keys, self.asked - 1, room, room)


class _Shadows:
    """Shadow stores of values, one by recency and one per memory of the frequencies; the one with most recent hits
    leads.

    The best predictor does not hit most: a short memory predicts the few hot values better, a long one keeps more of
    the others. So hits choose the length; the likelihood chooses between frequencies and moving models.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.leader = 2  # initially: four times the memory
        self.stores = [RankedRows((by_key(None), at_random()), memory + 1, memory + 1, None) for _ in range(5)]
        self.scores = np.zeros(len(self.stores))
        self.recent = np.zeros(len(self.stores), np.int64)  # hits since the last `settle`
        self._keeps = (1.0 - 1.0 / max(1000, 8 * memory)) ** PERIOD

    def watch(self, start: int, values: Integers, weights: Floats) -> None:
        """Look up references in each store, with the scores that it gives them."""
        for k, ranked in enumerate(self.stores):
            hits = _looked_up(ranked, start, values, weights[:, k].copy(), self.memory)
            self.recent[k] += np.count_nonzero(hits)

    def settle(self) -> bool:
        """End a period; return whether the leader changed."""
        self.scores = self.scores * self._keeps + self.recent
        self.recent = np.zeros_like(self.recent)
        best = int(np.argmax(self.scores))
        if self.scores[best] <= 1.01 * self.scores[self.leader] + 1.0:
            return False
        self.leader = best
        return True

    def keys(self, learner: Learner, which: int, wanted: Integers) -> Floats:
        """Return the scores that a store gives values; by recency all are equal, and the least recent is discarded."""
        return np.zeros(len(wanted)) if which == 0 else learner.frequencies.weights(wanted, which - 1)

    def rank_again(self, learner: Learner, tick: int) -> None:
        """Rank again after weights were rescaled."""
        for k, ranked in enumerate(self.stores):
            room = self.memory + 1
            ranked.rank(ranked.rankings, lambda _, wanted, k=k: self.keys(learner, k, wanted), tick, room, room)  # type: ignore[misc]


def _reverts(model: StreamModel) -> bool:
    return isinstance(model, AR1) and model.phi != 1.0


def _looked_up(ranked: RankedRows, start: int, values: Integers, keys: Floats, memory: int) -> Flags:
    layers = np.zeros(len(values), np.int64)
    return look_up(start, values, keys, ranked.held, ranked.scorers[0], layers, memory, False, key_of(0), NO_WINDOW)
