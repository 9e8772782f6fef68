"""A poller run over a recorded trace, and what it cost (`specs/2-polling.md` §2.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.polling.arrays import HONEST, OFF, Chains, Floats, Integers, Links, Records, Room, Settings, Window
from tolerant.polling.calibration import draw
from tolerant.polling.execution import advance
from tolerant.polling.feedback import end_window
from tolerant.polling.forecasts import shown
from tolerant.polling.lanes import Lanes, lanes_of, set_limits
from tolerant.polling.learning import take
from tolerant.polling.options import PUSHES, Options
from tolerant.polling.problem import (
    fresh_items,
    fresh_window,
    queries_of,
    referred,
    room_for,
    set_bounds,
    start_feedback,
)
from tolerant.polling.push import push
from tolerant.polling.risk import Rows, rows_of
from tolerant.polling.tick import ANY_OVER, RISK, close, decide
from tolerant.polling.together import Together, nothing_together
from tolerant.polling.window import add_within
from tolerant.queries import Aggregate

if TYPE_CHECKING:
    from tolerant.traces import Trace  # loads Arrow, which nothing here needs

BLOCK = 128
"""So many ticks are held against the truth at a time: what is seen of the items in them stays near the processor."""


@dataclass(frozen=True)
class Windows:
    """Fidelity window by window, each the mean over the queries; NaN where it was not estimated. float64[windows]."""

    delivered: Floats
    interpolated: Floats
    honest: Floats


@dataclass(frozen=True)
class Run:
    """What a simulation counted.

    pulls: all of them, tick 0 included. pulls_by_item: for every item of the trace. fidelity: the fraction of ticks at
    which each query was within its bound. cost: of the pulls and requests. requests: one a server and tick.
    safety: each query's factor at the end. windows: only with `history`.
    """

    pulls: int
    pulls_by_item: dict[str, int]
    fidelity: dict[str, float]
    cost: float
    requests: int
    safety: dict[str, float]
    windows: Windows | None = None


def simulate(
    trace: Trace,
    queries: Sequence[Aggregate],
    chooser: str = "max",
    *,
    pull_ratio: float = 0.8,
    max_interval: int = 60,
    smoothing: float = 0.8,
    window: int = 200,
    states: int = 21,
    safety: float | None = None,
    intermediates: bool = False,
    seed: int = 0,
    gamma: float = 0.1,
    learning_rate: float = 0.98,
    estimate: str = "interpolated",
    execution: str = "drawn",
    forecast: bool = False,
    correlated: bool = False,
    calibrated: bool = False,
    forgetting: float = 0.0,
    costs: Mapping[str, float] | None = None,
    servers: Mapping[str, str] | None = None,
    request_cost: float = 0.0,
    limit: int | None = None,
    server_limits: Mapping[str, int] | None = None,
    history: bool = False,
    cautious: bool = False,
) -> Run:
    """Count the pulls that `chooser` makes over the trace, and how often each query was within its bound.

    chooser: "every-tick", "all", "per-item", "positive-negative", "max", "risk", "ideal-push", and for comparison
    "least-push", "max-over", "max-repeated".
    pull_ratio: of "max": from which part of the best score on an item is pulled. max_interval: ticks after which an
    item is pulled in any case. smoothing: how fast the model corrects itself. window: ticks between feedbacks.
    states: of each item's chain. safety: a fixed factor on every tolerance; None: feedback sets it. intermediates: a
    pull brings every value since the last one. seed: of the chains' draws. gamma, learning_rate: of the feedback.
    estimate: "interpolated", or "honest" with the doubt between pulls. execution: "drawn", or "expected" for the mean
    of the chain. forecast, correlated, calibrated: of "risk"; the last learns how far its model is to be
    trusted, for items whose changes are no walk. forgetting: part of the chain's counts that is lost a
    tick. costs: of a pull, by item, 1 where missing. servers: the server of an item; those of one share a request.
    request_cost: of each request, on top. limit, server_limits: most pulls in a tick. history: keep fidelity by window.
    cautious: of calibrated "risk": the model is doubted from the start, and always a little.

    >>> from tolerant.traces import Trace
    >>> trace = Trace(["a"], [[0.7 * t] for t in range(1000)])
    >>> run = simulate(trace, [Aggregate("double", "sum", {"a": 2}, within=10)], safety=1.0)
    >>> run.pulls, run.fidelity
    (128, {'double': 1.0})
    """
    options = Options(
        chooser, pull_ratio, max_interval, smoothing, window, states, safety, intermediates, seed, gamma,
        learning_rate, estimate, execution, forecast, correlated, calibrated, forgetting, costs, servers,
        request_cost, limit, server_limits, cautious=cautious,
    )  # fmt: skip
    index = referred(queries)
    values = _readings(trace, index)
    if options.chooser in PUSHES or options.chooser == "every-tick":
        return _pushed(trace, queries, options, tuple(index), values)
    return _polled(trace, queries, options, tuple(index), values, history)


def _pushed(
    trace: Trace, queries: Sequence[Aggregate], options: Options, names: tuple[str, ...], values: Floats
) -> Run:
    """The runs that need no model and are never wrong."""
    table, links = queries_of(queries, {name: k for k, name in enumerate(names)})
    of, (start, _, _) = options.hosts(names)
    if options.chooser == "every-tick":
        sent, requests = np.full(len(names), trace.ticks), trace.ticks * (int((of < 0).sum()) + len(start) - 1)
    else:
        sent, requests = push(values, table, links, of, options.chooser == "least-push")
    start_feedback(table, None, options.gamma)
    return _counted(trace, options, names, queries, table, sent, np.full(len(table), float(trace.ticks)), requests)


def _polled(
    trace: Trace, queries: Sequence[Aggregate], options: Options, names: tuple[str, ...], values: Floats, history: bool
) -> Run:
    settings = options.settings(report=history)
    table, links = queries_of(queries, {name: k for k, name in enumerate(names)})
    start_feedback(table, options.first_safety, options.gamma)
    items, chains = fresh_items(
        names, options.states, options.seed, propagate=options.execution == "expected", past=options.past
    )
    set_bounds(items, table, links, options.states)
    items["cost"] = options.charges(names)
    items["server"], servers = options.hosts(names)
    seen = fresh_window(
        links,
        len(names),
        settings.window,
        used=settings.feedback != OFF or history,
        doubted=history or settings.feedback == HONEST,
        calibrated=settings.calibrated,
    )
    lanes = lanes_of(table if settings.chooser in ANY_OVER else table[:0], links, len(names))
    rows = rows_of(table if settings.chooser == RISK else table[:0], links, len(names), options.first_doubt)
    together = nothing_together(len(names), settings.max_interval, options.correlated)
    kept = np.full(((trace.ticks - 1) // settings.window if history else 0, 3), np.nan)
    sent, good, requests = _run(
        values, table, links, lanes, rows, items, chains, seen, together, settings, servers, room_for(len(names)), kept
    )
    windows = Windows(*(kept[:, k].copy() for k in range(3))) if history else None
    return _counted(trace, options, names, queries, table, sent, good, int(requests), windows)


def _counted(
    trace: Trace,
    options: Options,
    names: tuple[str, ...],
    queries: Sequence[Aggregate],
    table: Records,
    sent: Integers,
    good: Floats,
    requests: int,
    windows: Windows | None = None,
) -> Run:
    by_item = dict.fromkeys(trace.items, 0) | dict(zip(names, sent.tolist(), strict=True))
    labels = [query.name for query in queries]
    return Run(
        pulls=int(sent.sum()),
        pulls_by_item=by_item,
        fidelity=dict(zip(labels, (good / trace.ticks).tolist(), strict=True)),
        cost=float(options.charges(names) @ sent) + options.request_cost * requests,
        requests=requests,
        safety=dict(zip(labels, table["safety"].tolist(), strict=True)),
        windows=windows,
    )


def _readings(trace: Trace, index: Mapping[str, int]) -> Floats:
    """The values of the items that queries refer to, gaps filled; float64[ticks, items]."""
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
def _run(
    values: Floats, queries: Records, links: Links, lanes: Lanes, rows: Rows, items: Records, chains: Chains,
    window: Window, together: Together, settings: Settings, servers: tuple[Integers, Integers, Integers], room: Room,
    kept: Floats,
) -> tuple[Integers, Floats, int]:  # fmt: skip
    """Pulls by item, ticks within bounds by query, requests. kept[windows, 3]: what `Windows` shows, or empty."""
    ticks, n = values.shape
    sent, good = np.zeros(n, np.int64), np.ones(len(queries))
    apart, held = np.zeros((n, BLOCK)), np.zeros((n, BLOCK) if links.ordered.size > 0 else (0, 0))
    hint, asked, means, before = np.zeros(1, np.int64), np.full(n, -1, np.int64), np.full(2, np.nan), good.sum()
    path, sums, correlation = np.empty(ticks if settings.intermediates else 0), np.empty(BLOCK), together.correlation
    remembered, estimated = window.held, window.apart.size > 0
    requests, filled = 0, 0
    for i in range(n):
        items[i].marked = True
    for t in range(ticks):
        if t > 0:
            advance(items, chains, t)
            decide(queries, links, lanes, rows, items, correlation, settings, servers, room, hint, t)
        requests += _pull(values, rows, items, chains, window, together, settings, t, path, sent, asked)
        if t == 0:
            continue
        _see(values, items, remembered, t, settings.window, apart, held, filled)
        filled += 1
        end = t % settings.window == 0
        if filled == BLOCK or end or t == ticks - 1:
            add_within(queries, links, apart, held, filled, sums, good)
            filled = 0
        close(rows, items, together, settings, t, 1)
        if settings.calibrated:
            draw(items, chains, window, t)
        if end and estimated:
            end_window(queries, links, rows, items, window, t, 0, settings, means)
            set_limits(lanes, queries)
        if end and kept.size > 0:
            k = t // settings.window - 1
            kept[k, 0] = (good.sum() - before) / settings.window / good.size
            kept[k, 1], kept[k, 2] = means[0], means[1]
            before = good.sum()
    return sent, good, requests


@borrowing
def _pull(
    values: Floats, rows: Rows, items: Records, chains: Chains, window: Window, together: Together,
    settings: Settings, tick: int, path: Floats, sent: Integers, asked: Integers,
) -> int:  # fmt: skip
    """Pull what is marked; how many requests that takes. asked: tick of the last one, by server."""
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
        take(rows, items, chains, window, together, settings, i, values[tick, i], tick, tick, path[:missed])
    return requests


@borrowing
def _see(
    values: Floats, items: Records, remembered: Floats, tick: int, size: int, apart: Floats, held: Floats, column: int
) -> None:
    """Write down how far each item's value in use is from its true one, after the pulls."""
    for i in range(len(items)):
        used = shown(items[i], tick)
        apart[i, column] = values[tick, i] - used
        if held.size > 0:
            held[i, column] = used
            if remembered.size > 0:
                remembered[i, (tick - 1) % size] = used
