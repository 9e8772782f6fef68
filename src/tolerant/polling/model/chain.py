"""The Markov chain of an item's changes per tick, learned from its pulls (`docs/design/polling.md` §2.3, §2.4)."""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount, inlined_no_refcount
from tolerant.polling.poller_arrays import Floats


@compiled
def state_of(rate: float, spacing: float, half: int) -> int:
    """Return the index of the state for a change of `rate` per tick."""
    if spacing == 0.0:
        return half
    steps = math.floor(rate / spacing + 0.5)
    return int(min(max(steps, -float(half)), float(half))) + half


@compiled_no_refcount
def learn(counts: Floats, sums: Floats, before: int, state: int, ticks: int) -> None:
    """Count a pull after `ticks` ticks: one move from `before` to `state`, the rest of the time in `state`."""
    counts[before, state] += 1.0
    sums[before] += 1.0
    counts[state, state] += ticks - 1.0
    sums[state] += ticks - 1.0


@compiled_no_refcount
def forget(counts: Floats, sums: Floats, keep: float) -> None:
    """Scale every count by `keep`."""
    for x in range(sums.size):
        if sums[x] > 0.0:
            total = 0.0
            for y in range(sums.size):
                counts[x, y] *= keep
                total += counts[x, y]
            sums[x] = total


@compiled
def corrected_bias(bias: float, change: float, drift: float, ticks: int, smoothing: float) -> float:
    """Return dX after a pull (7); the drift is without dX, else only half of a constant bias would ever be learned."""
    return smoothing * (change - drift) / ticks + (1.0 - smoothing) * bias


@inlined_no_refcount
def next_state(counts: Floats, item: int, state: int, target: float) -> int:
    """Return the first state whose cumulative count exceeds `target`; counts of all items, [items, S, S]."""
    total = 0.0
    for y in range(counts.shape[2]):
        total += counts[item, state, y]
        if total > target:
            return y
    return state  # only by rounding


@compiled
def propagate(counts: Floats, sums: Floats, spread: Floats) -> float:
    """Advance a distribution over the states by one tick, in place; return its mean, in steps."""
    size = sums.size
    after = np.zeros(size)
    for x in range(size):
        if spread[x] == 0.0:
            continue
        if sums[x] == 0.0:
            after[x] += spread[x]
            continue
        part = spread[x] / sums[x]
        for y in range(size):
            after[y] += part * counts[x, y]
    mean = 0.0
    for y in range(size):
        spread[y] = after[y]
        mean += after[y] * (y - (size - 1) // 2)
    return mean


class Chain:
    """The chain of one item.

    Parameters: `spacing`, the change per tick of one step of the states; `states`, how many (odd); `smoothing`, how
    much of the newest residual goes into the correction.

    >>> chain = Chain(1.0, states=5)
    >>> for change, ticks in [(1, 1), (6, 3), (2, 2), (0, 4)]:
    ...     chain.observe(change, ticks)
    >>> round(chain.diffusion, 4), round(chain.expected(2), 4)
    (0.2304, 0.6875)
    """

    def __init__(self, spacing: float, states: int = 21, smoothing: float = 0.8) -> None:
        if not (math.isfinite(spacing) and spacing >= 0):
            raise ValueError(f"spacing must be finite and not negative, got {spacing}")
        check_states(states)
        check_smoothing(smoothing)
        self.spacing, self.smoothing = float(spacing), float(smoothing)
        self.counts: Floats = np.zeros((states, states))
        """How often each state (row) was followed by each (column); the middle one is no change. float64[S, S]."""
        self.diffusion = 0.0
        """dX: the change per tick that the chain does not explain."""
        self._sums = np.zeros(states)
        self._learned = states // 2

    @property
    def state(self) -> int:
        """The state learned last, −h … h."""
        return self._learned - len(self._sums) // 2

    def observe(self, change: float, ticks: int, drift: float = 0.0) -> None:
        """Learn from a pull: the value changed by `change` in `ticks` ticks, of which the chain predicted `drift`."""
        if not math.isfinite(change):
            raise ValueError(f"change must be finite, got {change}")
        if not (ticks >= 1 and ticks == int(ticks)):
            raise ValueError(f"ticks must be a whole number, at least 1, got {ticks}")
        state = state_of(float(change) / ticks, self.spacing, len(self._sums) // 2)
        learn(self.counts, self._sums, self._learned, state, int(ticks))
        self.diffusion = corrected_bias(self.diffusion, float(change), float(drift), int(ticks), self.smoothing)
        self._learned = state

    def probabilities(self) -> Floats:
        """Return the transition probabilities (equation 5), float64[S, S]; a state without counts stays."""
        sums = self._sums[:, None]
        return np.where(sums > 0, self.counts / np.where(sums > 0, sums, 1.0), np.eye(len(self._sums)))

    def expected(self, ticks: int) -> float:
        """Return the mean change over the next `ticks` ticks from the learned state, without the correction."""
        if not (ticks >= 0 and ticks == int(ticks)):
            raise ValueError(f"ticks must be a whole number, not negative, got {ticks}")
        spread = np.zeros(len(self._sums))
        spread[self._learned] = 1.0
        return self.spacing * sum(propagate(self.counts, self._sums, spread) for _ in range(int(ticks)))


def check_states(states: int) -> None:
    """Raise `ValueError` unless there is a middle state and one on each side."""
    if not (states >= 3 and states % 2 == 1):
        raise ValueError(f"states must be odd and at least 3, got {states}")


def check_smoothing(smoothing: float) -> None:
    """Raise `ValueError` unless it is from 0 to 1."""
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must be in [0, 1], got {smoothing}")
