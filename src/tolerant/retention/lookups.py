"""A cache without a model, which is learned as references come (`specs/6-retention.md` §5): `cache`, live."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.random import key_of
from tolerant.retention.arrays import Flags, Floats, Integers, whole_number, whole_numbers
from tolerant.retention.engine import NO_WINDOW
from tolerant.retention.groups import Held
from tolerant.retention.learner import PERIOD, Learner
from tolerant.retention.models import AR1, Model
from tolerant.retention.possible import Estimate
from tolerant.retention.replay import look_up
from tolerant.retention.scorers import scorer_of
from tolerant.retention.shelf import Shelf
from tolerant.retention.sides import Ranking, at_random, by_key, ranking_of
from tolerant.retention.store import named
from tolerant.retention.survival import Survival, for_caching

_FEWEST = 1024
_ARRAYS = Held._fields


class Lookups:
    """Which of the values that are asked for, one after the other, to keep: at most `memory`, those most likely to be
    asked for again while they are kept.

    survival: as for `cache`. limit: about how many values frequencies are kept of; None: of all that came. span: the
    least and the largest value that can come, where that is known; a stream that reverts to its mean is only then
    taken for one. What hits follows from the values in their order, however they are cut into calls, and also if it was
    put away with `state` and taken out with `load` in between.

    >>> lookups = Lookups(2)
    >>> lookups.take([7, 8, 7, 9, 7]).tolist(), lookups.share().value
    ([False, False, True, False, True], 0.4)

    Attributes:
        asked: how many values have been asked for.
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
        self._shelf = Shelf((self._ranking(), at_random()), self.memory + 1, self.memory + 1, None)

    @classmethod
    def bounded(cls, memory: int) -> Lookups:
        """One for an endless stream: what it learns takes memory in proportion to what it keeps."""
        return cls(memory, limit=max(4 * memory, _FEWEST))

    def __len__(self) -> int:
        return len(self._shelf)

    def take(self, values: Integers | list[int]) -> Flags:
        """Values are asked for, in this order: which of them were held at their time, bool[values]."""
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
        found = np.concatenate(hits)
        self.hits += int(np.count_nonzero(found))
        return found

    def held(self) -> Integers:
        """The values that are kept, in order."""
        return np.sort(self._shelf.listed().value)

    def share(self) -> Estimate:
        """What part of the values asked for were held; and how far from it, in standard errors of so many draws, the
        chance of a hit may be.
        """
        if not self.asked:
            return Estimate(1.0, 0.0)
        share = self.hits / self.asked
        return Estimate(share, math.sqrt(share * (1.0 - share) / self.asked))

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        learned, learner = self._learner.state()
        arrays = {f"learner.{name}": array for name, array in learned.items()}
        for k, shelf in enumerate((self._shelf, *self._shadows.shelves)):
            arrays.update({f"shelf.{k}.{name}": getattr(shelf.held, name) for name in _ARRAYS})
        arrays["scores"], arrays["recent"] = self._shadows.scores, self._shadows.recent
        counts = [self.memory, self._limit, self.asked, self.hits, self._shadows.leader]
        return arrays, {"learner": learner, "counts": counts}

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any]) -> Lookups:
        """What `state` was taken of; it goes on exactly as that one. For those without survival and span."""
        memory, limit, asked, hits, leader = values["counts"]
        made = cls(memory, limit=limit)
        made.asked, made.hits, made._shadows.leader = asked, hits, leader
        made._learner = Learner.load(named(arrays, "learner."), values["learner"])
        made._shelf.rankings = (made._ranking(), at_random())
        for k, shelf in enumerate((made._shelf, *made._shadows.shelves)):
            shelf.held = Held(*(arrays[f"shelf.{k}.{name}"].copy() for name in _ARRAYS))
        made._shadows.scores, made._shadows.recent = arrays["scores"].copy(), arrays["recent"].copy()
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
        given = weights[:, self._shadows.leader].copy() if self._shelf.rankings[0].keyed else np.zeros(0)
        hits = _looked_up(self._shelf, self.asked, values, given, self.memory)
        self._shadows.watch(self.asked, values, weights)
        self.asked += len(values)
        return hits

    def _review(self) -> None:
        changed = self._shadows.settle()
        changed |= self._learner.review()
        if self._learner.frequencies.needs_scaling():
            self._learner.frequencies.scale()
            self._shadows.rank_anew(self._learner, self.asked - 1)
            changed = True
        if changed:
            rankings, room = (self._ranking(), at_random()), self.memory + 1
            self._shelf.house(rankings, self._keys, self.asked - 1, room, room)


class _Shadows:
    """Stores of values alone, one by recency and one for each memory of the frequencies: whose hits of late are most.

    What predicts best is not what hits most: a short memory foretells the few hot values better, a long one keeps more
    of the many others. So the length is chosen by hits; the likelihood chooses between frequencies and what moves.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.leader = 2  # until something is known: four times the memory
        self.shelves = [Shelf((by_key(None), at_random()), memory + 1, memory + 1, None) for _ in range(5)]
        self.scores = np.zeros(len(self.shelves))
        self.recent = np.zeros(len(self.shelves), np.int64)  # hits since they were last counted in
        self._keeps = (1.0 - 1.0 / max(1000, 8 * memory)) ** PERIOD

    def watch(self, start: int, values: Integers, weights: Floats) -> None:
        """Take references in, with the scores that each store gives them."""
        for k, shelf in enumerate(self.shelves):
            hits = _looked_up(shelf, start, values, weights[:, k].copy(), self.memory)
            self.recent[k] += np.count_nonzero(hits)

    def settle(self) -> bool:
        """A period is over: whether another one leads."""
        self.scores = self.scores * self._keeps + self.recent
        self.recent = np.zeros_like(self.recent)
        best = int(np.argmax(self.scores))
        if self.scores[best] <= 1.01 * self.scores[self.leader] + 1.0:
            return False
        self.leader = best
        return True

    def keys(self, learner: Learner, which: int, wanted: Integers) -> Floats:
        """The scores that a store gives values; by recency all are the same, and the least recent goes."""
        return np.zeros(len(wanted)) if which == 0 else learner.frequencies.weights(wanted, which - 1)

    def rank_anew(self, learner: Learner, tick: int) -> None:
        """Weights have been brought down."""
        for k, shelf in enumerate(self.shelves):
            room = self.memory + 1
            shelf.house(shelf.rankings, lambda _, wanted, k=k: self.keys(learner, k, wanted), tick, room, room)  # type: ignore[misc]


def _reverts(model: Model) -> bool:
    return isinstance(model, AR1) and model.phi != 1.0


def _looked_up(shelf: Shelf, start: int, values: Integers, keys: Floats, memory: int) -> Flags:
    layers = np.zeros(len(values), np.int64)
    return look_up(start, values, keys, shelf.held, shelf.scorers[0], layers, memory, False, key_of(0), NO_WINDOW)
