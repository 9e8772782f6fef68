"""How far a query can be trusted while some of its items cannot be had.

In the long run a query is off as often as it may be; at one moment more, at another less. That takes that items can be
had when they are due. Of one that is lost (`risk.lost`) only its age is known: its variance has grown since its last
pull, as its model says; and what its model cannot say, because it was never seen to happen, may happen too. So the
risk of the query is that of this moment, the fidelity that it can claim falls with it, and once the risk is half as
much again as the allowed one the promise can no longer be kept. Where an answer is only late, less is claimed too.
"""

from __future__ import annotations

import math

from tolerant.kernels.compiled import borrowing, compiled
from tolerant.polling.arrays import Floats, Links, Record, Records, States
from tolerant.polling.risk import lost, spread_after

KEPT, LATE, DISTURBED, BROKEN = range(4)
"""All items can be had; some is late, or cannot be had, and the answer claims less; the promise cannot be kept."""
MOST = 1.5
"""How many times the allowed risk breaks the promise: where all items come, a query of many is near its risk always."""
KNOWN = 7
"""Pulls of an item before its model is believed: of a quiet one that is after 47 ticks, or 63 where not calibrated."""


@compiled
def unseen_risk(item: Record, tick: int) -> float:
    """The probability that an item did since its last pull what it was never seen to do before (Laplace's rule)."""
    age = tick - item.last
    return age / (age + item.last - item.first + 1.0)


@borrowing
def risk_now(query: Record, links: Links, items: Records, tick: int, doubtful: bool) -> float:
    """The probability that the query is off at this tick. doubtful: its safety factor says how far to trust the model.

    For a min or max: that any item has moved by more than the tolerance.
    """
    variance, kept, unseen = 0.0, 1.0, 0.0
    half = query.bound * query.bound / 2.0
    for k in range(query.start, query.stop):
        item = items[links.items[k]]
        spread = spread_after(item, tick - item.last)
        if lost(item, tick):
            unseen = max(unseen, unseen_risk(item, tick))
        if query.kind == 0:
            variance += links.weights[k] * links.weights[k] * spread
        elif spread > 0.0:
            kept *= 1.0 - math.erfc(math.sqrt(half / spread))
    if variance > 0.0:
        kept = 1.0 - math.erfc(math.sqrt(half / variance))
    doubt = max(1.0 / query.safety, 1.0) if doubtful else 1.0
    return min(max((1.0 - kept) * doubt, unseen), 1.0)


@compiled
def assess(
    queries: Records, links: Links, items: Records, tick: int, oldest: int, patience: int, doubtful: bool,
    risks: Floats, states: States,
) -> None:  # fmt: skip
    """The state of each query at a tick, and its risk where it is disturbed or broken; else 0.

    oldest: age from which on a value breaks the promise. patience: see `Options`. Queries whose items all have a value
    for the first time are marked as known since then.
    """
    for q in range(len(queries)):
        query = queries[q]
        known, away, late, broken = True, False, False, False
        for k in range(query.start, query.stop):
            item = items[links.items[k]]
            known = known and item.last >= 0
            away = away or lost(item, tick)
            late = late or item.missing > -patience
            broken = broken or tick - item.last > oldest
        risks[q], states[q] = 0.0, 0
        if not known:
            continue
        if query.since < 0:
            query.since = tick
        if away or late or broken:
            risks[q] = risk_now(query, links, items, tick, doubtful)
            broken = broken or (away and risks[q] > MOST * (1.0 - query.required))
            states[q] = 3 if broken else 2 if away else 1


def claim(asked: float, risk: float, state: int, delivered: float) -> float:
    """The fidelity that an answer claims, in hundredths where it is less than what was asked for; in tenths if broken.

    delivered: what is thought to have been kept so far; NaN where that is not known yet.

    >>> claim(0.95, 0.0, KEPT, 0.97), claim(0.95, 0.123, DISTURBED, 0.97), claim(0.95, 0.123, BROKEN, 0.97)
    (0.95, 0.87, 0.8)
    """
    believed = asked if state == KEPT else 1.0 - risk
    if not math.isnan(delivered):
        believed = min(believed, delivered)
    steps = 10.0 if state == BROKEN else 100.0  # every step is an answer that has changed, and is published
    return asked if believed >= asked else math.floor(steps * believed) / steps
