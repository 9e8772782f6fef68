"""Cost models of the methods: their coefficients, the estimate for a row, and how they are fitted (docs/design/joins.md
§2.8).

Estimates are functions of the state and the row alone, never of a clock, so that a replay decides alike. A decision
changes the time, never the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats


class Coefficient(NamedTuple):
    """A fitted factor, in microseconds per unit of its component, with its 95% interval and the R² of the fit."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    r_squared: float = float("nan")


@dataclass(frozen=True)
class CostCoefficients:
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
        """Return the values in the order of the fields, as compiled code expects them."""
        return np.array([getattr(self, field.name).value for field in fields(self)])

    @classmethod
    def of(cls, values: Iterable[float]) -> CostCoefficients:
        """Make coefficients of these values, without intervals."""
        return cls(*(Coefficient(float(value)) for value in values))


NAMES = tuple(field.name for field in fields(CostCoefficients))
DEFAULT = CostCoefficients.of(
    (
        *(0.0351, 0.00118),  # join-first
        *(0.0351, 0.00735),  # scan
        *(0.0351, 0.0626, 0.00963),  # select-first
        *(0.0351, 0.0025, 0.0626, 0.0105),  # hotspot
        *(0.0124, 0.00297, 0.00522, 0.0022),  # band joins
    )
)
"""The result of a run of `calibrate`."""


@dataclass(frozen=True)
class Load:
    """The quantities on which the cost of a probe of select joins depends."""

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


def estimate(load: Load, costs: CostCoefficients = DEFAULT, *, literal: bool = False) -> dict[str, float]:
    """Estimate the microseconds of each method, without the output.

    `literal` uses ln k_j as [DISS] prints it instead of ln(1 + k_j): at k_j = 1 it makes scanning everything look free.
    """
    search = np.log(load.partners) if literal else np.log1p(load.partners)
    row_search = np.log(max(load.rows, 1))
    factor = {name: getattr(costs, name).value for name in NAMES}

    def grouped(sizes: tuple[int, ...], cold: int, hits: float) -> float:
        return float(
            factor["hotspot_lookup"] * row_search
            + factor["hotspot_group"] * np.sqrt(np.array(sizes, np.float64)).sum()
            + factor["hotspot_index"] * np.log(max(cold, 1))
            + factor["hotspot_hit"] * hits * search
        )

    return {
        "ssi": grouped(load.group_sizes, 0, 0.0),
        "select-first": float(
            factor["select_first_lookup"] * row_search
            + factor["select_first_index"] * np.log(max(load.queries, 1))
            + factor["select_first_hit"] * load.selecting * search
        ),
        "join-first": float(
            factor["join_first_lookup"] * row_search + factor["join_first_stab"] * load.partners * np.sqrt(load.queries)
        ),
        "scan": float(factor["scan_lookup"] * row_search + factor["scan_test"] * load.queries * search),
        "hotspot": grouped(load.hot_sizes, load.scattered, load.scattered_selecting),
    }


def choose(load: Load, costs: CostCoefficients = DEFAULT) -> str:
    """Return the method of least estimated cost."""
    estimates = estimate(load, costs)
    return min(estimates, key=lambda method: estimates[method])


class Sample(NamedTuple):
    """One measurement of a component: so many units (for instance k_j·√n) took so many microseconds."""

    component: str
    units: float
    microseconds: float


def fit_costs(samples: Iterable[Sample], start: CostCoefficients = DEFAULT) -> CostCoefficients:
    """Fit each component by least squares through the origin; components without samples stay as in `start`.

    Raises:
        ValueError: an unknown component, or one with fewer than two samples.
    """
    measured: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.component not in NAMES:
            raise ValueError(f"samples must be of {', '.join(NAMES)}; got {sample.component!r}")
        measured.setdefault(sample.component, []).append(sample)
    return replace(start, **{name: _fitted(name, group) for name, group in measured.items()})


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
