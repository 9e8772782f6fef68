"""What people ask about a coordinator: how queries stand, who holds how much of the tolerance, and what it sends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tolerant.filters.book import Book, Member
from tolerant.filters.curves import decoded, rate_at
from tolerant.filters.ladder import RUNGS
from tolerant.filters.state import NOTHING, SETTLING, STALE, Flags, Floats, Integers, Items
from tolerant.kernels.compiled import compiled
from tolerant.queries import Answer

FACTORS = (0.5, 0.8, 1.25, 2.0)
"""Other widths that are asked about, as multiples of the present ones."""


class Standing(NamedTuple):
    """How a query stands: its number of items, and whether its answer is stale or settling."""

    items: int
    stale: bool
    settling: bool


class ItemView(NamedTuple):
    """Items side by side. `pace`: updates a period, smoothed; `burden`: cost a tick and unit of width; `elsewhere`: by
    how much the item would send more or less at FACTORS times its width, float64[items, factors].
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


def standing(book: Book, names: Iterable[str]) -> list[Standing]:
    """How each of these queries stands."""
    found = []
    for name in names:
        flags = max(int(book.queries.said_flags[book.query_index[name]]), 0)
        counted = book.counted(book.member(name))
        found.append(Standing(counted, bool(flags & STALE), bool(flags & SETTLING)))
    return found


def item_view(book: Book, items: Integers, granted: Floats, period: int, tick: int) -> ItemView:
    """These items; `granted` has the newest width of every item, `period` is in ticks, `tick` is the present one."""
    state, width = book.items, granted[items]
    finite = np.isfinite(width) & (width > 0)
    rate = state.cost[items] * state.pace[items] / period
    return ItemView(
        [str(book.item_names[item]) for item in items.tolist()],
        width,
        state.width[items],
        state.level[items] + state.slope[items] * (tick - state.since[items]),
        state.total[items],
        state.pace[items],
        np.where(finite, rate / np.where(finite, width, 1.0), 0.0),
        state.stale[items],
        _elsewhere(book, items, width),
    )


def _elsewhere(book: Book, items: Integers, width: Floats) -> Floats:
    """By the curve that the item's source has measured; where there is none, as a walk: rates go with 1/width²."""
    state, factors = book.items, np.array(FACTORS)
    found = np.tile(factors**-2.0, (len(items), 1))
    measured = np.flatnonzero((state.unit[items] > 0) & np.isfinite(width) & (width > 0))
    chosen = items[measured]
    found[measured] = _ratios(decoded(state.curves[chosen, :RUNGS]), state.unit[chosen], width[measured], factors)
    return found


@compiled
def _ratios(curves: Floats, units: Floats, widths: Floats, factors: Floats) -> Floats:
    found = np.empty((units.size, factors.size))
    for item in range(units.size):
        present = rate_at(curves[item], units[item], widths[item])
        for k in range(factors.size):
            found[item, k] = rate_at(curves[item], units[item], factors[k] * widths[item]) / present
    return found


def last_answers(book: Book, at: int) -> list[Answer]:
    """What was last said of every query, as of `at`; a query with an item that has no value yet is left out."""
    found = []
    for query, member in enumerate(book.members):
        if member is not None and all(book.items.seen[item] for item in member.weights):
            said = book.queries
            low, value, high = said.said_low[query], said.said_value[query], said.said_high[query]
            flags = int(said.said_flags[query])
            found.append(answer_of(member.name, at, float(low), float(value), float(high), flags))
    return found


def narrowed(answer: Answer, member: Member, items: Items, now: int, allowance: int) -> Answer:
    """An answer of `now` by how little its items can have changed since their last updates (`specs/1-filters.md` §5.4).

    Their pads say how much they change in an `allowance`.
    """
    if member.fn == "count" or not answer.settled or answer.low is None or answer.high is None:
        return answer
    which = np.fromiter(member.weights, np.int64, len(member.weights))
    weights = np.fromiter(member.weights.values(), np.float64, len(which))
    fastest = items.pad[which] / 2 / allowance
    half = np.minimum((items.width[which] + items.pad[which]) / 2, fastest * np.maximum(now - items.since[which], 0))
    if member.fn in ("min", "max"):
        extreme = np.min if member.fn == "min" else np.max
        centre = items.level[which[weights != 0]]
        low, high = extreme(centre - half[weights != 0]), extreme(centre + half[weights != 0])
    else:
        share = len(which) if member.fn == "avg" else 1
        reach, value = float(np.abs(weights) @ half) / share, answer.value or 0.0
        low, high = value - reach, value + reach
    return replace(answer, low=max(float(low), answer.low), high=min(float(high), answer.high))


def answer_of(name: str, at: int, low: float, value: float, high: float, flags: int, group: str = "") -> Answer:
    """An answer as people and programs read it: ends that are not finite are None."""
    ends = [end if np.isfinite(end) and not flags & NOTHING else None for end in (low, value, high)]
    return Answer(name, at, ends[0], ends[1], ends[2], group, bool(flags & STALE), bool(flags & SETTLING))
