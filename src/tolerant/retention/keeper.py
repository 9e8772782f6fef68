"""Joins two tables that only grow, with room for some of their rows: moments in, pairs out, and what was missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.retention.arrays import Integers, whole_numbers
from tolerant.retention.possible import Estimate, Possible
from tolerant.retention.store import Store, named

_PARTS = 100  # a tick has at most this part of the rows that are kept


class Keeper:
    """A `Store` for rows with times. Rows of one moment are one tick; many rows of one moment are several, each of at
    most a hundredth of what is kept, so that what is held besides never counts for much.

    Rows are numbered as they come. What is kept is a function of the rows and their moments, however they are cut into
    calls between moments.

    >>> keeper = Keeper(10)
    >>> held, new = keeper.take(np.array([1, 1, 2]), np.array([0, 0, 1]), np.array([7, 8, 7]))
    >>> held.tolist(), new.tolist(), keeper.share(found=1).value
    ([0], [2], 1.0)

    Attributes:
        came: how many rows there have been; the next one's number.
    """

    def __init__(self, memory: int, seed: int = 0) -> None:
        self._store, self._possible = Store(memory, seed=seed, same_tick=True), Possible()
        self.came = 0

    def __len__(self) -> int:
        return len(self._store)

    def take(self, at: Integers, streams: Integers, values: Integers) -> tuple[Integers, Integers]:
        """Rows come, in the order of `at`: of r (0) and of s (1), with these values. The pairs that join, as (number of
        the row that was held, number of the new row), by the moments of the new ones.
        """
        wanted = whole_numbers("values", values)
        rows = self.came + np.arange(len(wanted))
        held, new = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for k in (0, 1):
            self._possible.observe(k, wanted[streams == k])
        for tick in _ticks(at, streams, max(1, self._store.memory // _PARTS)):
            for k, part in enumerate(tick):
                if len(part):
                    pairs = self._store.offer(k, rows[part], wanted[part])
                    if len(pairs[0]):
                        held.append(pairs[0])
                        new.append(pairs[1])
            self._store.tick()
        self.came += len(wanted)
        return np.concatenate(held), np.concatenate(new)

    def held(self) -> Integers:
        """The numbers of the rows that are kept, in order."""
        return np.sort(self._store.held()["id"])

    def share(self, found: int) -> Estimate:
        """What part of the results that room for every row would have given `found` are: an estimate, exact while
        nothing has been forgotten.
        """
        return Estimate(1.0, 0.0) if len(self) == self.came else self._possible.share(found)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Everything as arrays and plain values, for `tolerant.kernels.snapshots.pack`."""
        arrays, values = self._store.state()
        found = {f"store.{name}": array for name, array in arrays.items()}
        return {**found, **self._possible.state()}, {"store": values, "came": self.came}

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]], values: Mapping[str, Any], seed: int = 0) -> Keeper:
        """What `state` was taken of; it goes on exactly as that one."""
        made = cls(values["store"]["memory"], seed)
        made._store = Store.load(named(arrays, "store."), values["store"], seed=seed, same_tick=True)
        made._possible = Possible.load(arrays)
        made.came = values["came"]
        return made


def _ticks(at: Integers, streams: Integers, most: int) -> Iterator[tuple[Integers, Integers]]:
    """The rows of each tick, those of r and those of s: of one moment, at most so many of each."""
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
