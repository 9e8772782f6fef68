"""One tick of the poller: which items to ask for (`specs/2-polling.md` §2.2).

`simulate` and `Poller` run these same functions in the same order, so they decide the same.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import borrowing
from tolerant.polling.arrays import Floats, Integers, Links, Records, Room, Settings
from tolerant.polling.choosers import (
    choose_all,
    choose_max,
    choose_max_of_over,
    choose_per_item,
    choose_positive_negative,
)
from tolerant.polling.lanes import Lanes
from tolerant.polling.limits import trim
from tolerant.polling.risk import Rows, choose_risk, lost, mark, refresh, settle
from tolerant.polling.together import Together, compare

EVERY_TICK, ALL, PER_ITEM, POSITIVE_NEGATIVE, MAX, RISK, MAX_OVER, MAX_REPEATED = range(8)
ANY_OVER = (MAX, MAX_REPEATED)
"""Choosers that ask at each tick whether any query is over."""


@borrowing
def mark_due(rows: Rows, items: Records, every: bool, tick: int) -> None:
    """Mark the items that have to be asked for whatever the chooser says (§2.5)."""
    for i in range(len(items)):
        item = items[i]
        if item.blocked > tick:
            continue
        if every or item.always or item.last < 0 or tick - item.last >= item.cap or lost(item, tick):
            mark(rows, items, i, tick)


@borrowing
def mark_predicted(
    queries: Records, links: Links, lanes: Lanes, items: Records, chooser: int, ratio: float, room: Room,
    hint: Integers, tick: int,
) -> None:  # fmt: skip
    """Mark what a chooser of the seed wants, from predictions only. What is blocked counts as unchanged."""
    for i in range(len(items)):
        item = items[i]
        room.values[i], room.reach[i], room.marked[i] = item.value, item.reach, False
        room.changes[i] = item.predicted if not item.marked and item.blocked <= tick else 0.0
    if chooser == 1:
        choose_all(queries, links, room.values, room.changes, room.marked)
    elif chooser == 2:
        choose_per_item(queries, links, room.changes, room.marked)
    elif chooser == 3:
        choose_positive_negative(queries, links, room)
    elif chooser == 6:
        choose_max_of_over(queries, links, room, ratio)
    again = chooser == 4 or chooser == 7
    while again:
        again = choose_max(queries, links, lanes, room, ratio, hint) and chooser == 7
    for i in range(len(items)):
        if room.marked[i] and items[i].blocked <= tick:
            items[i].marked = True


@borrowing
def decide(
    queries: Records, links: Links, lanes: Lanes, rows: Rows, items: Records, correlation: Floats, settings: Settings,
    servers: tuple[Integers, Integers, Integers], room: Room, hint: Integers, tick: int,
) -> None:  # fmt: skip
    """Mark the items to ask for at the tick after the last one, every chain having been advanced to it."""
    risky = settings.chooser == 5
    if risky:
        room.pressure[:] = np.nan
        refresh(rows, items, tick)
    mark_due(rows, items, settings.chooser == 0, tick)
    if risky:
        choose_risk(rows, items, tick, room.pressure, servers[0], servers[1], correlation)
    elif settings.chooser != 0:
        mark_predicted(queries, links, lanes, items, settings.chooser, settings.pull_ratio, room, hint, tick)
    if settings.limit > 0 or servers[2].size > 0:
        trim(rows, items, tick, settings.limit, servers[2], risky, room.pressure)


@borrowing
def close(rows: Rows, items: Records, together: Together, settings: Settings, tick: int, ticks: int) -> None:
    """The end of a tick after its pulls, but for the feedback. ticks: up to the next one."""
    if settings.chooser == 5:
        settle(rows, items, tick, ticks, together.correlation)
    if together.points.size > 0 and tick % 30 == 0:
        compare(together, tick, settings.max_interval)
