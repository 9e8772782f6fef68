"""What status and explain show of a coordinator: queries, their answers, and the width and rate of items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tolerant.filters.item_membership import Membership, RegisteredQuery
from tolerant.filters.ladder import RUNGS
from tolerant.filters.rate_curves import decoded, rate_at
from tolerant.filters.state import NOTHING, SETTLING, STALE, Flags, Floats, Integers, ItemArrays
from tolerant.kernels.compiled import compiled
from tolerant.queries import Answer

FACTORS = (0.5, 0.8, 1.25, 2.0)
"""Alternative widths that `explain` shows, as multiples of the present ones."""


class QueryStatus(NamedTuple):
    """A query's number of items, and whether its answer is stale or settling."""

    items: int
    stale: bool
    settling: bool


class ItemView(NamedTuple):
    """Columns of items. `pace`: updates per period, smoothed; `burden`: cost per tick and unit of width; `elsewhere`:
    updates at FACTORS times the width relative to the present ones, float64[items, factors].
    """

    names: list[str]
    width: Floats
    believed: Floats
    centre: Floats
    total: Integers
    pace: Floats
    burden: Floats
    stale: Flags
    elsewhere: Floats


def query_statuses(membership: Membership, names: Iterable[str]) -> list[QueryStatus]:
    """The status of each of these queries."""
    statuses = []
    for name in names:
        flags = max(int(membership.queries.emitted_flags[membership.query_index[name]]), 0)
        counted = membership.counted_items(membership.query(name))
        statuses.append(QueryStatus(counted, bool(flags & STALE), bool(flags & SETTLING)))
    return statuses


def item_view(membership: Membership, items: Integers, granted: Floats, period: int, tick: int) -> ItemView:
    """Columns of these items; `granted`: the newest width of every item index; `period`: in ticks."""
    state, width = membership.items, granted[items]
    finite = np.isfinite(width) & (width > 0)
    rate = state.cost[items] * state.pace[items] / period
    return ItemView(
        [str(membership.item_names[item]) for item in items.tolist()],
        width,
        state.width[items],
        state.level[items] + state.slope[items] * (tick - state.since[items]),
        state.total[items],
        state.pace[items],
        np.where(finite, rate / np.where(finite, width, 1.0), 0.0),
        state.stale[items],
        _elsewhere(membership, items, width),
    )


def _elsewhere(membership: Membership, items: Integers, width: Floats) -> Floats:
    """By the rate curve that the item's source reported; without one, as a walk, whose rate is ∝ 1/width²."""
    state, factors = membership.items, np.array(FACTORS)
    ratios = np.tile(factors**-2.0, (len(items), 1))
    measured = np.flatnonzero((state.unit[items] > 0) & np.isfinite(width) & (width > 0))
    chosen = items[measured]
    ratios[measured] = _ratios(decoded(state.curves[chosen, :RUNGS]), state.unit[chosen], width[measured], factors)
    return ratios


@compiled
def _ratios(curves: Floats, units: Floats, widths: Floats, factors: Floats) -> Floats:
    ratios = np.empty((units.size, factors.size))
    for item in range(units.size):
        present = rate_at(curves[item], units[item], widths[item])
        for k in range(factors.size):
            ratios[item, k] = rate_at(curves[item], units[item], factors[k] * widths[item]) / present
    return ratios


def last_answers(membership: Membership, at: int) -> list[Answer]:
    """The last answer of every query, as of `at`; omits queries with an item that has no value yet."""
    answers = []
    for query, registered in enumerate(membership.registered):
        if registered is not None and all(membership.items.seen[item] for item in registered.weights):
            state = membership.queries
            low, value, high = state.emitted_low[query], state.emitted_value[query], state.emitted_high[query]
            flags = int(state.emitted_flags[query])
            answers.append(answer_of(registered.name, at, float(low), float(value), float(high), flags))
    return answers


def narrowed(answer: Answer, registered: RegisteredQuery, items: ItemArrays, now: int, allowance: int) -> Answer:
    """Narrow an answer of `now` by the most that its items can have changed since their last updates
    (`docs/design/filters.md` §5.4).

    An item's pad is twice the most that it changes in an `allowance`.
    """
    if registered.fn == "count" or not answer.settled or answer.low is None or answer.high is None:
        return answer
    which = np.fromiter(registered.weights, np.int64, len(registered.weights))
    weights = np.fromiter(registered.weights.values(), np.float64, len(which))
    fastest = items.pad[which] / 2 / allowance
    half = np.minimum((items.width[which] + items.pad[which]) / 2, fastest * np.maximum(now - items.since[which], 0))
    if registered.fn in ("min", "max"):
        extreme = np.min if registered.fn == "min" else np.max
        centre = items.level[which[weights != 0]]
        low, high = extreme(centre - half[weights != 0]), extreme(centre + half[weights != 0])
    else:
        share = len(which) if registered.fn == "avg" else 1
        advance_to, value = float(np.abs(weights) @ half) / share, answer.value or 0.0
        low, high = value - advance_to, value + advance_to
    return replace(answer, low=max(float(low), answer.low), high=min(float(high), answer.high))


def answer_of(name: str, at: int, low: float, value: float, high: float, flags: int, group: str = "") -> Answer:
    """An `Answer`; ends that are not finite are None."""
    ends = [end if np.isfinite(end) and not flags & NOTHING else None for end in (low, value, high)]
    return Answer(name, at, ends[0], ends[1], ends[2], group, bool(flags & STALE), bool(flags & SETTLING))
