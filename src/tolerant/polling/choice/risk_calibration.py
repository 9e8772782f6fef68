"""Calibrates `"risk"` on data that is no random walk: learns how items really change, and compares what was missed with
what the model expected (`docs/design/polling.md` §5.1, §5.5, and beyond them).

Four quantities, each learned from the pulls alone:
- How the variance grows with the age a: ρ·a^h. Two changes in a row that undo each other show that it does not (spikes,
  noise: h near 0), two in the same direction that it grows faster than a random walk's.
- How volatile the item is just now: most of ρ is from about its last five pulls.
- How often each query exceeded its bound: by the honest estimate, and by unobserved spikes, which are drawn from the
  items' own leaps as if they could occur at any age.
- The ratio of that to what the model expected: every query's *doubt*, shrunk towards that of all queries, since one
  query alone misses too rarely to be judged by; and if all of them miss more often than allowed, a common *haste*.
"""

from __future__ import annotations

import math

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.random import bits_at
from tolerant.polling.choice.risk import RiskRows
from tolerant.polling.poller_arrays import Chains, Floats, Links, Record, Records, Window

PAST = 64
"""Errors at pulls that are kept per item."""
LEAP = 3.5
"""An error of more standard deviations than this is a leap: hardly any normal error is."""
SHORT, TRIES = 16, 7
"""Before its interval may grow beyond SHORT ticks, an item is pulled TRIES times at each length: else the users would
be the first to see the rare spikes of a quiet item.
"""
CAUTION = 64.0
"""Where cautious: the first and least factor on the risk that the model states. What is claimed must hold in every half
minute, not only in the long run, and misses cluster: after a jump all queries of its item are wrong until the next
pull. With 8 at first and 2 at least, 8 % of the half minutes of 40 sums over 60 walks fell short.
"""
FEW = 5.0
"""Where cautious: after so many pulls the variance of an item counts twice, later ever less than that."""
KEPT = 0.8
"""Fraction of what was missed and expected that still counts a window later."""
PRIOR = 10.0
"""Weight of all queries in the judgement of one, in misses."""
BIAS = 1.2
"""Ratio of estimated to expected misses where the model is right: on a random walk."""
AIM = 0.6
"""Fraction of the misses allowed to all queries at which haste begins: on spiky data fewer than half of the misses are
observed.
"""


@compiled
def may_grow(item: Record, ticks: int, cautious: bool) -> bool:
    """Return whether the longest interval between pulls of an item may be doubled, after one of so many ticks.

    Where cautious, only intervals of that length count: an item that is pulled often is not known over longer ones.
    """
    return bool(item.cap < SHORT or (item.pulls % TRIES == 0 and not (cautious and ticks < item.cap)))


@compiled
def learn_variance(item: Record, change: float, error: float, ticks: int) -> None:
    """Learn h and ρ from the change since the last pull and from the error of the value in use."""
    share = max(0.02, 1.0 / item.pulls)
    long = max(0.005, 1.0 / item.pulls)
    item.square += long * (min(change * change, 1e280) - item.square)
    item.pair += long * (max(min(change * item.change, 1e280), -1e280) - item.pair)
    item.change = change
    # E (a + b)² = 2^h · E a² for changes a, b over equally many ticks; with few of them, as for a random walk.
    repeated = item.pair / item.square * item.pulls / (item.pulls + 30.0) if item.square > 0.0 else 0.0
    growth = min(max(1.0 + math.log2(max(1.0 + repeated, 0.5)), 0.1), 1.9)
    item.usual += share * (ticks - item.usual)
    rescaled = math.pow(item.usual, item.growth - growth)  # another h, the same variance at the usual age
    newest = min(error * error, 1e280) / math.pow(ticks, growth)
    item.growth = growth
    item.slow = item.slow * rescaled + share * (newest - item.slow * rescaled)
    item.quick = item.quick * rescaled + max(0.2, 1.0 / item.pulls) * (newest - item.quick * rescaled)
    item.variance = 0.4 * item.slow + 0.6 * item.quick


@compiled_no_refcount
def remember_error(item: Record, chains: Chains, i: int, error: float, ticks: int) -> None:
    """Record the error of the value in use at a pull, before anything is learned from it."""
    scale = math.pow(ticks, item.growth)
    leap = item.pulls > 20 and error * error > LEAP * LEAP * item.slow * scale
    place = item.pulls % PAST
    chains.past[i, place] = error if leap else error / math.sqrt(scale)
    chains.leapt[i, place] = leap


@compiled_no_refcount
def draw_errors(items: Records, chains: Chains, window: Window, tick: int) -> None:
    """Draw an error of every item from its last pulls: a leap unscaled, another one scaled to the item's age."""
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


@compiled_no_refcount
def count_unseen_leaps(query: Record, q: int, links: Links, window: Window) -> int:
    """Count the ticks of the window at which the drawn leaps would have put a linear query beyond its bound.

    q: the query's index; its excused ticks do not count.
    """
    count = 0
    for t in range(window.drawn.shape[1] if query.kind == 0 else 0):
        off, leapt = 0.0, False
        for k in range(query.start, query.stop):
            i = links.items[k]
            off += links.weights[k] * window.drawn[i, t]
            leapt = leapt or window.leapt[i, t]
        excused = window.excused.size > 0 and window.excused[q, t] > 1
        count += leapt and not excused and abs(off) > query.bound
    return count


@compiled_no_refcount
def calibrate(
    queries: Records, rows: RiskRows, links: Links, window: Window, missed_now: Floats, judged: Floats, cautious: bool
) -> None:
    """Compare what was missed in a window with what the model expected, and set every row's doubt.

    missed_now: ticks at which each query was beyond its bound, by the honest estimate; judged: out of how many.
    """
    table = rows.table
    for q in range(len(queries)):
        query = queries[q]
        query.missed = KEPT * query.missed + missed_now[q] + count_unseen_leaps(query, q, links, window)
        query.feared *= KEPT
        query.recent = KEPT * query.recent + judged[q]
    for r in range(len(table)):
        queries[table[r].query].feared += table[r].feared
        table[r].feared = 0.0
    least = CAUTION if cautious else 0.7
    missed, feared, all_missed, allowed = PRIOR * (CAUTION if cautious else 1.0), PRIOR, 0.0, 1e-9
    for q in range(len(queries)):
        query = queries[q]
        risk = 1.0 - min(query.required, 0.9999)
        # A query that is kept by the pulls of others says little about the model.
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
