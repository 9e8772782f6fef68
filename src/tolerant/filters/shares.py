"""The widths that items start with and are cut to when queries or items come, go or change (`specs/1-filters.md`
§2.6).
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.rows import Rows
from tolerant.filters.state import Flags, Floats, Integers

_CROWD = 0.25
"""From this share of a sum's items on, newcomers take their uniform share at once instead of starting at width 0."""

_ROUNDING = 1e-12


def start_widths(rows: Rows, newcomers: Flags, joining: bool, divisors: Integers) -> Floats:
    """The width that each newcomer starts with; other entries mean nothing.

    `joining`: the items come to queries that were there before. Then an average, whose room grows with each item, gives
    what it grew by and nobody else moves; a sum gives nothing (the newcomer competes at the next boundary) unless the
    newcomers are many. Otherwise each takes its uniform share. `divisors`: of each row, what an average divides by, 0
    where it is none.
    """
    owner = _owner(rows)
    total = np.bincount(owner, rows.coefficients, minlength=len(rows))
    sizes = np.diff(rows.indptr)
    fresh = np.bincount(owner, newcomers[rows.items], minlength=len(rows))
    share = rows.beta[owner] / total[owner]
    if joining:
        own = rows.beta[owner] / np.maximum(divisors, 1)[owner] / rows.coefficients
        crowded = fresh >= _CROWD * sizes
        share = np.where(divisors[owner] > 0, own, np.where(crowded[owner] | (sizes[owner] == 1), share, 0.0))
    widths = np.full(len(newcomers), np.inf)
    np.minimum.at(widths, rows.items, share)
    return widths


def fitted(rows: Rows, widths: Floats) -> Floats:
    """The widths, cut so that no row is over its budget: each by the least factor β / Σ a·W of its rows."""
    owner = _owner(rows)
    usage = np.bincount(owner, rows.coefficients * widths[rows.items], minlength=len(rows))
    over = usage > rows.beta * (1.0 + _ROUNDING)
    factor = np.ones(len(rows))
    factor[over] = rows.beta[over] / usage[over]
    cut = np.ones(len(widths))
    np.minimum.at(cut, rows.items, factor[owner])
    return np.where(cut < 1.0, widths * cut, widths)


def _owner(rows: Rows) -> Integers:
    return np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
