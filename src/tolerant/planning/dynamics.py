"""Dynamics: how much items move, and how similarly (`docs/design/planning.md` §2.3)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tolerant.planning.planning_arrays import Floats, Integers
from tolerant.traces import Trace

METHODS = ("lines", "jumps")
"""How `Dynamics.of(trace, seen=True)` corrects for the swings that a filter hid."""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """sumdiff float64[items]: Σ|Δ| of each item; cosine float64[items, items]: cosine similarity of their differences,
    not centred. `ticks`: number of differences, 0 where that is not known.

    >>> Dynamics.of(Trace(["x", "y"], [[0.0, 0.0], [1.0, -2.0], [3.0, -6.0]])).cosine[0, 1].round(6)
    np.float64(-1.0)
    """

    items: tuple[str, ...]
    sumdiff: Floats
    cosine: Floats
    ticks: int = 0
    places: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        items = tuple(str(item) for item in self.items)
        sumdiff = np.ascontiguousarray(self.sumdiff, np.float64)
        cosine = np.ascontiguousarray(self.cosine, np.float64)
        places = {item: place for place, item in enumerate(items)}
        if len(places) < len(items):
            raise ValueError("items must all be different")
        if sumdiff.shape != (len(items),) or cosine.shape != (len(items), len(items)):
            raise ValueError(
                f"sumdiff and cosine of {len(items)} items must have the shapes ({len(items)},) and "
                f"({len(items)}, {len(items)}), got {sumdiff.shape} and {cosine.shape}"
            )
        bad = ~(np.isfinite(sumdiff) & (sumdiff >= 0))
        if bad.any():
            worst = int(np.argmax(bad))
            raise ValueError(f"sumdiff must be finite and not negative, got {sumdiff[worst]} of item {items[worst]!r}")
        if not (np.abs(cosine) <= 1 + 1e-9).all() or not np.allclose(cosine, cosine.T, rtol=0, atol=1e-9):
            raise ValueError("cosine must be symmetric, with entries from −1 to 1")
        for name, value in (("items", items), ("sumdiff", sumdiff), ("cosine", cosine), ("places", places)):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, trace: Trace, *, seen: bool = False, method: str = "lines") -> Dynamics:
        """Return the dynamics of a recorded trace.

        seen: the rows are the copies of an aggregator, which move only when they leave its filter. Then each item's
        changes are joined by straight lines; that loses every swing inside the filter, so that two aggregators with
        different bounds disagree about one item. method "jumps" makes the sumdiff √(2/π · ticks · Σ jump²) instead,
        which is right for a random walk whatever the bound.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        if method == "jumps" and not seen:
            raise ValueError('method "jumps" is for copies seen at an aggregator: it needs seen=True')
        values = trace.filled()
        moves = differences(values)
        sums = moments(differences(_joined(values)) if seen else moves)
        sumdiff = sums.moved
        if method == "jumps":
            sumdiff = np.sqrt(2 / math.pi * len(moves) * (moves**2).sum(axis=0))
        return cls(trace.items, sumdiff, cosine_of(sums.products), len(moves))

    def at(self, items: Iterable[str]) -> Integers:
        """Return the indices of these items.

        Raises:
            ValueError: one has no dynamics.
        """
        try:
            return np.array([self.places[item] for item in items], np.int64)
        except KeyError as missing:
            raise ValueError(f"item {missing.args[0]!r} has no dynamics: it is not in the trace they are of") from None

    def uncorrelated(self) -> Dynamics:
        """Return the same sumdiffs, with every item uncorrelated with the others."""
        return Dynamics(self.items, self.sumdiff, np.eye(len(self.items)), self.ticks)


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over ticks: moved float64[items] of |Δ|, products float64[items, items] of ΔΔᵀ. Those of parts of a trace
    add up to those of the whole.
    """

    moved: Floats
    products: Floats


def differences(values: Floats) -> Floats:
    """Return the differences from each tick to the next, 0 where there is no earlier reading; values float64[ticks,
    items], NaN at most before an item's first reading.
    """
    moves = np.diff(values, axis=0)
    return np.nan_to_num(moves, copy=False, nan=0.0)


def moments(moves: Floats) -> Moments:
    """Return the sums of differences float64[ticks, items], which may be a part of a trace."""
    return Moments(np.abs(moves).sum(axis=0), moves.T @ moves)


def cosine_of(products: Floats) -> Floats:
    """Return the cosines from ΣΔΔᵀ by equation 9: 1 on the diagonal, 0 beside it for an item that never moved."""
    length = np.sqrt(np.diag(products))
    scale = np.where(length > 0, length, 1.0)
    cosine = np.clip(products / scale[:, None] / scale[None, :], -1.0, 1.0)
    cosine = (cosine + cosine.T) / 2
    np.fill_diagonal(cosine, 1.0)
    return cosine


def _joined(values: Floats) -> Floats:
    """Join the ticks at which an item changed by straight lines; constant after the last."""
    ticks = np.arange(len(values), dtype=np.float64)
    joined = values.copy()
    for item in range(values.shape[1]):
        column = values[:, item]
        turns = np.flatnonzero(np.concatenate([[True], column[1:] != column[:-1]]) & ~np.isnan(column))
        if turns.size:
            first = turns[0]
            joined[first:, item] = np.interp(ticks[first:], ticks[turns], column[turns])
    return joined
