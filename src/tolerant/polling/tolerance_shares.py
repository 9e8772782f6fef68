"""An item's own bound in a query: its share of the tolerance (equation 11, `docs/design/polling.md` §2.7)."""

from __future__ import annotations

import numpy as np

from tolerant.polling.poller_arrays import Floats, Integers


def tolerance_shares(weights: Floats, within: Floats, owner: Integers) -> Floats:
    """Return a bound per weight (none is 0) of query number `owner`, so that Σ |weight|·bound = within of the query.

    >>> tolerance_shares(np.array([1.0, 2.0, 5.0]), np.array([80.0]), np.array([0, 0, 0])).tolist()
    [35.0, 15.0, 3.0]
    """
    size = np.abs(weights)
    total = np.bincount(owner, size, len(within))[owner]
    others = np.bincount(owner, minlength=len(within))[owner] - 1
    alone = within[owner] / size
    return np.where(others > 0, (total - size) / total * within[owner] / (size * np.maximum(others, 1)), alone)
