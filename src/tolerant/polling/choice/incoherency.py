"""The predicted error of a query's answer (equation 6, `docs/design/polling.md` §2.6).

`changes` are the items' predicted changes, 0 for those that are marked.
"""

from __future__ import annotations

import numpy as np

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.polling.poller_arrays import Floats, Links, Record


@compiled_no_refcount
def extreme(query: Record, links: Links, values: Floats, changes: Floats, only: int) -> float:
    """Return the min or max of a query after the changes; only ≥ 0: after that item's alone, −2: after none."""
    sign = -1.0 if query.kind == 1 else 1.0
    best = -np.inf
    for k in range(query.start, query.stop):
        i = links.items[k]
        moved = values[i] + changes[i] if only == -1 or only == i else values[i]
        best = max(best, sign * moved)
    return sign * best


@compiled_no_refcount
def incoherency(query: Record, links: Links, values: Floats, changes: Floats) -> float:
    """Return I_q, the change of the answer that the items' predicted changes would make."""
    if query.kind == 1 or query.kind == 2:
        if query.start == query.stop:
            return 0.0
        return extreme(query, links, values, changes, -1) - extreme(query, links, values, changes, -2)
    items, weights, total = links.items, links.weights, 0.0
    for k in range(np.uint64(query.start), np.uint64(query.stop)):  # unsigned as `Indices` are
        total += weights[k] * changes[items[k]]
    return total
