"""An item's own bound in a query: its share of the tolerance (equation 11, `specs/2-polling.md` §2.7)."""

from __future__ import annotations

import numpy as np

from tolerant.polling.arrays import Floats


def shares(weights: Floats, within: float) -> Floats:
    """One bound for each weight (none is 0); Σ |weight|·bound = within.

    >>> shares(np.array([1.0, 2.0, 5.0]), 80.0).tolist()
    [35.0, 15.0, 3.0]
    """
    size = np.abs(weights)
    if len(size) <= 1:
        return within / size
    total = size.sum()
    return (total - size) / total * within / (size * (len(size) - 1))
