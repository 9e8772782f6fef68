"""Keeps decayed frequencies of values, for several lengths of memory at once.

Weights are stored in units that grow by e^(1/τ) per row instead of decaying all of them: their order only changes where
a value occurs. A value's weight over the total is its probability; unseen values together have a share ε, which is
learned too (how much of what occurred was better explained by "something else").
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import mixed
from tolerant.kernels.snapshots import Fields, Restorable, State
from tolerant.retention.value_arrays import Floats, Integers, i64

_SMALLEST = 64
_LARGEST_UNIT = 1e100
_FORGOTTEN = 1e-9


class DecayedFrequencies(Restorable):
    """Weights of values for each of `memories` (rows; infinite: nothing is forgotten).

    `limit`: about how many values are kept, the heaviest; up to half as many more may be kept for a while.

    >>> counts = DecayedFrequencies([np.inf])
    >>> counts.observe(np.array([7, 8, 7]))[0].tolist()
    [[1.0], [1.0], [2.0]]
    >>> counts.weights(np.array([7, 9]), 0).tolist()
    [2.0, 0.0]
    """

    FIELDS = Fields("memories", "limit", "_keys", "_table", "_units", "_reserved")

    def __init__(self, memories: Sequence[float], limit: int | None = None) -> None:
        self.memories = np.array(memories, np.float64)
        self.limit = limit
        n = len(self.memories)
        self._growth = np.exp(1.0 / self.memories)
        self._keys = np.zeros(_SMALLEST, np.int64)
        self._table = np.zeros((_SMALLEST, n))
        # Unit, total weight and share of unseen values of each memory; then the number of values.
        self._units = np.concatenate([np.ones(n), np.zeros(n), np.full(n, 0.5), np.zeros(1)])
        self._reserved = 0

    def observe(
        self, values: Integers, asked: Integers | None = None, likelihood: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Count values; return the weight of each at its time, and of the value `asked` for at each time.

        float64[values, memories]. likelihood: to it is added, value by value, ln of the probability that each memory
        gave beforehand, float64[memories].
        """
        self._make_room(len(values))
        n = len(self.memories)
        touched, fresh = np.zeros((len(values), n)), np.zeros((0 if asked is None else len(values), n))
        likelihood = np.zeros(n) if likelihood is None else likelihood
        _observe(
            self._keys, self._table, self._units, self._growth, values, values[:0] if asked is None else asked, touched,
            fresh, likelihood,
        )  # fmt: skip
        return touched, fresh

    def reserve(self, more: int) -> None:
        """Make room for so many values and apply the limit now, so that the next so many rows do not, however they are
        divided into calls.
        """
        self._reserved = 0
        self._make_room(more)
        self._reserved = more

    def weights(self, values: Integers, which: int) -> Floats:
        """Return the weights of values now, in the present unit (comparable with each other and with `observe`'s)."""
        return _weights(self._keys, self._table, np.ascontiguousarray(values, np.int64), which)

    def total(self, which: int) -> float:
        """Return the sum of all weights, in the same unit."""
        return float(self._units[len(self.memories) + which])

    def needs_scaling(self) -> bool:
        """Return whether units have grown so much that weights must be rescaled; weights kept by callers are then
        outdated.
        """
        return bool((self._units[: len(self.memories)] > _LARGEST_UNIT).any())

    def scale(self) -> None:
        """Rescale units to 1; forget values without weight."""
        n = len(self.memories)
        units = self._units[:n].copy()
        self._table /= units
        self._units[n : 2 * n] /= units
        self._units[:n] = 1.0
        self._rehash(len(self._keys))

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        super().load(state)
        self._growth = np.exp(1.0 / self.memories)

    def _make_room(self, more: int) -> None:
        if more <= self._reserved:
            self._reserved -= more
            return
        count = int(self._units[-1])
        if 2 * (count + more) > len(self._keys) or (self.limit is not None and 2 * count > 3 * self.limit):
            self._rehash(more)

    def _rehash(self, more: int) -> None:
        n = len(self.memories)
        used = np.flatnonzero((self._table > _FORGOTTEN * self._units[:n]).any(axis=1))
        if self.limit is not None and len(used) > self.limit:
            # The heaviest values of every memory stay.
            shares = (self._table[used] / np.maximum(self._units[n : 2 * n], 1e-300)).max(axis=1)
            used = used[np.sort(np.argsort(-shares, kind="stable")[: self.limit])]
        self._put(self._keys[used], self._table[used], more)

    def _put(self, keys: Integers, table: Floats, more: int) -> None:
        size = 1 << max(6, (2 * (len(keys) + more) - 1).bit_length())
        self._keys, self._table = np.zeros(size, np.int64), np.zeros((size, len(self.memories)))
        self._units[-1] = len(keys)
        _fill(self._keys, self._table, keys, table)


@compiled_no_refcount
def _home(keys: Integers, table: Floats, value: int) -> int:
    """Return the slot of a value, or where it would be inserted."""
    mask = keys.size - 1
    place = i64(mixed(np.uint64(value))) & mask
    while keys[place] != value and _is_used(table, place):
        place = (place + 1) & mask
    return place


@compiled_no_refcount
def _is_used(table: Floats, place: int) -> bool:
    used = False
    for j in range(table.shape[1]):
        used = used or table[place, j] != 0.0
    return used


@compiled_no_refcount
def _fill(keys: Integers, table: Floats, new_keys: Integers, new_table: Floats) -> None:
    for k in range(new_keys.size):
        place = _home(keys, table, new_keys[k])
        keys[place] = new_keys[k]
        for j in range(table.shape[1]):
            table[place, j] = new_table[k, j]


@compiled
def _weights(keys: Integers, table: Floats, values: Integers, which: int) -> Floats:
    out = np.zeros(values.size)
    for k in range(values.size):
        place = _home(keys, table, values[k])
        if keys[place] == values[k]:
            out[k] = table[place, which]
    return out


@compiled_no_refcount
def _observe(  # noqa: PLR0913
    keys: Integers, table: Floats, units: Floats, growth: Floats, values: Integers, asked: Integers, touched: Floats,
    fresh: Floats, likelihood: Floats,
) -> None:  # fmt: skip
    n = growth.size
    for t in range(values.size):
        place = _home(keys, table, values[t])
        is_new = not _is_used(table, place)
        other = 1.0 / (units[3 * n] + 2.0)
        for j in range(n):
            weight = 0.0 if is_new else table[place, j]
            share = units[2 * n + j]
            known = weight / units[n + j] if units[n + j] > 0.0 else 0.0
            chance = (1.0 - share) * known + share * other
            likelihood[j] += np.log(chance)
            units[2 * n + j] += 0.01 * (share * other / chance - share)
            units[j] *= growth[j]
            table[place, j] = weight + units[j]
            units[n + j] += units[j]
        if is_new:
            keys[place] = values[t]
            units[3 * n] += 1.0
        home = _home(keys, table, asked[t]) if fresh.size else place
        for j in range(n):
            touched[t, j] = table[place, j]
            if fresh.size and keys[home] == asked[t]:
                fresh[t, j] = table[home, j]
