"""Initial widths of new items, and widths cut to fit changed constraints (`docs/design/filters.md` §2.6)."""

from __future__ import annotations

import numpy as np

from tolerant.filters.constraints import WidthConstraints
from tolerant.filters.state import Flags, Floats, Integers

_CROWD = 0.25
"""New items that are at least this share of a sum's items start at their uniform share instead of width 0."""

_ROUNDING = 1e-12


def start_widths(rows: WidthConstraints, newcomers: Flags, joining: bool, divisors: Integers) -> Floats:
    """The initial width of each new item; entries of other items are meaningless.

    `joining`: the items join existing queries. Then an average, whose budget grows with each item, gives the item this
    growth and no other width changes; a sum gives width 0 (the item competes at the end of the period) unless the new
    items are many. Otherwise each item gets its uniform share. `divisors`: of each row, the divisor of an average, else
    0.
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


def fitted(rows: WidthConstraints, widths: Floats) -> Floats:
    """The widths, cut so that every row is within its budget: each by the least factor β / Σ a·W of its rows."""
    owner = _owner(rows)
    usage = np.bincount(owner, rows.coefficients * widths[rows.items], minlength=len(rows))
    over = usage > rows.beta * (1.0 + _ROUNDING)
    factor = np.ones(len(rows))
    factor[over] = rows.beta[over] / usage[over]
    cut = np.ones(len(widths))
    np.minimum.at(cut, rows.items, factor[owner])
    return np.where(cut < 1.0, widths * cut, widths)


def _owner(rows: WidthConstraints) -> Integers:
    return np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
