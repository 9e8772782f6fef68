"""Runs the plan of a minimum or maximum over a recorded trace, with levels for its parts (`docs/design/planning.md`
§2.8).
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.planning.levels import APART, PUSHES
from tolerant.planning.offline.plan_simulation import Run, Wiring, lay_out
from tolerant.planning.planning_arrays import GRID, MAX, Floats, Integers
from tolerant.planning.query_plan import Plan
from tolerant.traces import Trace


def simulate_levels(plan: Plan, trace: Trace, period: int = 10) -> Run:
    """Count as `simulate` does, for a minimum or maximum whose client sets levels of parts every `period` ticks and
    withdraws them when it must; `level_messages` counts both, and each is answered by a refresh.

    Raises:
        ValueError: the plan is of no minimum or maximum, or what `simulate` raises.
    """
    if plan.query.fn not in ("min", "max"):
        raise ValueError(f"levels are for min and max, query {plan.query.name!r} is a {plan.query.fn}")
    if period < 1:
        raise ValueError(f"period must be at least 1 tick, got {period}")
    layout = lay_out(plan, trace)
    refreshes, level_messages, feeds, violations = _replay(
        trace.values, layout.start, layout.wiring, layout.used, layout.weights, plan.query.within, layout.code, period
    )
    return Run(int(refreshes.sum()), int(violations), tuple(refreshes.tolist()), int(feeds), int(level_messages))


@compiled
def _part_top(wiring: Wiring, copies: Floats, part: int, sign: float) -> float:
    """Return the part's value where it is a maximum, its negative where it is a minimum: a maximum then too."""
    top = -np.inf
    for k in range(wiring.first[part], wiring.first[part + 1]):
        top = max(top, sign * wiring.weight[k] * copies[wiring.copy[k]])
    return top


@compiled
def _replay(  # noqa: C901
    values: Floats, start: int, wiring: Wiring, used: Integers, weights: Floats, within: float, code: int, period: int
) -> tuple[Integers, int, int, int]:
    """Return refreshes of each part, level messages, changes of copies, and violations; minima become maxima."""
    parts, sign = wiring.push.size, 1.0 if code == MAX else -1.0
    now = np.full(used.size, np.nan)
    for tick in range(start + 1):
        for k in range(used.size):
            if not np.isnan(values[tick, used[k]]):
                now[k] = values[tick, used[k]]
    copies = now[wiring.item]
    tops, sent, levels = np.empty(parts), np.empty(parts), np.full(parts, -np.inf)
    for part in range(parts):
        sent[part] = _part_top(wiring, copies, part, sign)
    refreshes, pushes = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    level_messages, feeds, violations = 0, 0, 0
    for tick in range(start + 1, values.shape[0]):
        truth, size = -np.inf, 0.0
        for k in range(used.size):
            value = values[tick, used[k]]
            now[k] = now[k] if np.isnan(value) else value
            truth = max(truth, sign * weights[k] * now[k])
            size += abs(weights[k] * now[k])
        for k in range(copies.size):
            offered = now[wiring.item[k]] if wiring.above[k] < 0 else copies[wiring.above[k]]
            if abs(offered - copies[k]) > wiring.step[k]:
                copies[k] = offered
                feeds += 1
        for part in range(parts):
            tops[part] = _part_top(wiring, copies, part, sign)
            if abs(max(tops[part], levels[part]) - sent[part]) > wiring.push[part]:
                sent[part] = max(tops[part], levels[part])
                refreshes[part] += 1
                pushes[part] += 1
        answer, hidden = _largest_seen(sent, levels, within), False
        for part in range(parts):
            hidden |= sent[part] - within <= levels[part] and sent[part] > answer
        for part in range(parts):
            wanted = levels[part]
            if sent[part] - within <= levels[part] and sent[part] > answer:
                wanted = -np.inf
            elif not hidden and (tick - start) % period == 0 and pushes[part] >= PUSHES and sent[part] != levels[part]:
                wanted = (answer + sent[part]) / 2.0 if answer - sent[part] > APART * within else wanted
            if wanted != levels[part]:
                levels[part] = wanted
                sent[part] = max(tops[part], wanted)
                refreshes[part] += 1
                pushes[part] = 0
                level_messages += 1
        if abs(_largest_seen(sent, levels, within) - truth) > within * (1.0 + 1e-6) + GRID * size:
            violations += 1
    return refreshes, level_messages, feeds, violations


@compiled
def _largest_seen(sent: Floats, levels: Floats, within: float) -> float:
    """Return the largest value that is known not to be a level."""
    best = -np.inf
    for part in range(sent.size):
        if sent[part] - within > levels[part]:
            best = max(best, sent[part])
    return best
