"""Measures routing by estimated cost, event by event: [DISS], Figures 4.13 to 4.21."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tolerant.experiments.harness.experiment import Row
from tolerant.experiments.workloads.join_loads import DOMAIN, Floats, Parameters
from tolerant.joins import SelectJoins
from tolerant.joins.offline.calibrate import timed

FIXED = ("hotspot", "select-first", "join-first")
ALPHA = 0.001


def routed_rows(parameters: Parameters, *, a_middle: float = 5000.0, b_offset: float = 0.0) -> list[Row]:
    """Return one row per method: its time, its share in what "auto" chose, and how often that was the best of all.

    S.b is normal around the middle, where a value has 200 rows, so `b_offset` (in thousandths of its deviation) sets
    how many partners an event has; queries' a ranges are normal too, so `a_middle` sets how many select it. Four
    fifths of the queries are in 300 groups.
    """
    queries, rows, events = (int(parameters[name]) for name in ("queries", "rows", "events"))
    joins = _joins(queries, rows)
    rng = np.random.default_rng(5)
    a = rng.normal(a_middle, 300, events)
    spread = rows / 500
    b = np.round(rng.normal(b_offset * spread / 1000, 0.3 * spread, events))
    probes = a, b
    costs = {method: timed(joins, probes, method) for method in (*FIXED, "ssi", "auto")}
    costs["scan"] = timed(joins, (a[:2], b[:2]), "scan")
    chosen = joins.choose_many(a, b)
    best, agreed = _optimum(joins, a, b, chosen)
    shares = Counter(chosen)
    return [
        {
            **parameters,
            "method": method,
            "search_us": spent,
            "events_per_second": 1e6 / max(spent, 1e-3),
            "share": shares[method] / events,
            "agreed": agreed,
        }
        for method, spent in (*costs.items(), ("optimum", best))
    ]


def _joins(queries: int, rows: int) -> SelectJoins:
    rng = np.random.default_rng(4)
    middle, length = rng.normal(5000, 1500, queries), np.abs(rng.normal(500, 100, queries))
    scattered = rng.random(queries) < 0.2
    centre = rng.uniform(0, DOMAIN, 300)[rng.integers(0, 300, queries)]
    centre = np.where(scattered, rng.uniform(0, DOMAIN, queries), centre)
    reach = rng.exponential(0.05, (2, queries))
    joins = SelectJoins(ALPHA)
    joins.add_many(np.arange(queries), middle - length / 2, middle + length / 2, centre - reach[0], centre + reach[1])
    joins.insert_many(np.arange(rows), np.round(rng.normal(0, rows / 500, rows)), rng.uniform(0, DOMAIN, rows))
    return joins


def _optimum(joins: SelectJoins, a: Floats, b: Floats, chosen: list[str], events: int = 40) -> tuple[float, float]:
    """Return the mean of each event's least measured time, and how often "auto" took the method that had it."""
    total, agreed = 0.0, 0
    some = range(0, len(a), max(len(a) // events, 1))
    idle = timed(joins, (a[:1], np.full(1, -1e9)), "ssi", repeat=20)
    for event in some:
        event_row = a[event : event + 1], b[event : event + 1]
        costs = {method: timed(joins, event_row, method, repeat=5) for method in (*FIXED, "ssi")}
        best = min(costs, key=lambda method: costs[method])
        agreed += best == chosen[event]
        total += max(costs[best] - idle, 0.0)  # a call alone costs more than one of a batch
    return total / len(some), agreed / len(some)


def cost(rows: list[Row], method: str, x: str, at: float | int | str) -> float:
    """Return the time of a method at one point."""
    return next(float(row["search_us"]) for row in rows if row["method"] == method and row[x] == at)


def shares_at(rows: list[Row], x: str, at: float | int | str) -> str:
    """Return the shares of the methods that "auto" took at one point, as text."""
    shares = {str(row["method"]): float(row["share"]) for row in rows if row[x] == at and float(row["share"]) > 0}
    return ", ".join(f"{method} {share:.0%}" for method, share in sorted(shares.items(), key=lambda entry: -entry[1]))
