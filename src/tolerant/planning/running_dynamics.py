"""Dynamics of a stream, with exponential decay (`docs/design/planning.md` §2.3)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.snapshots import Fields, Restorable, State
from tolerant.planning.dynamics import Dynamics, cosine_of, differences
from tolerant.planning.planning_arrays import Floats


class RunningDynamics(Restorable):
    """Exponentially decayed |Δ| and ΔΔᵀ of the items; a move `halflife` ticks ago counts half.

    >>> running = RunningDynamics(["x", "y"], halflife=10)
    >>> running.update([[0.0, 5.0], [1.0, 5.0], [3.0, np.nan]])
    >>> running.dynamics().sumdiff.round(2).tolist()
    [3.03, 0.0]
    """

    FIELDS = Fields("halflife", "ticks", "_last", "_moved", "_products", "_weight", items=(list, tuple))

    def __init__(self, items: Iterable[str], halflife: float = 1000) -> None:
        if not halflife > 0:
            raise ValueError(f"halflife must be a number of ticks above 0, got {halflife}")
        self.items = tuple(str(item) for item in items)
        if len(set(self.items)) < len(self.items):
            raise ValueError("items must all be different")
        self.halflife = float(halflife)
        self.ticks = 0
        n = len(self.items)
        self._keep = 0.5 ** (1.0 / self.halflife)
        self._last = np.full(n, np.nan)
        self._moved = np.zeros(n)
        self._products = np.zeros((n, n))
        self._weight = np.zeros(n)  # decayed number of ticks since the item joined

    def update(self, values: ArrayLike) -> None:
        """Add the values of one tick, float64[items], or several, float64[ticks, items]; NaN: no reading."""
        rows = np.atleast_2d(np.asarray(values, np.float64))
        if rows.shape[1:] != (len(self.items),):
            raise ValueError(f"values must have one entry for each of the {len(self.items)} items, got {rows.shape}")
        if np.isinf(rows).any():
            raise ValueError("values must be finite, or NaN for no reading")
        filled = np.vstack([self._last, rows])
        for tick in range(1, len(filled)):
            np.copyto(filled[tick], filled[tick - 1], where=np.isnan(filled[tick]))
        if self.ticks == 0 and np.isnan(self._last).all():
            filled = filled[1:]  # the first readings are no moves
        moves = differences(filled)
        self._last = filled[-1].copy()
        if len(moves):
            self._add_moves(moves)

    def dynamics(self) -> Dynamics:
        """Return what is known now; sumdiff is the decayed mean of |Δ| times the ticks, as of `Dynamics.of`."""
        mean = self._moved / np.where(self._weight > 0, self._weight, 1.0)
        return Dynamics(self.items, mean * self.ticks, cosine_of(self._products), self.ticks)

    def add(self, item: str) -> None:
        """Add an item; it counts from now on."""
        if item in self.items:
            raise ValueError(f"item {item!r} is there already")
        n = len(self.items)
        self.items = (*self.items, item)
        self._last = np.append(self._last, np.nan)
        self._moved = np.append(self._moved, 0.0)
        self._weight = np.append(self._weight, 0.0)
        products = np.zeros((n + 1, n + 1))
        products[:n, :n] = self._products
        self._products = products

    def remove(self, item: str) -> None:
        """Remove an item, and what is known of it."""
        if item not in self.items:
            raise ValueError(f"no item is called {item!r}")
        place = self.items.index(item)
        self.items = self.items[:place] + self.items[place + 1 :]
        self._last, self._moved, self._weight = (
            np.delete(array, place) for array in (self._last, self._moved, self._weight)
        )
        self._products = np.delete(np.delete(self._products, place, 0), place, 1)

    def load(self, state: State) -> None:
        """Restore what `state` returned."""
        super().load(state)
        self._keep = 0.5 ** (1.0 / self.halflife)

    def _add_moves(self, moves: Floats) -> None:
        count = len(moves)
        ages = self._keep ** np.arange(count - 1, -1, -1, dtype=np.float64)
        faded = self._keep**count
        self._moved = faded * self._moved + ages @ np.abs(moves)
        self._products = faded * self._products + (moves * ages[:, None]).T @ moves
        self._weight = faded * self._weight + ages.sum()
        self.ticks += count
