"""Runs a poller's decisions over a recorded trace and counts what they cost (`docs/design/polling.md` §2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.arrangement import Arrangement
from tolerant.polling.choice.lanes import Lanes, set_limits
from tolerant.polling.choice.risk import RiskRows
from tolerant.polling.choice.risk_calibration import draw_errors
from tolerant.polling.feedback import end_window
from tolerant.polling.fidelity_window import add_within
from tolerant.polling.model.chain_execution import advance
from tolerant.polling.model.correlations import Correlations
from tolerant.polling.model.predictors import value_in_use
from tolerant.polling.model.pull_update import apply_pull
from tolerant.polling.offline.ideal_push import push
from tolerant.polling.poller_arrays import (
    Chains,
    Floats,
    Integers,
    Links,
    Records,
    Servers,
    Settings,
    Window,
    Workspace,
)
from tolerant.polling.polling_options import PUSHES, PollingOptions, takes_polling_options
from tolerant.polling.query_arrays import build_query_arrays, index_items
from tolerant.polling.tick import decide, end_tick
from tolerant.queries import Aggregate

if TYPE_CHECKING:
    from tolerant.traces import Trace  # loads Arrow, which nothing here needs

BLOCK = 128
"""Ticks that are compared with the truth at a time: their columns stay in the processor's cache."""


@dataclass(frozen=True)
class Windows:
    """Fidelity per window, each the mean over the queries; NaN where it was not estimated. float64[windows]."""

    delivered: Floats
    interpolated: Floats
    honest: Floats


@dataclass(frozen=True)
class Run:
    """What a simulation counted.

    pulls: all of them, tick 0 included. pulls_by_item: for every item of the trace. fidelity: the fraction of ticks at
    which each query was within its bound. cost: of the pulls and requests. requests: one per server and tick.
    safety: each query's factor at the end. windows: only with `history`.
    """

    pulls: int
    pulls_by_item: dict[str, int]
    fidelity: dict[str, float]
    cost: float
    requests: int
    safety: dict[str, float]
    windows: Windows | None = None


@dataclass(frozen=True)
class _Counts:
    """What a run counted: pulls by item, ticks within the bound and final safety factor by query, requests."""

    pulls: Integers
    good: Floats
    safety: Floats
    requests: int
    windows: Windows | None = None


@takes_polling_options
def simulate(
    trace: Trace, queries: Sequence[Aggregate], chooser: str = "max", *, history: bool = False, **keywords: Any
) -> Run:
    """Count the pulls that `chooser` makes over the trace, and how often each query was within its bound.

    history: keep the fidelity per window. The other keywords are the fields of `PollingOptions`.

    >>> from tolerant.traces import Trace
    >>> trace = Trace(["a"], [[0.7 * t] for t in range(1000)])
    >>> run = simulate(trace, [Aggregate("double", "sum", {"a": 2}, within=10)], safety=1.0)
    >>> run.pulls, run.fidelity
    (128, {'double': 1.0})
    """
    options = PollingOptions(chooser, **keywords)
    index = index_items(queries)
    values = _readings(trace, index)
    if options.chooser in PUSHES or options.chooser == "every-tick":
        counts = _push(queries, options, index, values)
    else:
        counts = _poll(queries, options, values, history)
    names, labels = tuple(index), [query.name for query in queries]
    return Run(
        pulls=int(counts.pulls.sum()),
        pulls_by_item=dict.fromkeys(trace.items, 0) | dict(zip(names, counts.pulls.tolist(), strict=True)),
        fidelity=dict(zip(labels, (counts.good / trace.ticks).tolist(), strict=True)),
        cost=float(options.pull_costs(names) @ counts.pulls) + options.request_cost * counts.requests,
        requests=counts.requests,
        safety=dict(zip(labels, counts.safety.tolist(), strict=True)),
        windows=counts.windows,
    )


def _push(queries: Sequence[Aggregate], options: PollingOptions, index: dict[str, int], values: Floats) -> _Counts:
    """Run what needs no model and is never wrong."""
    ticks, items = values.shape
    server, servers = options.servers_of(tuple(index))
    if options.chooser == "every-tick":
        pulls, requests = np.full(items, ticks), ticks * (int((server < 0).sum()) + len(servers.start) - 1)
    else:
        table, links = build_query_arrays(queries, index)
        pulls, requests = push(values, table, links, server, options.chooser == "least-push")
    return _Counts(pulls, np.full(len(queries), float(ticks)), np.ones(len(queries)), requests)


def _poll(queries: Sequence[Aggregate], options: PollingOptions, values: Floats, history: bool) -> _Counts:
    """Run a chooser that decides per tick."""
    settings = options.settings(report=history)
    arranged = Arrangement.of(queries, options, settings)
    means = np.full(((len(values) - 1) // settings.window if history else 0, 3), np.nan)
    pulls, good, requests = _run(
        values, arranged.table, arranged.links, arranged.lanes, arranged.rows, arranged.items, arranged.chains,
        arranged.window, arranged.correlations, settings, arranged.servers, arranged.workspace, means,
    )  # fmt: skip
    windows = Windows(*(means[:, k].copy() for k in range(3))) if history else None
    return _Counts(pulls, good, arranged.table["safety"], int(requests), windows)


def _readings(trace: Trace, index: Mapping[str, int]) -> Floats:
    """Return the values of the items of the queries, gaps filled; float64[ticks, items]."""
    column = {item: k for k, item in enumerate(trace.items)}
    for item in index:
        if item not in column:
            raise ValueError(f"queries have the item {item!r}, which is not in the trace")
    values = trace.filled().take([column[item] for item in index], axis=1)
    for item, first in zip(index, values[0], strict=True):
        if np.isnan(first):
            raise ValueError(f"values of item {item!r} must begin at tick 0, got NaN there")
    return values


@compiled
def _run(  # noqa: PLR0913
    values: Floats, queries: Records, links: Links, lanes: Lanes, rows: RiskRows, items: Records, chains: Chains,
    window: Window, correlations: Correlations, settings: Settings, servers: Servers, workspace: Workspace,
    history: Floats,
) -> tuple[Integers, Floats, int]:  # fmt: skip
    """Return pulls by item, ticks within bounds by query, requests. history[windows, 3]: what `Windows` shows."""
    ticks, n = values.shape
    sent, good = np.zeros(n, np.int64), np.ones(len(queries))
    apart, used = np.zeros((n, BLOCK)), np.zeros((n, BLOCK) if links.ordered.size > 0 else (0, 0))
    hint, asked, means, before = np.zeros(1, np.int64), np.full(n, -1, np.int64), np.full(2, np.nan), good.sum()
    path, sums, correlation = (
        np.empty(ticks if settings.intermediates else 0),
        np.empty(BLOCK),
        correlations.correlation,
    )
    estimated = window.apart.size > 0
    requests, filled = 0, 0
    for i in range(n):
        items[i].marked = True
    for t in range(ticks):
        if t > 0:
            advance(items, chains, t)
            decide(queries, links, lanes, rows, items, correlation, settings, servers, workspace, hint, t)
        requests += _pull(values, rows, items, chains, window, correlations, settings, t, path, sent, asked)
        if t == 0:
            continue
        _record_errors(values, items, window, t, settings.window, apart, used, filled)
        filled += 1
        end = t % settings.window == 0
        if filled == BLOCK or end or t == ticks - 1:
            add_within(queries, links, apart, used, filled, sums, good)
            filled = 0
        end_tick(rows, items, correlations, settings, t, 1)
        if settings.calibrated:
            draw_errors(items, chains, window, t)
        if end and estimated:
            end_window(queries, links, rows, items, window, t, 0, settings, means)
            set_limits(lanes, queries)
        if end and history.size > 0:
            k = t // settings.window - 1
            history[k, 0] = (good.sum() - before) / settings.window / good.size
            history[k, 1], history[k, 2] = means[0], means[1]
            before = good.sum()
    return sent, good, requests


@compiled_no_refcount
def _pull(  # noqa: PLR0913
    values: Floats, rows: RiskRows, items: Records, chains: Chains, window: Window, correlations: Correlations,
    settings: Settings, tick: int, path: Floats, sent: Integers, asked: Integers,
) -> int:  # fmt: skip
    """Pull what is marked, and return the number of requests. asked: tick of the last request, by server."""
    requests = 0
    for i in range(len(items)):
        item = items[i]
        if not item.marked:
            continue
        sent[i] += 1
        server = item.server
        if server < 0 or asked[server] < tick:
            requests += 1
            if server >= 0:
                asked[server] = tick
        missed = tick - item.last if settings.intermediates and tick > 0 else 0
        for k in range(missed):
            path[k] = values[item.last + 1 + k, i]
        apply_pull(rows, items, chains, window, correlations, settings, i, values[tick, i], tick, tick, path[:missed])
    return requests


@compiled_no_refcount
def _record_errors(
    values: Floats, items: Records, window: Window, tick: int, size: int, apart: Floats, used: Floats, column: int
) -> None:
    """Record how far each item's value in use is from its true one, after the pulls."""
    for i in range(len(items)):
        value = value_in_use(items[i], tick)
        apart[i, column] = values[tick, i] - value
        if used.size > 0:
            used[i, column] = value
            if window.held.size > 0:
                window.held[i, (tick - 1) % size] = value
