"""No more pulls in a tick than allowed: the most useful ones first, the rest waits (`specs/2-polling.md` §5.4)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.polling.arrays import Floats, Integers, Records
from tolerant.polling.risk import Rows, index, press, unmark


@compiled
def trim(
    rows: Rows,
    items: Records,
    tick: int,
    limit: int,
    server_limits: Integers,
    by_risk: bool,
    pressure: Floats,
) -> None:
    """Unmark what is beyond the limits (0: none), whole or of a server. First pulls are not held back.

    An item that has waited twice as long as it ever should comes first: one that never moved has no index at all.
    """
    worth = np.full(len(items), -1.0)
    for i in range(len(items)):
        if not items[i].marked or items[i].last < 0:
            continue
        age = tick - items[i].last
        if items[i].always:
            worth[i] = np.inf
        elif age >= 2 * items[i].cap:
            worth[i] = 1e300 * (1.0 + age / 1e9)
        elif by_risk:
            press(rows, i, pressure)
            worth[i] = min(index(items[i], pressure[i], tick), 1e299)
        else:
            worth[i] = min(abs(items[i].predicted) * items[i].reach, 1e299)
    spent = 0
    used = np.zeros(server_limits.size, np.int64)
    while True:
        i = -1
        for k in range(len(items)):
            if worth[k] >= 0.0 and (i < 0 or worth[k] > worth[i]):
                i = k
        if i < 0:
            break
        worth[i] = -1.0
        server = items[i].server if server_limits.size > 0 else -1
        full = server >= 0 and 0 < server_limits[server] <= used[server]
        if full or 0 < limit <= spent:
            unmark(rows, items, i, tick)
            continue
        spent += 1
        if server >= 0:
            used[server] += 1
