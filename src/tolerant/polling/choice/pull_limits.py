"""At most so many pulls per tick: the most useful ones first, the rest waits (`docs/design/polling.md` §5.4)."""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.polling.choice.risk import RiskRows, pull_worth, sum_pressure, unmark
from tolerant.polling.poller_arrays import Floats, Integers, Records


@compiled
def enforce_limits(
    rows: RiskRows,
    items: Records,
    tick: int,
    limit: int,
    server_limits: Integers,
    by_risk: bool,
    pressure: Floats,
) -> None:
    """Unmark what exceeds the limit of all servers or of one (0: none). First pulls are never delayed.

    An item that has waited for twice its longest interval comes first: one that never moved would be worth nothing.
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
            sum_pressure(rows, i, pressure)
            worth[i] = min(pull_worth(items[i], pressure[i], tick), 1e299)
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
