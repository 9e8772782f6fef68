"""What each method would take for a row: cost models, their coefficients, how they are fitted (specs/5-joins.md §2.8).

Estimates are functions of the state and the row alone, never of a clock, so that a replay decides alike. What is
decided changes the time, never the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from tolerant.joins.arrays import Floats


class Coefficient(NamedTuple):
    """A fitted factor, microseconds a unit of its component, with its 95% interval and the fit's R²."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    r_squared: float = float("nan")


@dataclass(frozen=True)
class Costs:
    """The coefficient of each component; the names are those of `Sample.component`."""

    join_first_lookup: Coefficient
    join_first_stab: Coefficient
    scan_lookup: Coefficient
    scan_test: Coefficient
    select_first_lookup: Coefficient
    select_first_index: Coefficient
    select_first_hit: Coefficient
    hotspot_lookup: Coefficient
    hotspot_group: Coefficient
    hotspot_index: Coefficient
    hotspot_hit: Coefficient
    band_ssi: Coefficient
    band_queries: Coefficient
    band_data: Coefficient
    band_merge: Coefficient

    def array(self) -> Floats:
        """The values, in the order of the fields, as compiled code takes them."""
        return np.array([getattr(self, field.name).value for field in fields(self)])

    @classmethod
    def of(cls, values: Iterable[float]) -> Costs:
        """Costs of given values, without intervals."""
        return cls(*(Coefficient(float(value)) for value in values))


NAMES = tuple(field.name for field in fields(Costs))
DEFAULT = Costs.of(
    (
        *(0.0351, 0.00118),  # join-first
        *(0.0351, 0.00735),  # scan
        *(0.0351, 0.0626, 0.00963),  # select-first
        *(0.0351, 0.0025, 0.0626, 0.0105),  # hotspot
        *(0.0124, 0.00297, 0.00522, 0.0022),  # band joins
    )
)
"""From a run of `calibrate`."""


@dataclass(frozen=True)
class Load:
    """What the cost of a select join's probe depends on."""

    rows: int
    queries: int
    partners: float
    """k_j: stored rows with the probe's b."""
    selecting: float
    """k_s: queries that select the probe's a."""
    hot_sizes: tuple[int, ...] = ()
    scattered: int = 0
    scattered_selecting: float = 0.0
    """k_s among the scattered queries."""
    group_sizes: tuple[int, ...] = ()
    """Sizes of all groups, for "ssi"."""


def estimate(load: Load, costs: Costs = DEFAULT, *, literal: bool = False) -> dict[str, float]:
    """Estimated microseconds of each method, without the output.

    `literal` takes the seed's ln k_j instead of ln(1 + k_j): at k_j = 1 it makes scanning everything look free.
    """
    search = np.log(load.partners) if literal else np.log1p(load.partners)
    row_search = np.log(max(load.rows, 1))
    found = {name: getattr(costs, name).value for name in NAMES}

    def grouped(sizes: tuple[int, ...], cold: int, hits: float) -> float:
        return float(
            found["hotspot_lookup"] * row_search
            + found["hotspot_group"] * np.sqrt(np.array(sizes, np.float64)).sum()
            + found["hotspot_index"] * np.log(max(cold, 1))
            + found["hotspot_hit"] * hits * search
        )

    return {
        "ssi": grouped(load.group_sizes, 0, 0.0),
        "select-first": float(
            found["select_first_lookup"] * row_search
            + found["select_first_index"] * np.log(max(load.queries, 1))
            + found["select_first_hit"] * load.selecting * search
        ),
        "join-first": float(
            found["join_first_lookup"] * row_search + found["join_first_stab"] * load.partners * np.sqrt(load.queries)
        ),
        "scan": float(found["scan_lookup"] * row_search + found["scan_test"] * load.queries * search),
        "hotspot": grouped(load.hot_sizes, load.scattered, load.scattered_selecting),
    }


def choose(load: Load, costs: Costs = DEFAULT) -> str:
    """The method of least estimated cost."""
    found = estimate(load, costs)
    return min(found, key=lambda method: found[method])


class Sample(NamedTuple):
    """One measurement of a component: so many units (for instance k_j·√n) took so long."""

    component: str
    units: float
    microseconds: float


def fit_costs(samples: Iterable[Sample], start: Costs = DEFAULT) -> Costs:
    """Least squares through the origin, component by component; components without samples stay as in `start`.

    Raises:
        ValueError: an unknown component, or one with fewer than two samples.
    """
    measured: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.component not in NAMES:
            raise ValueError(f"samples must be of {', '.join(NAMES)}; got {sample.component!r}")
        measured.setdefault(sample.component, []).append(sample)
    return replace(start, **{name: _fitted(name, found) for name, found in measured.items()})


def _fitted(name: str, samples: list[Sample]) -> Coefficient:
    if len(samples) < 2:
        raise ValueError(f"samples of {name} must be two or more, got {len(samples)}")
    x, y = np.array([(sample.units, sample.microseconds) for sample in samples]).T
    slope = float(x @ y / max(x @ x, 1e-300))
    left = y - slope * x
    error = np.sqrt(left @ left / (len(x) - 1) / max(x @ x, 1e-300))
    from scipy import stats  # slow to load, and only fitting needs it

    margin = float(stats.t.ppf(0.975, len(x) - 1) * error)
    spread = float(((y - y.mean()) ** 2).sum())
    return Coefficient(slope, slope - margin, slope + margin, 1.0 - float(left @ left) / max(spread, 1e-300))
