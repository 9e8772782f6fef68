"""Generates the loads of [DISS], chapter 4 (Table 4.1), and times methods: the search apart from the output.

Where [DISS]'s figures contradict each other (`docs/design/joins.md` §4) a consistent reading is used: the number
of partners is set by the number of values of b, and negative lengths are replaced by their absolute value.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tolerant.experiments.harness.experiment import Row
from tolerant.joins import BandJoins, SelectJoins
from tolerant.joins.offline.calibrate import timed

DOMAIN = 10_000.0
SELECT_METHODS = ("ssi", "select-first", "join-first", "scan")
BAND_METHODS = ("ssi", "merge", "data", "queries")
Parameters = Mapping[str, float | int | str]
Floats = NDArray[np.float64]


def zipf_share(groups: int, top: int, beta: float) -> float:
    """Return the share of queries in the `top` largest of `groups` groups whose sizes fall like rank^−beta.

    >>> round(zipf_share(5000, 500, 1.0), 3)
    0.747
    """
    sizes = np.arange(1, groups + 1) ** -beta
    return float(sizes[:top].sum() / sizes.sum())


def select_joins(  # noqa: PLR0913
    queries: int, rows: int, *, groups: int = 30, a_width: float = 1000.0, partners: int = 1000, c_half: float = 0.5,
    hot_share: float = 1.0, alpha: float | None = None, seed: int = 0,
) -> SelectJoins:  # fmt: skip
    """Draw queries with a ranges of about `a_width` and c ranges around `groups` centres; a share of them scattered.

    So many rows share each value of b that a probe has `partners`.
    """
    rng = np.random.default_rng(seed)
    middle = rng.uniform(0, DOMAIN, queries)
    half = np.abs(rng.normal(a_width, a_width / 5, queries)) / 2
    centre = rng.uniform(0, DOMAIN, groups)[rng.integers(0, groups, queries)]
    scattered = rng.random(queries) >= hot_share
    centre = np.where(scattered, rng.uniform(0, DOMAIN, queries), centre)
    reach = rng.exponential(c_half, (2, queries)) * np.where(scattered, 1e-3, 1.0)
    joins = SelectJoins(alpha)
    joins.add_many(np.arange(queries), middle - half, middle + half, centre - reach[0], centre + reach[1])
    values = max(rows // partners, 1)
    joins.insert_many(np.arange(rows), rng.integers(0, values, rows), rng.uniform(0, DOMAIN, rows))
    return joins


def select_events(joins: SelectJoins, events: int, *, seed: int = 1) -> tuple[Floats, Floats]:
    """Draw rows (a, b) of R whose b some stored row has."""
    rng = np.random.default_rng(seed)
    b = joins.to_arrays()["b"]
    return rng.uniform(0, DOMAIN, events), rng.choice(b, events)


def band_joins(queries: int, rows: int, *, groups: int, half: float = 1e-3, seed: int = 0) -> BandJoins:
    """Draw bands around `groups` centres, rows uniform."""
    rng = np.random.default_rng(seed)
    centre = rng.uniform(-DOMAIN / 2, DOMAIN / 2, groups)[rng.integers(0, groups, queries)]
    reach = rng.exponential(half, (2, queries))
    joins = BandJoins()
    joins.add_many(np.arange(queries), centre - reach[0], centre + reach[1])
    joins.insert_many(np.arange(rows), rng.uniform(0, DOMAIN, rows))
    return joins


def method_rows(
    parameters: Parameters, joins: SelectJoins | BandJoins, probes: tuple[Floats, ...], methods: tuple[str, ...]
) -> list[Row]:
    """Return one row per method: microseconds per event of the search alone, and of search and output."""
    rows: list[Row] = []
    groups = joins.groups
    for method in methods:
        slow = method in ("scan", "join-first", "queries", "data")
        some = tuple(values[: max(len(values) // 10, 2)] if slow else values for values in probes)
        search = timed(joins, some, method)
        start = time.process_time()
        pairs = len(joins._probe_many(some, method)[0])
        total = (time.process_time() - start) / len(some[0]) * 1e6
        rows.append(
            {
                **parameters,
                "method": method,
                "groups": groups,
                "search_us": search,
                "total_us": max(total, search),
                "pairs": pairs / len(some[0]),
                "events_per_second": 1e6 / max(search, 1e-3),
            }
        )
    return rows


def updates(
    size: int, changes: int, *, groups: int, half: float = 1.0, seed: int = 0
) -> tuple[list[float], list[float], list[int]]:
    """Draw lows and highs of size + changes bands, and steps: k ≥ 0 adds band k, −1 − k removes it; half
    are inserts.
    """
    rng = np.random.default_rng(seed)
    count = size + changes
    centre = rng.uniform(0, DOMAIN, groups)[rng.integers(0, groups, count)]
    reach = rng.exponential(half, (2, count))
    live, fresh, steps = list(range(size)), size, []
    for insert in (rng.random(changes) < 0.5).tolist():
        if insert or not live:
            steps.append(fresh)
            live.append(fresh)
            fresh += 1
        else:
            at = int(rng.integers(len(live)))
            live[at], live[-1] = live[-1], live[at]
            steps.append(-1 - live.pop())
    return (centre - reach[0]).tolist(), (centre + reach[1]).tolist(), steps


def series(rows: list[Row], method: str, x: str, y: str = "search_us") -> list[tuple[float, float]]:
    """Return (x, y) of a method's rows, by x."""
    return sorted((float(row[x]), float(row[y])) for row in rows if row["method"] == method)


def growth(points: list[tuple[float, float]]) -> float:
    """Return the factor by which y grows from the first point to the last."""
    return points[-1][1] / max(points[0][1], 1e-9)
