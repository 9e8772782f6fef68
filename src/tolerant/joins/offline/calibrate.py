"""Fits the cost models to this machine by timing each component on its own (docs/design/joins.md §2.8).

This is the only module of the package that reads a clock. What it measures goes into `CostCoefficients`; decisions are
then functions of the state and the row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tolerant.joins.band import BandJoins
from tolerant.joins.continuous_joins import ContinuousJoins
from tolerant.joins.method_costs import CostCoefficients, Sample, fit_costs
from tolerant.joins.run_buffer import empty_buffer
from tolerant.joins.select import SelectJoins
from tolerant.joins.stored_rows import slice_of
from tolerant.kernels.array_types import Floats, Integers

_DOMAIN = 10_000.0


def calibrate(seed: int = 0, *, sizes: Sequence[int] = (10_000, 30_000, 60_000), events: int = 60) -> CostCoefficients:
    """Time every component on generated loads of these sizes and fit the costs; takes a few seconds.

    >>> calibrate(sizes=(400, 800), events=4).band_merge.value > 0  # doctest: +SKIP
    True
    """
    return fit_costs(samples(seed, sizes=sizes, events=events))


def samples(
    seed: int = 0, *, sizes: Sequence[int], events: int = 60, crowded: Sequence[bool] = (True, False)
) -> list[Sample]:
    """Return the measurements that `calibrate` fits; `crowded`: with queries in 30 groups, or in one per 40 queries."""
    rng = np.random.default_rng(seed)
    measured: list[Sample] = []
    for size in sizes:
        for groups in (30 if few else max(30, size // 40) for few in crowded):
            for values in (100, 1000):  # of b: few partners and many
                measured += _select_samples(rng, size, groups, values, events)
            measured += _band_samples(rng, size, groups, events)
    return measured


def select_load(
    rng: np.random.Generator, queries: int, groups: int, *, width: float = 200.0
) -> tuple[Integers, Floats, Floats, Floats, Floats]:
    """Generate ids and ranges of queries whose c ranges form this many groups."""
    middle = rng.uniform(0, _DOMAIN, queries)
    half = np.abs(rng.normal(width, width / 5, queries)) / 2
    centre = rng.uniform(0, _DOMAIN, groups)[rng.integers(0, groups, queries)]
    reach = rng.exponential(0.2, (2, queries))
    return np.arange(queries), middle - half, middle + half, centre - reach[0], centre + reach[1]


def _select_samples(rng: np.random.Generator, size: int, groups: int, values: int, events: int) -> list[Sample]:
    load = select_load(rng, size, groups)
    all_hot, all_cold = SelectJoins(), SelectJoins(1.0)
    b, c = rng.integers(0, values, size).astype(np.float64), rng.uniform(0, _DOMAIN, size)
    for joins in (all_hot, all_cold):
        joins.add_many(*load)
        joins.insert_many(np.arange(size), b, c)
    a = rng.uniform(0, _DOMAIN, events)
    at = rng.integers(0, values, events).astype(np.float64)
    nowhere = np.full(events, -_DOMAIN)
    lookup = timed(all_hot, (a, np.full(events, values + 0.5)), "scan", repeat=20)
    partners = np.array([_length(all_hot, value) for value in at])
    selecting = np.array([((load[1] <= value) & (value <= load[2])).sum() for value in a])
    search = np.log1p(partners)
    log_size = float(np.log(size))
    all_hot._settle()
    roots = float(all_hot._main.roots[1] + all_hot._side.roots[1])  # few queries are in the small index
    index = timed(all_hot, (nowhere, at), "select-first", repeat=20) - lookup
    few = slice(0, max(events // 8, 2))
    measured = [
        Sample(f"{method}_lookup", log_size, lookup) for method in ("join_first", "scan", "select_first", "hotspot")
    ]
    measured += [Sample(f"{method}_index", log_size, max(index, 0.0)) for method in ("select_first", "hotspot")]
    for name, joins, method, units, chosen in (
        ("join_first_stab", all_hot, "join-first", partners * np.sqrt(size), few),
        ("scan_test", all_hot, "scan", size * search, few),
        ("select_first_hit", all_hot, "select-first", selecting * search, slice(None)),
        ("hotspot_hit", all_cold, "hotspot", selecting * search, slice(None)),
        ("hotspot_group", all_hot, "ssi", np.full(events, roots), slice(None)),
    ):
        spent = timed(joins, (a[chosen], at[chosen]), method) - lookup - (index if name.endswith("_hit") else 0.0)
        measured.append(Sample(name, float(units[chosen].mean()), max(spent, 0.0)))
    return measured


def _band_samples(rng: np.random.Generator, size: int, groups: int, events: int) -> list[Sample]:
    joins = BandJoins()
    centre = rng.uniform(-_DOMAIN / 2, _DOMAIN / 2, groups)[rng.integers(0, groups, size)]
    reach = rng.exponential(1e-4, (2, size))
    joins.add_many(np.arange(size), centre - reach[0], centre + reach[1])
    rows = rng.uniform(0, _DOMAIN, size)
    joins.insert_many(np.arange(size), rows)
    b = rng.uniform(0.2 * _DOMAIN, 0.8 * _DOMAIN, max(events // 4, 2))
    low, high = centre.min(), centre.max()
    within = float(np.mean([((rows - value >= low) & (rows - value <= high)).sum() for value in b]))
    shared = joins.groups
    return [
        Sample("band_ssi", shared * float(np.log(2 + size / shared)), timed(joins, (b,), "ssi")),
        Sample("band_queries", size * float(np.log(size)), timed(joins, (b[:4],), "queries")),
        Sample("band_data", within * float(np.log(size)), timed(joins, (b[:4],), "data")),
        Sample("band_merge", size + within, timed(joins, (b,), "merge")),
    ]


def _length(joins: SelectJoins, b: float) -> int:
    start, stop = slice_of(joins._rows.order().b, float(b))
    return stop - start


def timed(
    joins: ContinuousJoins[Any], probes: tuple[Floats, ...], method: str, *, repeat: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> float:  # fmt: skip
    """Return the microseconds per event of the search alone, without enumerating the pairs; the best of three runs."""
    joins._settle()
    code, events = joins._method_number(method), len(probes[0])
    ends, chosen = np.empty(events, np.int64), np.empty(events, np.int64)
    buffer = empty_buffer(1 << 16)

    def once() -> float:
        nonlocal buffer
        start = clock()
        for _ in range(repeat):
            first = 0
            while first < events:
                first, _, needed = joins._search(probes, first, code, buffer, ends, chosen)
                if needed:
                    buffer = empty_buffer(2 * needed)
        return clock() - start

    once()
    return min(once() for _ in range(3)) / events / repeat * 1e6
