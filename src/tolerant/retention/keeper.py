"""Joins two append-only tables with memory for some of their rows: times in, pairs out, and an estimate of misses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tolerant.kernels.snapshots import State
from tolerant.retention.possible_results import Possible, ShareEstimate
from tolerant.retention.store import Store
from tolerant.retention.value_arrays import Integers, whole_numbers

_PARTS = 100  # a tick has at most this share of the rows kept


class Keeper:
    """A `Store` for rows with times. Rows of one time are one tick; many rows of one time are several ticks, each of at
    most a hundredth of the rows kept, so that the rows of an open tick add little memory.

    Rows are numbered as they arrive. The rows kept are a function of the rows and their times, however they are divided
    into calls between times.

    >>> keeper = Keeper(10)
    >>> held, new = keeper.take(np.array([1, 1, 2]), np.array([0, 0, 1]), np.array([7, 8, 7]))
    >>> held.tolist(), new.tolist(), keeper.share(results=1).value
    ([0], [2], 1.0)

    Attributes:
        came: how many rows have arrived; the next one's number.
    """

    def __init__(self, memory: int, seed: int = 0) -> None:
        self._store, self._possible = Store(memory, seed=seed, same_tick=True), Possible()
        self.came = 0

    def __len__(self) -> int:
        return len(self._store)

    def take(self, at: Integers, streams: Integers, values: Integers) -> tuple[Integers, Integers]:
        """Add rows in the order of `at`: of r (0) and of s (1), with these values. Return the pairs that join, as
        (number of the held row, number of the new row), in the order of the new ones.
        """
        wanted = whole_numbers("values", values)
        rows = self.came + np.arange(len(wanted))
        known, new = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for k in (0, 1):
            self._possible.observe(k, wanted[streams == k])
        for tick in _ticks(at, streams, max(1, self._store.memory // _PARTS)):
            for k, part in enumerate(tick):
                if len(part):
                    pairs = self._store.offer(k, rows[part], wanted[part])
                    if len(pairs[0]):
                        known.append(pairs[0])
                        new.append(pairs[1])
            self._store.tick()
        self.came += len(wanted)
        return np.concatenate(known), np.concatenate(new)

    def held(self) -> Integers:
        """Return the numbers of the rows that are kept, in order."""
        return np.sort(self._store.held()["id"])

    def share(self, results: int) -> ShareEstimate:
        """Return the share of `results` in those that memory for every row would have given: an estimate, exact while
        no row has been discarded.
        """
        return ShareEstimate(1.0, 0.0) if len(self) == self.came else self._possible.share(results)

    def state(self) -> State:
        """Return the whole state, for a snapshot."""
        return State(store=self._store.state(), possible=self._possible.state(), came=self.came)

    @classmethod
    def load(cls, state: State, seed: int = 0) -> Keeper:
        """Restore `state`; the result continues exactly like the original."""
        store, possible, came = state.exactly("store", "possible", "came")
        made = cls(0, seed)
        made._store = Store.load(store, seed=seed, same_tick=True)
        made._possible.load(possible)
        made.came = came
        return made


def _ticks(at: Integers, streams: Integers, most: int) -> Iterator[tuple[Integers, Integers]]:
    """Return the rows of each tick, of r and of s: of one time, at most so many of each."""
    ends = np.append(np.flatnonzero(np.diff(at)) + 1, len(at)).tolist()
    start = 0
    for end in ends:
        if end == start:
            continue
        of_s = streams[start:end] == 1
        r, s = start + np.flatnonzero(~of_s), start + np.flatnonzero(of_s)
        for begin in range(0, max(len(r), len(s)), most):
            yield r[begin : begin + most], s[begin : begin + most]
        start = end
