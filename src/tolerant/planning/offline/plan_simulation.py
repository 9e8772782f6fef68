"""Runs a plan over a recorded trace: what is sent, and whether the promise is kept (`docs/design/planning.md` §2.9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.optimizer.plan_problem import effective_weights
from tolerant.planning.planning_arrays import CODES, GRID, MAX, SUM, Floats, Integers
from tolerant.planning.query_plan import Plan
from tolerant.traces import Trace


@dataclass(frozen=True)
class Run:
    """What a simulation counted.

    refreshes: messages from aggregators to the client, `by_part` in the plan's order. violations: ticks at which the
    answer was further from the truth than promised. feeds: changes of copies, which no plan can save. level_messages:
    messages from the client to aggregators (`simulate_levels`).
    """

    refreshes: int
    violations: int
    by_part: tuple[int, ...] = field(default=())
    feeds: int = 0
    level_messages: int = 0


def simulate(plan: Plan, trace: Trace) -> Run:
    """Count the refreshes that the plan needs over the trace, and the ticks at which its promise is broken (none).

    Raises:
        ValueError: an item of the plan is not in the trace, or they never all have a reading.
    """
    layout = lay_out(plan, trace)
    refreshes, feeds, violations = _replay(
        trace.values, layout.start, layout.wiring, layout.used, layout.weights, plan.query.within, layout.code
    )
    return Run(int(refreshes.sum()), int(violations), tuple(refreshes.tolist()), int(feeds))


class Wiring(NamedTuple):
    """Copies, each fed by the source (above −1) or by an earlier copy; and parts, each a range of (copy, weight).

    item: its index among the query's items. step float64: how far the copy may be behind what feeds it.
    """

    item: Integers
    above: Integers
    step: Floats
    first: Integers
    copy: Integers
    weight: Floats
    push: Floats


class TraceLayout(NamedTuple):
    """A plan prepared for a trace: its first tick, the columns of its items, their weights, and its function's code."""

    start: int
    wiring: Wiring
    used: Integers
    weights: Floats
    code: int


def lay_out(plan: Plan, trace: Trace) -> TraceLayout:
    """Return what the loops over a trace need.

    Raises:
        ValueError: an item of the plan is not in the trace, or they never all have a reading.
    """
    weights = effective_weights(plan.query)
    columns = {item: column for column, item in enumerate(trace.items)}
    for item in weights:
        if item not in columns:
            raise ValueError(f"query {plan.query.name!r} has the item {item!r}, which is not in the trace")
    used = np.array([columns[item] for item in weights], np.int64)
    start = _start(trace.values, used)
    if start < 0:
        raise ValueError(f"the items of query {plan.query.name!r} never all have a reading in the trace")
    wiring = _wiring(plan, {item: place for place, item in enumerate(weights)})
    return TraceLayout(start, wiring, used, np.array(list(weights.values())), CODES[plan.query.fn])


def _wiring(plan: Plan, places: dict[str, int]) -> Wiring:
    copies: dict[tuple[str, str], int] = {}
    item: list[int] = []
    above: list[int] = []
    step: list[float] = []
    first, copy, weight, push = [0], [], [], []
    for part in plan.parts:
        for name, factor in part.weights.items():
            feed = -1
            for aggregator in plan.network.path(part.aggregator, name):
                if (aggregator, name) not in copies:
                    copies[aggregator, name] = len(item)
                    item.append(places[name])
                    above.append(feed)
                    step.append(plan.network.step(aggregator, name) * (1 + GRID))
                feed = copies[aggregator, name]
            copy.append(feed)
            weight.append(factor)
        first.append(len(copy))
        push.append(part.push + GRID * part.within)
    integers = (np.array(array, np.int64) for array in (item, above, first, copy))
    i, a, f, c = integers
    return Wiring(i, a, np.array(step), f, c, np.array(weight, np.float64), np.array(push))


@compiled
def _start(values: Floats, used: Integers) -> int:
    """Return the first tick by which every item has had a reading; −1: never."""
    start = 0
    for column in used:
        tick = 0
        while tick < values.shape[0] and np.isnan(values[tick, column]):
            tick += 1
        start = max(start, tick)
    return start if start < values.shape[0] else -1


@compiled
def _combined(code: int, so_far: float, more: float) -> float:
    if code == SUM:
        return so_far + more
    return max(so_far, more) if code == MAX else min(so_far, more)


@compiled
def _neutral(code: int) -> float:
    if code == SUM:
        return 0.0
    return -np.inf if code == MAX else np.inf


@compiled
def _part_value(wiring: Wiring, copies: Floats, part: int, code: int) -> float:
    total = _neutral(code)
    for k in range(wiring.first[part], wiring.first[part + 1]):
        total = _combined(code, total, wiring.weight[k] * copies[wiring.copy[k]])
    return total


@compiled
def _replay(
    values: Floats, start: int, wiring: Wiring, used: Integers, weights: Floats, within: float, code: int
) -> tuple[Integers, int, int]:
    """Return refreshes of each part, changes of copies, and violations."""
    parts = wiring.push.size
    now = np.full(used.size, np.nan)
    for tick in range(start + 1):
        for k in range(used.size):
            if not np.isnan(values[tick, used[k]]):
                now[k] = values[tick, used[k]]
    copies = now[wiring.item]
    sent = np.empty(parts)
    for part in range(parts):
        sent[part] = _part_value(wiring, copies, part, code)
    refreshes = np.zeros(parts, np.int64)
    feeds, violations = 0, 0
    for tick in range(start + 1, values.shape[0]):
        truth, size = _neutral(code), 0.0
        for k in range(used.size):
            value = values[tick, used[k]]
            now[k] = now[k] if np.isnan(value) else value
            truth = _combined(code, truth, weights[k] * now[k])
            size += abs(weights[k] * now[k])
        for k in range(copies.size):
            offered = now[wiring.item[k]] if wiring.above[k] < 0 else copies[wiring.above[k]]
            if abs(offered - copies[k]) > wiring.step[k]:
                copies[k] = offered
                feeds += 1
        answer = _neutral(code)
        for part in range(parts):
            value = _part_value(wiring, copies, part, code)
            if abs(value - sent[part]) > wiring.push[part]:
                sent[part] = value
                refreshes[part] += 1
            answer = _combined(code, answer, sent[part])
        if abs(answer - truth) > within * (1.0 + 1e-6) + GRID * size:
            violations += 1
    return refreshes, feeds, violations
