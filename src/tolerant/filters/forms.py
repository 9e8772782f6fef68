"""The choice between items and sums where both have been measured: many at a time, as a live source makes it.

The costs are those of `aggregation`, with two things that a source can see and the model cannot: how much each sum
really moves, however its items hang together; and in how many ticks anything changes, which no filter can send more
than.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.aggregation import ITEMS, QUERIES, cheaper_form
from tolerant.filters.optimal import optimal
from tolerant.filters.rows import Rows
from tolerant.filters.state import Floats, Integers

_LARGE = 20_000
"""Entries of rows from which on the best widths are not sought, but good ones taken: milliseconds, for any number."""

_HELLO, _BACK = 4, 2
"""Messages to begin with a sum, and to go back to an item; to leave an item takes one."""


class Moves(NamedTuple):
    """How things move: the mean square of their changes a tick, and in which share of the ticks they change."""

    square: Floats
    changing: Floats


class Shape(NamedTuple):
    """Sums over items 0…n − 1: sum j is of items[indptr[j]:indptr[j + 1]] with these weights; how wide all of it may be
    (`shares`), and how wide each item may be for other queries' sake (`alone`, infinite: any).
    """

    indptr: Integers
    items: Integers
    weights: Floats
    shares: Floats
    alone: Floats


def form_costs(shape: Shape, items: Moves, sums: Moves) -> tuple[float, float]:
    """What the two forms cost a source, in updates a tick: (per item, per query).

    >>> shape = Shape(np.array([0, 2]), np.array([0, 1]), np.ones(2), np.array([8.0]), np.full(2, np.inf))
    >>> form_costs(shape, Moves(np.ones(2), np.ones(2)), Moves(np.array([2.0]), np.ones(1)))
    (0.5, 0.125)
    """
    per_item = _rates(items, _widths(shape, np.sqrt(items.square))).sum()
    per_query = _rates(sums, shape.shares).sum() + _rates(items, shape.alone).sum()
    return float(per_item), float(per_query)


def better_form(form: str, shape: Shape, items: Moves, sums: Moves, ticks: int) -> str:
    """The form to go on with for about so many ticks: the other only if it saves a fifth of the cost, and more than
    the change takes.
    """
    per_item, per_query = form_costs(shape, items, sums)
    chosen = cheaper_form(form, per_item, per_query)
    n = len(shape.alone)
    change = n + _HELLO * len(shape.shares) if chosen == QUERIES else _BACK * n + len(shape.shares)
    return chosen if chosen != form and abs(per_item - per_query) * ticks > change else form


def _rates(moves: Moves, widths: Floats) -> Floats:
    """Updates a tick (App. E), never more than there are changes."""
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = 4.0 * moves.square / widths**2
    return np.where(moves.square > 0.0, np.minimum(rate, moves.changing), 0.0)


def _widths(shape: Shape, steps: Floats) -> Floats:
    """The widths that send least under the rows of the sums and those of the items alone; good ones, if it is many."""
    bound = np.flatnonzero(np.isfinite(shape.alone))
    rows = Rows(
        len(shape.alone),
        np.concatenate([shape.indptr, shape.indptr[-1] + 1 + np.arange(len(bound))]),
        np.concatenate([shape.items, bound]),
        np.concatenate([np.abs(shape.weights), np.ones(len(bound))]),
        np.concatenate([shape.shares, shape.alone[bound]]),
        np.arange(len(shape.shares) + len(bound)),
    )
    if len(rows.items) <= _LARGE:
        return optimal(rows, steps, np.ones(len(steps)))
    # As if each row were alone; the narrowest of an item's widths keeps to all of them.
    wanted = np.cbrt(steps[rows.items] ** 2 / rows.coefficients)
    owner = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
    total = np.bincount(owner, wanted * rows.coefficients, minlength=len(rows))
    widths = np.full(len(steps), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = wanted * (rows.beta / total)[owner]
    np.minimum.at(widths, rows.items, np.nan_to_num(share, nan=0.0, posinf=np.inf))
    return widths


__all__ = ["ITEMS", "QUERIES", "Moves", "Shape", "better_form", "form_costs"]
