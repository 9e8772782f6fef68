"""Simulates sources and pipeline over a recorded trace (`docs/design/filters.md` §2.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tolerant.filters import static_widths
from tolerant.filters.constraints import ConstraintArrays, Terms, WidthConstraints, constraints_of
from tolerant.filters.growth import burden, check_share, grow
from tolerant.filters.ladder import ladder
from tolerant.filters.optimal_widths import optimal
from tolerant.filters.predictive import replay_predictive, shared_filters
from tolerant.filters.prices import initial_rates, price_workspace
from tolerant.filters.promise_check import AnswerSpread, Promises, promises_of, update_spread, violations_at
from tolerant.filters.state import Floats, Integers
from tolerant.filters.suppression import replay_suppressed
from tolerant.filters.targets import deviate, improve
from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import absorbed, key_of
from tolerant.queries import Aggregate
from tolerant.traces import Trace

POLICIES = ("exact", "uniform", "optimal", "adaptive", "predictive")
"""The policies that `simulate` knows."""


@dataclass(frozen=True, eq=False)
class Run:
    """Result of a simulation.

    updates, grants: messages from and to the sources. cost: Σ of the messages' costs. violations: broken promises, one
    per (tick, query). widths: float64[items] at the end, infinite for an unqueried item. *_by_item: int64[items].
    reports: how many of the updates carried one ("predictive").
    """

    updates: int
    grants: int
    cost: float
    violations: int
    widths: Floats
    updates_by_item: Integers
    grants_by_item: Integers
    reports: int = 0


def simulate(  # noqa: PLR0913
    trace: Trace,
    queries: Sequence[Aggregate],
    policy: str = "adaptive",
    *,
    period: int = 10,
    shrink: float = 0.05,
    costs: Mapping[str, float] | Sequence[float] | Floats | None = None,
    warmup: int = 0,
    seed: int = 0,
    share: int = 1,
) -> Run:
    """Count the messages that `policy` needs to keep every query's promise over the trace.

    policy: "exact" sends every change; "uniform" gives each item of a query the same width; "optimal" gives the best
    static widths for walks; "adaptive" moves width at the end of each period to where it saves most; with "predictive",
    sources send predictions and what other widths would have sent, and width moves only when that pays.
    period: its length in ticks. shrink: the fraction of its width that an item loses at each period's end, in [0, 1).
    costs: of one message of an item, by name (1 where missing) or in the trace's order. Messages of ticks before
    `warmup` are not counted. seed: decides between items of equal deviation. share: number of items among which
    "adaptive" splits what is free at a period's end; more than 1 helps where many items are active.

    >>> trace = Trace(["fast", "slow"], [[t, t % 2 / 2] for t in range(11)])
    >>> total = Aggregate.over("total", "sum", trace.items, within=1.5)
    >>> [simulate(trace, [total], policy, period=5, shrink=0.2).cost for policy in POLICIES]
    [20.0, 10.0, 10.0, 12.0, 2.0]
    """
    if policy not in POLICIES:
        raise ValueError(f"policy {policy!r} is not available; choose one of {', '.join(POLICIES)}")
    _check(period, shrink, warmup)
    check_share(share)
    charge = _costs(costs, trace.items)
    terms = _terms(queries, trace.items)
    values = trace.filled()
    first, centres = _first_readings(values)
    extremes, terms = _extremes_apart(terms) if policy == "predictive" else ([], terms)
    rows = constraints_of(terms, len(trace.items))
    widths = _first_widths(policy, rows, values, charge)
    promises = promises_of(terms, first)
    if policy == "predictive":
        updates, grants, violations, reports = _predict(
            values, widths, rows, promises, charge, first, int(period), int(warmup)
        )
        for query in extremes:
            violations += _replay_extreme(values, query, first, int(warmup), updates, grants, widths)
    else:
        reports = 0
        periods = int(period) if policy == "adaptive" else 0
        updates, grants, violations = _replay(
            values,
            centres,
            widths,
            rows.arrays,
            promises,
            charge,
            periods,
            float(shrink),
            int(warmup),
            key_of(seed, 0),
            int(share),
        )
    cost = float(charge @ (updates + grants))
    return Run(int(updates.sum()), int(grants.sum()), cost, int(violations), widths, updates, grants, int(reports))


def _first_widths(policy: str, rows: WidthConstraints, values: Floats, costs: Floats) -> Floats:
    if policy == "exact":
        return static_widths.exact(rows)
    if policy == "optimal":
        return optimal(rows, _steps(values), costs)
    return static_widths.uniform(rows)


def _extremes_apart(terms: list[Terms]) -> tuple[list[Terms], list[Terms]]:
    """The minima and maxima whose items are in no other constraint, and the other queries."""
    shared = np.bincount(
        np.concatenate([np.zeros(0, np.int64), *(np.unique(term.items) for term in terms if term.fn != "count")])
    )
    apart = [term.fn in ("min", "max") and len(term.items) > 0 and shared[term.items].max() == 1 for term in terms]
    return (
        [term for term, alone in zip(terms, apart, strict=True) if alone],
        [term for term, alone in zip(terms, apart, strict=True) if not alone],
    )


def _replay_extreme(
    values: Floats, query: Terms, first: Integers, warmup: int, updates: Integers, grants: Integers, widths: Floats
) -> int:
    """Simulate one minimum or maximum with suppression; returns the number of violations."""
    sign = -1.0 if query.fn == "max" else 1.0
    run = replay_suppressed(values, query.items, sign, first[query.items], query.within, warmup)
    updates[query.items], grants[query.items] = run.updates, run.grants
    widths[query.items] = np.where(run.suppressed, np.inf, 2 * query.within)
    return int(run.violations)


def _predict(
    values: Floats,
    widths: Floats,
    rows: WidthConstraints,
    promises: Promises,
    costs: Floats,
    first: Integers,
    period: int,
    warmup: int,
) -> tuple[Integers, Integers, int, int]:
    n = len(widths)
    return replay_predictive(
        values, first, shared_filters(widths), ladder(n), initial_rates(rows.uniform, costs), price_workspace(n),
        rows.arrays, promises, period, warmup,
    )  # fmt: skip


@compiled
def _replay(  # noqa: PLR0913
    values: Floats,
    centres: Floats,
    widths: Floats,
    rows: ConstraintArrays,
    promises: Promises,
    costs: Floats,
    period: int,
    shrink: float,
    warmup: int,
    key: np.uint64,
    share: int,
) -> tuple[Integers, Integers, int]:
    """Return updates and grants by item, and violations; changes centres and widths. period 0: widths stay."""
    ticks, n = values.shape
    updates, grants = np.zeros(n, np.int64), np.zeros(n, np.int64)
    early_updates, early_grants, seen = updates.copy(), grants.copy(), updates.copy()
    targets = np.zeros(rows.beta.size)
    spread = AnswerSpread(np.empty(promises.fn.size), np.empty(promises.fn.size, np.bool_))
    update_spread(promises, widths, spread)
    reach = widths / 2
    violations = 0
    for tick in range(1, ticks):
        if tick == warmup:
            early_updates, early_grants = updates.copy(), grants.copy()
        _offer(values[tick], centres, reach, updates)
        if period > 0 and tick % period == 0:
            counts, seen = updates - seen, updates.copy()
            tie_key = absorbed(key, np.uint64(tick // period))
            _end_period(rows, widths, counts, costs, period, shrink, targets, tie_key, grants, share)
            reach = widths / 2
            update_spread(promises, widths, spread)
            _offer(values[tick], centres, reach, updates)
        violations += violations_at(promises, spread, tick, values[tick], centres, widths)
    if warmup >= ticks:
        early_updates, early_grants = updates, grants
    return updates - early_updates, grants - early_grants, violations


@compiled
def _offer(values: Floats, centres: Floats, reach: Floats, updates: Integers) -> None:
    """Test every filter, branch-free so that it is vectorised; NaN is never sent."""
    for item in range(values.size):
        passes = abs(values[item] - centres[item]) > reach[item]
        centres[item] = values[item] if passes else centres[item]
        updates[item] += passes


@compiled
def _end_period(  # noqa: PLR0913
    rows: ConstraintArrays,
    widths: Floats,
    counts: Integers,
    costs: Floats,
    period: int,
    shrink: float,
    targets: Floats,
    key: np.uint64,
    grants: Integers,
    share: int,
) -> None:
    """`growth.reallocate` in place, where every width is known at both ends."""
    burdens, deviations = np.empty(widths.size), np.empty(widths.size)
    burden(rows, widths, counts, costs, float(period), burdens)
    improve(rows, burdens, targets)
    deviate(rows, burdens, targets, deviations)
    for item in range(widths.size):
        if rows.adaptable[item]:
            widths[item] *= 1.0 - shrink
    granted = np.zeros(widths.size, np.bool_)
    grow(rows, widths, widths, deviations, rows.adaptable, key, granted, share)
    grants += granted


@compiled
def _steps(values: Floats) -> Floats:
    """Each item's r.m.s. change per tick, in units of the largest value; a gap is no change.

    Only the steps' ratios matter; scaled, no change or square of a change overflows.
    """
    ticks, n = values.shape
    largest = 0.0
    for tick in range(ticks):
        for item in range(n):
            if abs(values[tick, item]) > largest:  # NaN is not
                largest = abs(values[tick, item])
    scale = largest if largest > 0.0 else 1.0
    squares = np.zeros(n)
    for tick in range(1, ticks):
        for item in range(n):
            change = values[tick, item] / scale - values[tick - 1, item] / scale
            squares[item] += 0.0 if np.isnan(change) else change**2
    return np.sqrt(squares / max(ticks - 1, 1))


@compiled
def _first_readings(values: Floats) -> tuple[Integers, Floats]:
    """The tick of each item's first reading (the number of ticks if there is none), and the reading (NaN)."""
    ticks, n = values.shape
    first, readings = np.full(n, ticks), values[0].copy()
    for item in range(n):
        for tick in range(ticks):
            if not np.isnan(values[tick, item]):
                first[item], readings[item] = tick, values[tick, item]
                break
    return first, readings


def _check(period: int, shrink: float, warmup: int) -> None:
    if not (period >= 1 and period == int(period)):
        raise ValueError(f"period must be a whole number of ticks, at least 1, got {period}")
    if not 0 <= shrink < 1:
        raise ValueError(f"shrink must be in [0, 1), got {shrink}")
    if not (warmup >= 0 and warmup == int(warmup)):
        raise ValueError(f"warmup must be a whole number of ticks, not negative, got {warmup}")


def _costs(costs: Mapping[str, float] | Sequence[float] | Floats | None, items: Sequence[str]) -> Floats:
    if costs is None:
        return np.ones(len(items))
    if isinstance(costs, Mapping):
        charge = np.array([costs.get(item, 1.0) for item in items], np.float64)
    else:
        charge = np.array(costs, np.float64)
    if charge.shape != (len(items),):
        raise ValueError(f"costs must have one entry for each of the {len(items)} items, got shape {charge.shape}")
    for item, cost in zip(items, charge, strict=True):
        if not 0 <= cost < np.inf:
            raise ValueError(f"costs must be finite and not negative, got {cost} for item {item!r}")
    return charge


def _terms(queries: Sequence[Aggregate], items: Sequence[str]) -> list[Terms]:
    index = {item: position for position, item in enumerate(items)}
    names: set[str] = set()
    terms = []
    for query in queries:
        if query.name in names:
            raise ValueError(f"queries must have different names, got {query.name!r} twice")
        names.add(query.name)
        for item in query.weights:
            if item not in index:
                raise ValueError(f"query {query.name!r} has the item {item!r}, which is not in the trace")
        positions = np.array([index[item] for item in query.weights], np.int64)
        terms.append(Terms(query.fn, positions, np.array(list(query.weights.values()), np.float64), query.within))
    return terms
