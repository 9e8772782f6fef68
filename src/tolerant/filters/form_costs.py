"""The choice between items and sums from measured changes, for many sums at once, as a live source makes it.

The cost model is that of `form_choice`, with two measurements that it lacks: the mean square change of each sum, which
includes the correlation of its items; and the share of ticks with any change, an upper bound of the updates per tick.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import WidthConstraints
from tolerant.filters.form_choice import ITEMS, QUERIES, cheaper_form
from tolerant.filters.optimal_widths import optimal
from tolerant.filters.state import Floats, Integers

_LARGE = 20_000
"""Entries of constraints above which approximate widths replace optimal ones: takes milliseconds at any size."""

_PER_SUM, _PER_ITEM = 4, 2
"""Messages that it takes to start a sum, and to return to an item; to stop sending an item takes one."""


class ChangeRates(NamedTuple):
    """How values change: the mean square of their changes per tick, and the share of ticks with a change."""

    square: Floats
    changing: Floats


class SumShape(NamedTuple):
    """Sums over items 0…n − 1: sum j has items[indptr[j]:indptr[j + 1]] with these weights.

    shares: the total width that each sum may have. alone: the width that other queries allow each item (infinite: any).
    """

    indptr: Integers
    items: Integers
    weights: Floats
    shares: Floats
    alone: Floats


def form_costs(shape: SumShape, items: ChangeRates, sums: ChangeRates) -> tuple[float, float]:
    """Expected updates per tick of the two forms: (per item, per query).

    >>> shape = SumShape(np.array([0, 2]), np.array([0, 1]), np.ones(2), np.array([8.0]), np.full(2, np.inf))
    >>> form_costs(shape, ChangeRates(np.ones(2), np.ones(2)), ChangeRates(np.array([2.0]), np.ones(1)))
    (0.5, 0.125)
    """
    per_item = _rates(items, _widths(shape, np.sqrt(items.square))).sum()
    per_query = _rates(sums, shape.shares).sum() + _rates(items, shape.alone).sum()
    return float(per_item), float(per_query)


def better_form(form: str, shape: SumShape, items: ChangeRates, sums: ChangeRates, ticks: int) -> str:
    """The form to use for about `ticks` ticks: the other form only if it saves a fifth of the cost, and more messages
    than the switch takes.
    """
    per_item, per_query = form_costs(shape, items, sums)
    chosen = cheaper_form(form, per_item, per_query)
    n = len(shape.alone)
    change = n + _PER_SUM * len(shape.shares) if chosen == QUERIES else _PER_ITEM * n + len(shape.shares)
    return chosen if chosen != form and abs(per_item - per_query) * ticks > change else form


def _rates(moves: ChangeRates, widths: Floats) -> Floats:
    """Updates per tick ([OJW03] App. E), at most one per change."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = 4.0 * moves.square / widths**2
    return np.where(moves.square > 0.0, np.minimum(rate, moves.changing), 0.0)


def _widths(shape: SumShape, steps: Floats) -> Floats:
    """The widths that send least under the constraints of sums and single items; approximate if they are many."""
    bound = np.flatnonzero(np.isfinite(shape.alone))
    rows = WidthConstraints(
        len(shape.alone),
        np.concatenate([shape.indptr, shape.indptr[-1] + 1 + np.arange(len(bound))]),
        np.concatenate([shape.items, bound]),
        np.concatenate([np.abs(shape.weights), np.ones(len(bound))]),
        np.concatenate([shape.shares, shape.alone[bound]]),
        np.arange(len(shape.shares) + len(bound)),
    )
    if len(rows.items) <= _LARGE:
        return optimal(rows, steps, np.ones(len(steps)))
    # Solves each constraint separately; the narrowest of an item's widths satisfies all of them.
    wanted = np.cbrt(steps[rows.items] ** 2 / rows.coefficients)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    total = np.bincount(owner, wanted * rows.coefficients, minlength=len(rows))
    widths = np.full(len(steps), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = wanted * (rows.beta / total)[owner]
    np.minimum.at(widths, rows.items, np.nan_to_num(share, nan=0.0, posinf=np.inf))
    return widths


__all__ = ["ITEMS", "QUERIES", "ChangeRates", "SumShape", "better_form", "form_costs"]
