"""How far a query can be trusted while some of its items are unreachable.

In the long run a query exceeds its bound as often as it may, more at one moment and less at another; that needs items
that can be pulled when they are due. Of an unreachable one (`risk.is_unreachable`) only the age is known: its variance
has grown since its last pull, as its model says; and what the model cannot say, because it was never observed, may
happen too. So the query's risk is that of this moment, the fidelity that it can claim falls with it, and once the risk
is 1.5 times the allowed one the promise can no longer be kept. Where a reply is only late, less is claimed too.
"""

from __future__ import annotations

import math

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.choice.risk import is_unreachable, variance_after
from tolerant.polling.poller_arrays import Floats, Links, Record, Records, States

KEPT, LATE, DISTURBED, BROKEN = range(4)
"""The states of a query: all items are reachable; some reply is late, or some item unreachable, and the answer claims
less; the promise cannot be kept.
"""
MOST = 1.5
"""The multiple of the allowed risk that breaks the promise: even with all items, a query of many is always near 1."""
KNOWN = 7
"""Pulls of an item before its model is trusted: for a quiet one after 47 ticks, or 63 where not calibrated."""


@compiled
def unseen_risk(item: Record, tick: int) -> float:
    """Return the probability that an item has done, since its last pull, what was never observed (Laplace's rule)."""
    age = tick - item.last
    return age / (age + item.last - item.first + 1.0)


@compiled_no_refcount
def risk_now(query: Record, links: Links, items: Records, tick: int, doubtful: bool) -> float:
    """Return the probability that the query exceeds its bound now. doubtful: its safety factor scales the model's risk.

    For a min or max: that any item has moved by more than the tolerance.
    """
    variance, kept, unseen = 0.0, 1.0, 0.0
    half = query.bound * query.bound / 2.0
    for k in range(query.start, query.stop):
        item = items[links.items[k]]
        variance_now = variance_after(item, tick - item.last)
        if is_unreachable(item, tick):
            unseen = max(unseen, unseen_risk(item, tick))
        if query.kind == 0:
            variance += links.weights[k] * links.weights[k] * variance_now
        elif variance_now > 0.0:
            kept *= 1.0 - math.erfc(math.sqrt(half / variance_now))
    if variance > 0.0:
        kept = 1.0 - math.erfc(math.sqrt(half / variance))
    doubt = max(1.0 / query.safety, 1.0) if doubtful else 1.0
    return min(max((1.0 - kept) * doubt, unseen), 1.0)


@compiled
def assess(  # noqa: PLR0913
    queries: Records, links: Links, items: Records, tick: int, oldest: int, patience: int, doubtful: bool,
    risks: Floats, states: States,
) -> None:  # fmt: skip
    """Set the state of each query at a tick, and its risk where it is late, disturbed or broken; else 0.

    oldest: age beyond which a value breaks the promise. patience: see `PollingOptions`. A query whose items all have a
    value for the first time gets this tick as its `since`.
    """
    for q in range(len(queries)):
        query = queries[q]
        known, away, late, broken = True, False, False, False
        for k in range(query.start, query.stop):
            item = items[links.items[k]]
            known = known and item.last >= 0
            away = away or is_unreachable(item, tick)
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
    """Return the fidelity that an answer claims: in hundredths where it is less than asked for, in tenths if broken.

    delivered: estimate of what was kept so far; NaN where there is none yet.

    >>> claim(0.95, 0.0, KEPT, 0.97), claim(0.95, 0.123, DISTURBED, 0.97), claim(0.95, 0.123, BROKEN, 0.97)
    (0.95, 0.87, 0.8)
    """
    believed = asked if state == KEPT else 1.0 - risk
    if not math.isnan(delivered):
        believed = min(believed, delivered)
    steps = 10.0 if state == BROKEN else 100.0  # every step is an answer that has changed, and is published
    return asked if believed >= asked else math.floor(steps * believed) / steps
