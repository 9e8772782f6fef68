"""Joins two live streams: rows are offered as they arrive, joined with the held ones, and kept or discarded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.kernels.random import key_of
from tolerant.kernels.snapshots import Restorable, State
from tolerant.retention.frequencies import DecayedFrequencies
from tolerant.retention.held_rows import GROUPS, STREAM, HeldRows
from tolerant.retention.learner import PERIOD
from tolerant.retention.models import Stationary, StreamModel
from tolerant.retention.policies import check_models, check_policy, ranking
from tolerant.retention.ranked_rows import RankedRows, RowList
from tolerant.retention.ranking import Ranking
from tolerant.retention.scorer_tables import static_chances
from tolerant.retention.store_batches import advance_both, count_pairs, decide, insert_rows, pair_up
from tolerant.retention.stream_beliefs import Beliefs
from tolerant.retention.survival import Survival, check_survival, for_joining
from tolerant.retention.value_arrays import Floats, Integers, whole_number, whole_numbers

POLICIES = ("rand", "prob", "life", "heeb")
"""The policies of a store."""

STREAMS = {"r": 0, "s": 1, 0: 0, 1: 1}

_FEWEST = 1024

ROW = np.dtype([("stream", "i8"), ("id", "i8"), ("value", "i8"), ("arrival", "i8")])
"""A held row: stream 0 is r, 1 is s."""


class Store:
    """Holds at most `memory` rows of two streams, those with the most expected results.

    Rows are offered tick by tick, any number of either stream; `tick` ends a tick. They are joined with rows of
    earlier ticks, and with earlier rows of the same tick if `same_tick` is set (such pairs need no memory; `join` does
    not count them). Rows are discarded when a tick ends, or when `held` is called: until then the tick's rows are held
    in addition.

    policy, models, survival, window, seed: as for `join`; a model describes the rows of its stream at each tick as a
    whole (a stream with more rows per tick matches more often). Deterministic: two stores that were offered the same
    hold the same, also across `state` and `load`.

    >>> store = Store(2, "prob")
    >>> store.offer("r", [1], [7]), store.tick()
    ((array([], dtype=int64), array([], dtype=int64)), None)
    >>> store.offer("s", [2], [7])
    (array([1]), array([2]))

    Attributes:
        memory: how many rows may be held.
        now: the present tick.
    """

    def __init__(
        self,
        memory: int,
        policy: str = "heeb",
        models: tuple[StreamModel, StreamModel] | None = None,
        window: int | None = None,
        survival: Survival | None = None,
        seed: int = 0,
        *,
        same_tick: bool = False,
    ) -> None:
        self.memory = whole_number("memory", memory, 0)
        check_policy(policy, POLICIES)
        check_models(models)
        self.window = None if window is None else whole_number("window", window, 0)
        if policy == "life" and self.window is None:
            raise ValueError("window must be given for policy 'life': it ranks by remaining life, got None")
        if survival is not None:
            check_survival(survival, joining=True)
        self.now = 0
        self._policy, self._models, self._survival, self._key = policy, models, survival, key_of(seed)
        self._same_tick = same_tick
        self._offered: tuple[list[Integers], list[Integers]] = ([], [])
        self._totals, self._lasts, self._scales = np.zeros(2, np.int64), np.zeros(2, np.int64), np.ones(2)
        limit = max(4 * self.memory, _FEWEST)  # values with frequencies: a live store must not grow
        learns = policy == "heeb" and models is None
        self._beliefs = Beliefs(self.memory, survival, self.window, limit) if learns else None
        self._counts = tuple(DecayedFrequencies([np.inf]) for _ in (0, 1)) if self._counting else None
        self._ranked = RankedRows(self._rankings(), 16, 16, self.window, ids=True)

    def offer(self, stream: str | int, ids: ArrayLike, values: ArrayLike) -> tuple[Integers, Integers]:
        """Add rows of a stream ("r" or "s"); return the pairs that join, as (ids of held rows, ids of new rows)."""
        k = _stream(stream)
        named, wanted = whole_numbers("ids", ids), whole_numbers("values", values)
        if len(named) != len(wanted):
            raise ValueError(f"ids and values must be as many, got {len(named)} and {len(wanted)}")
        born_before = self.now + int(self._same_tick)
        pairs = count_pairs(self._ranked.held, 1 - k, wanted, born_before)
        out = (np.empty(pairs, np.int64), np.empty(pairs, np.int64))
        pair_up(self._ranked.held, 1 - k, wanted, named, born_before, *out)
        if len(wanted):
            self._note(k, wanted)
            if self.window != 0:
                self._ranked.make_room(k, len(wanted), self._keys, self.now)
                keys = self._keys(k, wanted) if self._ranked.rankings[k].keyed else np.zeros(len(wanted))
                insert_rows(self._ranked.held, k, wanted, keys, named, self.now, self._ranked.limit)
        return out

    def tick(self) -> None:
        """End the present tick: discard what does not fit, and start the next."""
        self._decide()
        if self._beliefs is not None:
            self._learn(self._beliefs)
        for k in (0, 1):
            self._offered[k].clear()
        self.now += 1
        advance_both(self._ranked.held, self._ranked.scorers, self.now, self._ranked.limit)

    def held(self) -> NDArray[Any]:
        """Return the rows held, by arrival: an array with the fields stream, id, value, arrival.

        Discards rows if some arrived in this tick; call it when all have.
        """
        self._decide_now()
        listed = self._ranked.listed()
        out = np.empty(len(listed.value), ROW)
        out["stream"], out["id"], out["value"], out["arrival"] = listed.stream, listed.id, listed.value, listed.arrival
        return out

    def resize(self, memory: int) -> None:
        """Hold at most this many rows from now on."""
        self.memory = whole_number("memory", memory, 0)
        if len(self) > self.memory:
            self._decide()

    def __len__(self) -> int:
        return len(self._ranked)

    @property
    def nbytes(self) -> int:
        """Return the bytes of the held rows with their ids, without payload and learned state."""
        return self._ranked.nbytes

    def state(self) -> State:
        """Return the whole state, for a snapshot; discards as `held` does."""
        self._decide_now()
        learners = () if self._beliefs is None else self._beliefs.learners
        return State(
            memory=self.memory,
            now=self.now,
            rows=State(self._ranked.listed()._asdict()),
            # Which row a random number selects depends on the layout.
            layout=State(self._ranked.held._asdict()) if self._policy == "rand" else None,
            totals=self._totals,
            lasts=self._lasts,
            scales=self._scales,
            offered=_numbered(np.concatenate([np.zeros(0, np.int64), *parts]) for parts in self._offered),
            counts=_numbered(counts.state() for counts in self._counts or ()),
            learners=_numbered(learner.state() for learner in learners),
        )

    @classmethod
    def load(
        cls,
        state: State,
        policy: str = "heeb",
        models: tuple[StreamModel, StreamModel] | None = None,
        window: int | None = None,
        survival: Survival | None = None,
        seed: int = 0,
        *,
        same_tick: bool = False,
    ) -> Store:
        """Restore `state` with the same constructor arguments; the store continues exactly like the original."""
        memory, now, listed, layout, totals, lasts, scales, offered, counts, learners = state.exactly(
            "memory", "now", "rows", "layout", "totals", "lasts", "scales", "offered", "counts", "learners"
        )
        store = cls(memory, policy, models, window, survival, seed, same_tick=same_tick)
        store.now = now
        store._totals, store._lasts, store._scales = totals.copy(), lasts.copy(), scales.copy()
        for parts, ids in zip(store._offered, offered.exactly("0", "1"), strict=True):
            if len(ids):
                parts.append(ids)
        _load_each(store._counts or (), counts)
        _load_each(() if store._beliefs is None else store._beliefs.learners, learners)
        if layout is not None:
            store._ranked.held = HeldRows(*(array.copy() for array in layout.exactly(*HeldRows._fields)))
            return store
        rows = RowList(*listed.exactly(*RowList._fields))
        slots = max((int((rows.stream == k).sum()) for k in (0, 1)), default=0)
        store._ranked = RankedRows(store._rankings(), max(slots, 16), max(len(rows.value), 16), store.window, ids=True)
        store._ranked.put(rows, store._keys, store.now)
        return store

    @property
    def _counting(self) -> bool:
        if self._policy not in ("prob", "life"):
            return False
        return self._models is None or not all(isinstance(model, Stationary) for model in self._models)

    def _rankings(self) -> tuple[Ranking, Ranking]:
        if self._beliefs is not None:
            return self._beliefs.rankings()
        if self._models is None:
            shared = ranking(self._policy, None, None, self.window)
            return shared, shared
        survival = self._survival or for_joining(self._models, self.memory)
        r, s = (ranking(self._policy, self._models[1 - k], survival, self.window) for k in (0, 1))
        return r, s

    def _rank_again(self) -> None:
        wide = self._ranked.held.wide
        slots = max(int(wide[STREAM * k + GROUPS]) for k in (0, 1))
        self._ranked.rank(self._rankings(), self._keys, self.now, slots + slots // 64 + 2, len(self._ranked) + 2)

    def _keys(self, k: int, values: Integers) -> Floats:
        """Return the scores of values as rows of stream k, where rows carry scores."""
        if self._beliefs is not None:
            return self._beliefs.keys(k, values)
        partner = None if self._models is None else self._models[1 - k]
        if partner is not None and (isinstance(partner, Stationary) or self._policy == "heeb"):
            return static_chances(partner, values) * self._ranked.rankings[k].factor
        assert self._counts is not None
        return self._counts[1 - k].weights(values, 0)

    def _note(self, k: int, values: Integers) -> None:
        self._totals[k] += len(values)
        self._lasts[k] = values[-1]
        self._offered[k].append(values)
        if self._counts is not None:
            self._counts[k].observe(values)
        if self._beliefs is not None:
            self._beliefs.learners[k].observe(np.full(len(values), self.now), values)

    def _learn(self, beliefs: Beliefs) -> None:
        if (self.now + 1) % PERIOD == 0:
            if beliefs.review():
                self._rank_again()
            self._scales = beliefs.scales(self._ranked.rankings)

    def _decide_now(self) -> None:
        # Before the first row of a tick nothing is discarded, and rows whose windows close now may still join.
        if any(self._offered):
            self._decide()

    def _decide(self) -> None:
        touched = self._touched()
        keys = [self._keys(k, touched) if len(touched) else np.zeros(0) for k in (0, 1)]
        rates = self._scales * self._totals[::-1] / (self.now + 1.0)
        decide(
            self._ranked.held, self._ranked.scorers, touched, keys[0], keys[1], rates, self.memory,
            self._policy == "rand", self._key, self.now, (int(self._lasts[1]), int(self._lasts[0])), self._ranked.limit,
        )  # fmt: skip

    def _touched(self) -> Integers:
        """Return values whose scores this tick has changed."""
        if self._counts is None and self._beliefs is None:
            return np.zeros(0, np.int64)
        if not any(each.keyed for each in self._ranked.rankings):
            return np.zeros(0, np.int64)
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._offered[0], *self._offered[1]]))


def _stream(stream: str | int) -> int:
    if stream not in STREAMS:
        raise ValueError(f"stream must be 'r' or 's' (or 0 or 1), got {stream!r}")
    return STREAMS[stream]


def _numbered(values: Iterable[Any]) -> State:
    return State({str(k): value for k, value in enumerate(values)})


def _load_each(parts: Sequence[Restorable], states: State) -> None:
    for part, state in zip(parts, states.exactly(*map(str, range(len(parts)))), strict=True):
        part.load(state)
