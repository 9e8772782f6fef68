"""`"risk"` on data that is no walk: what recorded values do differently is learned, and what is missed is held against
what the model expected (`specs/2-polling.md` §5.1, §5.5, and beyond them).

Four things, each from the pulls alone:
- How the variance grows with the age: ρ·a^h. Two changes in a row that undo each other say that it does not (spikes,
  noise: h near 0), two that go on in the same direction that it grows faster than a walk's.
- How wild the item is just now: most of ρ is from its last five pulls or so.
- How often each query was off: by the honest estimate, and by spikes that nobody saw, which are drawn from the items'
  own leaps as if they could come at any age.
- How many times that is what the model expected: every query's *doubt*, drawn towards that of all queries, since one
  query alone is off too rarely to be judged by; and if all together are off more often than they may, a common *haste*.
"""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.kernels.random import bits_at
from tolerant.polling.arrays import Chains, Floats, Links, Record, Records, Window
from tolerant.polling.risk import Rows

PAST = 64
"""Errors at pulls that are remembered of an item."""
LEAP = 3.5
"""How many deviations make an error a leap: of normal ones hardly any."""
SHORT, TRIES = 16, 7
"""Before its interval may grow beyond so many ticks, an item is asked about so many times at each length: rare spikes
of a quiet item would else be found by the users.
"""
FIRST_DOUBT = 8.0
"""Where cautious: how many times its risk is thought to be what the model says while nothing shows it. Jumps are rare,
and what has not been seen yet is not known. Measured on walks with jumps, from their first tick on.
"""
LEAST_DOUBT = 2.0
"""Where cautious: the same once it has been shown, at least: so that not only a long time keeps what is claimed."""
FEW = 5.0
"""Where cautious: after so many pulls an item is reckoned with at twice the variance seen, then ever less."""
KEPT = 0.8
"""Part of what was missed and feared that still counts a window later."""
PRIOR = 10.0
"""Misses by which a query is judged as all are."""
BIAS = 1.2
"""How many times what is feared is thought to be missed where the model is right: on a walk."""
AIM = 0.6
"""Part of the misses allowed to all queries together at which haste begins: what is seen is the lesser part of what
happens on spiky data.
"""


@compiled
def may_grow(item: Record, ticks: int, cautious: bool) -> bool:
    """Whether the longest interval between pulls of an item may be doubled, after one of so many ticks.

    Where cautious, only intervals of that length count: items that are pulled often are not known for longer ones.
    """
    return bool(item.cap < SHORT or (item.pulls % TRIES == 0 and not (cautious and ticks < item.cap)))


@compiled
def learn_variance(item: Record, change: float, error: float, ticks: int) -> None:
    """Learn h and ρ from the change since the last pull, and from how far off the value in use was."""
    share = max(0.02, 1.0 / item.pulls)
    long = max(0.005, 1.0 / item.pulls)
    item.square += long * (min(change * change, 1e280) - item.square)
    item.pair += long * (max(min(change * item.change, 1e280), -1e280) - item.pair)
    item.change = change
    # E (a + b)² = 2^h · E a² for changes a, b over equally many ticks; with few of them, as of a walk.
    together = item.pair / item.square * item.pulls / (item.pulls + 30.0) if item.square > 0.0 else 0.0
    growth = min(max(1.0 + math.log2(max(1.0 + together, 0.5)), 0.1), 1.9)
    item.usual += share * (ticks - item.usual)
    turned = math.pow(item.usual, item.growth - growth)  # another h, the same variance at the usual age
    one = min(error * error, 1e280) / math.pow(ticks, growth)
    item.growth = growth
    item.slow = item.slow * turned + share * (one - item.slow * turned)
    item.quick = item.quick * turned + max(0.2, 1.0 / item.pulls) * (one - item.quick * turned)
    item.variance = 0.4 * item.slow + 0.6 * item.quick


@borrowing
def remember_error(item: Record, chains: Chains, i: int, error: float, ticks: int) -> None:
    """Remember how far off the value in use was at a pull; before anything is learned from it."""
    scale = math.pow(ticks, item.growth)
    leap = item.pulls > 20 and error * error > LEAP * LEAP * item.slow * scale
    place = item.pulls % PAST
    chains.past[i, place] = error if leap else error / math.sqrt(scale)
    chains.leapt[i, place] = leap


@borrowing
def draw(items: Records, chains: Chains, window: Window, tick: int) -> None:
    """Let every item be off as it was at one of its last pulls: by as much if it leapt then, else by its age."""
    column = (tick - 1) % window.drawn.shape[1]
    for i in range(len(items)):
        item = items[i]
        known = min(item.pulls - 1, PAST)
        window.drawn[i, column], window.leapt[i, column] = 0.0, False
        if known > 0 and tick > item.last:
            back = int(bits_at(item.key, np.uint64(tick)) % np.uint64(known))
            place = (item.pulls - 1 - back) % PAST
            leapt = chains.leapt[i, place]
            window.leapt[i, column] = leapt
            window.drawn[i, column] = chains.past[i, place]
            if not leapt:
                window.drawn[i, column] *= math.pow(tick - item.last, item.growth / 2.0)


@borrowing
def leaps_unseen(query: Record, q: int, links: Links, window: Window) -> int:
    """At how many ticks of the window the query would have been off by leaps as drawn; of linear queries.

    q: the query's place, whose excused ticks do not count.
    """
    found = 0
    for t in range(window.drawn.shape[1] if query.kind == 0 else 0):
        off, leapt = 0.0, False
        for k in range(query.start, query.stop):
            i = links.items[k]
            off += links.weights[k] * window.drawn[i, t]
            leapt = leapt or window.leapt[i, t]
        excused = window.excused.size > 0 and window.excused[q, t] > 1
        found += leapt and not excused and abs(off) > query.bound
    return found


@borrowing
def calibrate(
    queries: Records, rows: Rows, links: Links, window: Window, missed_now: Floats, judged: Floats, cautious: bool
) -> None:
    """Hold what was missed in a window against what was feared, and set every row's doubt.

    missed_now: at how many of its ticks each query was beyond its bound, by the honest estimate; judged: of how many.
    """
    table = rows.table
    for q in range(len(queries)):
        query = queries[q]
        query.missed = KEPT * query.missed + missed_now[q] + leaps_unseen(query, q, links, window)
        query.feared *= KEPT
        query.recent = KEPT * query.recent + judged[q]
    for r in range(len(table)):
        queries[table[r].query].feared += table[r].feared
        table[r].feared = 0.0
    least = LEAST_DOUBT if cautious else 0.7
    missed, feared, all_missed, allowed = PRIOR * (FIRST_DOUBT if cautious else 1.0), PRIOR, 0.0, 1e-9
    for q in range(len(queries)):
        query = queries[q]
        risk = 1.0 - min(query.required, 0.9999)
        # Queries that others serve say little of the model.
        near = min(query.missed / max(query.recent * risk, 1e-9), 1.0)
        missed += query.missed * near
        feared += query.feared * near
        all_missed += query.missed
        allowed += query.recent * risk
    ahead = math.log(max(all_missed / (allowed * AIM), 0.01))
    for q in range(len(queries)):
        queries[q].haste = max(queries[q].haste * math.exp(2.0 * min(max(ahead, -1.0), 2.0)), 1.0)
    for r in range(len(table)):
        query = queries[table[r].query]
        doubt = (query.missed + PRIOR * missed / feared) / (query.feared + PRIOR) / BIAS
        table[r].doubt = min(query.haste * max(doubt, least), 1e6)
        query.safety = 1.0 / table[r].doubt
