"""One tick of the poller: which items to ask for (`specs/2-polling.md` §2.2).

`simulate` and `Poller` run these same functions in the same order, so they decide the same.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.polling.arrays import Floats, Integers, Links, Records, Settings
from tolerant.polling.choosers import (
    choose_all,
    choose_max,
    choose_max_of_over,
    choose_per_item,
    choose_positive_negative,
)
from tolerant.polling.limits import trim
from tolerant.polling.risk import Rows, choose_risk, mark, refresh, settle
from tolerant.polling.together import Together, compare

EVERY_TICK, ALL, PER_ITEM, POSITIVE_NEGATIVE, MAX, RISK, MAX_OVER, MAX_REPEATED = range(8)


@borrowing
def mark_due(rows: Rows, items: Records, every: bool, tick: int) -> None:
    """Mark the items that have to be asked for whatever the chooser says (§2.5)."""
    for i in range(len(items)):
        item = items[i]
        if item.blocked > tick:
            continue
        if every or item.always or item.last < 0 or tick - item.last >= item.cap:
            mark(rows, items, i, tick)


@compiled
def mark_predicted(
    queries: Records, links: Links, items: Records, chooser: int, ratio: float, hint: Integers, tick: int
) -> None:
    """Mark what a chooser of the seed wants, from predictions only. What is blocked counts as unchanged."""
    n = len(items)
    values, changes, reach = np.empty(n), np.zeros(n), np.empty(n)
    marked = np.zeros(n, np.bool_)
    for i in range(n):
        values[i], reach[i] = items[i].value, items[i].reach
        if not items[i].marked and items[i].blocked <= tick:
            changes[i] = items[i].predicted
    if chooser == 1:
        choose_all(queries, links, values, changes, marked)
    elif chooser == 2:
        choose_per_item(queries, links, changes, marked)
    elif chooser == 3:
        choose_positive_negative(queries, links, values, changes, marked)
    elif chooser == 6:
        choose_max_of_over(queries, links, values, changes, ratio, marked)
    again = chooser == 4 or chooser == 7
    while again:
        again = choose_max(queries, links, values, changes, reach, ratio, hint, marked) and chooser == 7
    for i in range(n):
        if marked[i] and items[i].blocked <= tick:
            items[i].marked = True


@compiled
def decide(
    queries: Records, links: Links, rows: Rows, items: Records, correlation: Floats, settings: Settings,
    servers: tuple[Integers, Integers, Integers], hint: Integers, tick: int,
) -> None:  # fmt: skip
    """Mark the items to ask for at the tick after the last one, every chain having been advanced to it."""
    pressure = np.full(len(items), np.nan)
    risky = settings.chooser == 5
    if risky:
        refresh(rows, items, tick)
    mark_due(rows, items, settings.chooser == 0, tick)
    if risky:
        choose_risk(rows, items, tick, pressure, servers[0], servers[1], correlation)
    elif settings.chooser != 0:
        mark_predicted(queries, links, items, settings.chooser, settings.pull_ratio, hint, tick)
    if settings.limit > 0 or servers[2].size > 0:
        trim(rows, items, tick, settings.limit, servers[2], risky, pressure)


@borrowing
def close(rows: Rows, items: Records, together: Together, settings: Settings, tick: int, ticks: int) -> None:
    """The end of a tick after its pulls, but for the feedback. ticks: up to the next one."""
    if settings.chooser == 5:
        settle(rows, items, tick, ticks, together.correlation)
    if together.points.size > 0 and tick % 30 == 0:
        compare(together, tick, settings.max_interval)
