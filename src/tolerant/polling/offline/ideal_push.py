"""Simulates sources that push and know every value: a lower limit for pollers (`docs/design/polling.md` §2.11)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.polling.choice.incoherency import incoherency
from tolerant.polling.poller_arrays import Floats, Integers, Links, Record, Records


@compiled
def push(values: Floats, queries: Records, links: Links, servers: Integers, least: bool) -> tuple[Integers, int]:
    """Return messages by item over the trace, and requests (one per server and tick).

    No query is ever beyond its bound: when it would be, every item of it that changed is pushed; with `least`, only the
    largest contribution of the right sign, until the query is within.
    """
    ticks, n = values.shape
    sent, last = np.zeros(n, np.int64), np.full(n, -1, np.int64)
    asked, requests = np.full(n, -1, np.int64), 0
    pushed, apart = values[0].copy(), np.zeros(n)
    for t in range(ticks):
        for i in range(n):
            apart[i] = values[t, i] - pushed[i]
            if t == 0:
                last[i] = t
        again = True
        while again:
            again = False
            for q in range(len(queries)):
                query = queries[q]
                off = incoherency(query, links, pushed, apart)
                while abs(off) > query.bound:
                    again = True
                    if not _push(query, links, off, values[t], pushed, apart, least, t, last):
                        break
                    off = incoherency(query, links, pushed, apart)
        for i in range(n):
            if last[i] == t:
                sent[i] += 1
                if servers[i] < 0 or asked[servers[i]] < t:
                    requests += 1
                    if servers[i] >= 0:
                        asked[servers[i]] = t
    return sent, requests


@compiled_no_refcount
def _push(  # noqa: PLR0913
    query: Record, links: Links, off: float, values: Floats, pushed: Floats, apart: Floats, least: bool, tick: int,
    last: Integers,
) -> bool:  # fmt: skip
    """Push items of a query that is over; return whether there were any."""
    ordered = query.kind == 1 or query.kind == 2
    sign = 1.0 if off > 0.0 else -1.0
    best, largest = 0.0, -1
    for k in range(query.start, query.stop):
        i = links.items[k]
        part = abs(apart[i]) if ordered or not least else sign * links.weights[k] * apart[i]
        if part > best:
            best, largest = part, i
    for k in range(query.start, query.stop):
        i = links.items[k]
        if i == largest or (not least and apart[i] != 0.0):
            pushed[i], apart[i], last[i] = values[i], 0.0, tick
    return largest >= 0
