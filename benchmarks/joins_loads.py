"""The loads of the joins' benchmarks (`docs/design/joins.md` §5, §7), and what a user would otherwise pick."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from side_by_side import Figure
from tolerant.joins import BandJoins, SelectJoins

DOMAIN = 10_000.0


class BandLoad(NamedTuple):
    """Bands, stored rows, probes."""

    low: np.ndarray
    high: np.ndarray
    b: np.ndarray
    events: np.ndarray


class SelectLoad(NamedTuple):
    """Queries' ranges, stored rows, probes."""

    ranges: tuple[np.ndarray, ...]  # a_low, a_high, c_low, c_high
    b: np.ndarray
    c: np.ndarray
    a_events: np.ndarray
    b_events: np.ndarray


def at_least(name: str, value: float, bar: float | None) -> Figure:
    """A figure that must reach its bar; None: it has none."""
    return Figure(name, value, "×", *(("", None) if bar is None else (f"≥ {bar:g}", value >= bar)))


def at_most(name: str, value: float, bar: float, unit: str = "×") -> Figure:
    """A figure that must not exceed its bar."""
    return Figure(name, value, unit, f"≤ {bar:g}", value <= bar)


def band_load(queries: int, rows: int, events: int, *, groups: int = 60, half: float = 0.001) -> BandLoad:
    """Bands around `groups` centres, rows uniform: `half` is the mean of each half-width."""
    rng = np.random.default_rng(0)
    centre = rng.uniform(-DOMAIN / 2, DOMAIN / 2, groups)[rng.integers(0, groups, queries)]
    reach = rng.exponential(half, (2, queries))
    b = rng.uniform(0, DOMAIN, rows)
    return BandLoad(centre - reach[0], centre + reach[1], b, rng.uniform(2000, 8000, events))


def select_load(queries: int, rows: int, events: int, *, groups: int = 30, half: float = 0.5) -> SelectLoad:
    """a ranges about 1,000 wide, c ranges around `groups` centres, 100 values of b."""
    rng = np.random.default_rng(0)
    middle, length = rng.uniform(0, DOMAIN, queries), np.abs(rng.normal(1000, 200, queries))
    centre = rng.uniform(0, DOMAIN, groups)[rng.integers(0, groups, queries)]
    reach = rng.exponential(half, (2, queries))
    ranges = (middle - length / 2, middle + length / 2, centre - reach[0], centre + reach[1])
    b, c = rng.integers(0, 100, rows).astype(float), rng.uniform(0, DOMAIN, rows)
    return SelectLoad(ranges, b, c, rng.uniform(0, DOMAIN, events), rng.integers(0, 100, events).astype(float))


def band_joins(load: BandLoad, alpha: float | None = None) -> BandJoins:
    joins = BandJoins(alpha)
    joins.add_many(np.arange(len(load.low)), load.low, load.high)
    joins.insert_many(np.arange(len(load.b)), load.b)
    return joins


def select_joins(load: SelectLoad, alpha: float | None = None) -> SelectJoins:
    joins = SelectJoins(alpha)
    joins.add_many(np.arange(len(load.ranges[0])), *load.ranges)
    joins.insert_many(np.arange(len(load.b)), load.b, load.c)
    return joins


def numpy_bands(load: BandLoad, events: np.ndarray) -> int:
    """How many pairs there are: two `searchsorted` for bands sorted by low; the sorting is not counted."""
    order = np.argsort(load.low)
    rows, low, high = np.sort(load.b), load.low[order], load.high[order]
    return _numpy_bands(rows, low, high, events)


def _numpy_bands(rows: np.ndarray, low: np.ndarray, high: np.ndarray, events: np.ndarray) -> int:
    total = 0
    for b in events:
        shifted = rows - b
        total += int((np.searchsorted(shifted, high, "right") - np.searchsorted(shifted, low)).sum())
    return total


def numpy_selections(ranges, b, c, a_events, b_events) -> int:
    """The same for select joins: a mask on a, then `searchsorted` in the slice; b and c are sorted before."""
    a_low, a_high, c_low, c_high = ranges
    total = 0
    for a, value in zip(a_events, b_events, strict=True):
        chosen = np.flatnonzero((a_low <= a) & (a <= a_high))
        part = c[np.searchsorted(b, value) : np.searchsorted(b, value, "right")]
        total += int((np.searchsorted(part, c_high[chosen], "right") - np.searchsorted(part, c_low[chosen])).sum())
    return total
