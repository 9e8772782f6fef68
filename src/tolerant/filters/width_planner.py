"""The predictive policy in the pipeline: plans at period ends, carried out as their tightenings are confirmed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.constraints import ConstraintArrays, WidthConstraints
from tolerant.filters.item_membership import Membership
from tolerant.filters.prices import KnownRates, price_workspace
from tolerant.filters.probing import Suppressions, items_to_suppress, suppressible_sides
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.filters.width_plans import WidthPlan, best_plan
from tolerant.kernels.compiled import compiled
from tolerant.kernels.snapshots import Fields, Restorable

_PATIENCE = 3
"""Periods for which a growth waits until its plan's tightenings are confirmed."""

_ROUNDING = 1e-9


class WidthPlanner(Restorable):
    """Decides at period ends which items to tighten, and later which to grow; accounts for the cost of plans."""

    FIELDS = Fields("_begun", "_last", "_spent", "_received")

    def __init__(self, period: int) -> None:
        self._period = period
        self._begun = -1
        self._last = 0
        self._spent = 0.0
        self._received = 0.0

    def tighten(self, membership: Membership, widths: Floats, tick: int) -> tuple[Integers, Floats]:
        """At a period's end: the items to tighten, and their new widths; growths of the same plan wait in `pending`.

        `widths`: those granted, by item index.
        """
        items, n = membership.items, membership.size
        updated = bool(items.updates[:n].any())
        self._received += float(items.cost[:n] @ items.updates[:n])
        if self._begun < 0:
            self._begun = tick
        if items.pending[:n].any():
            if tick - self._begun - self._last <= _PATIENCE * self._period:
                return np.zeros(0, np.int64), np.zeros(0)
            items.pending[:n] = 0.0
        if not updated:
            return np.zeros(0, np.int64), np.zeros(0)
        plan = self._plan(membership, membership.rows(), widths, tick)
        if not plan.worth > 0.0:
            return np.zeros(0, np.int64), np.zeros(0)
        self._last = tick - self._begun
        self._spent += plan.cost
        narrower = np.flatnonzero(plan.width < widths)
        items.narrowed[narrower] = tick
        wider = np.flatnonzero(plan.width > widths)
        items.pending[wider] = plan.width[wider]
        return narrower, plan.width[narrower]

    def _plan(self, membership: Membership, rows: WidthConstraints, widths: Floats, tick: int) -> WidthPlan:
        return best_plan(
            rows.arrays, reported_rates(membership, rows, self._begun),
            membership.items.width[: membership.size].copy(), self._movable(membership, rows, widths),
            tick - self._begun, self._last, self._spent, self._received, price_workspace(membership.size),
        )  # fmt: skip

    def _movable(self, membership: Membership, rows: WidthConstraints, widths: Floats) -> Flags:
        """The adaptable items whose newest width is confirmed and that are not stale."""
        items, n = membership.items, membership.size
        return rows.adaptable & items.seen[:n] & ~items.stale[:n] & (items.width[:n] == widths)

    def grow(self, membership: Membership, tick: int) -> tuple[Integers, Floats]:
        """The items whose pending growth has room now, and their new widths."""
        items, n = membership.items, membership.size
        if not items.pending[:n].any():
            return np.zeros(0, np.int64), np.zeros(0)
        which, widths = _grow(membership.rows().arrays, items.width[:n], items.pending[:n], items.seen[:n])
        items.pending[which] = 0.0
        items.widened[which] = tick
        return which, widths

    def suppressions(self, membership: Membership, tick: int) -> Suppressions:
        """At a period's end: the items of minima and maxima to suppress."""
        queries, links = membership.queries, membership.links()
        return items_to_suppress(
            suppressible_sides(membership.size, queries, links), tick, membership.items, queries, links
        )


def reported_rates(membership: Membership, rows: WidthConstraints, begun: int) -> KnownRates:
    """The rates of the newest reports, in ticks since `begun`; of an item without one, those expected of any item."""
    items, n = membership.items, membership.size
    reported = items.unit[:n] > 0.0
    unit = np.where(reported, items.unit[:n], np.where(rows.unqueried, 0.0, rows.uniform))
    ticks = [np.maximum(column[:n] - begun, 0) for column in (items.reported, items.widened, items.narrowed)]
    cost, curves, age = items.cost[:n].copy(), items.curves[:n].copy(), items.age[:n].copy()
    return KnownRates(unit, cost, curves, reported, ticks[0], age, ticks[1], ticks[2])


class _Grown(NamedTuple):
    which: Integers
    widths: Floats


@compiled
def _grow(rows: ConstraintArrays, believed: Floats, pending: Floats, seen: Flags) -> _Grown:
    """The pending growths that fit, in the order of their items."""
    which, widths = np.empty(pending.size, np.int64), np.empty(pending.size)
    free = np.empty(rows.beta.size)
    for row in range(free.size):
        used = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            used += rows.coefficients[entry] * believed[rows.items[entry]]
        free[row] = rows.beta[row] - used
    n = 0
    for item in range(pending.size):
        if not (pending[item] > 0.0 and seen[item] and believed[item] < np.inf):
            continue
        room = np.inf
        for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
            room = min(room, free[rows.item_rows[entry]] / rows.item_coefficients[entry])
        width = min(pending[item], believed[item] + room)
        if width >= pending[item] * (1.0 - _ROUNDING) and width > believed[item]:
            for entry in range(rows.item_indptr[item], rows.item_indptr[item + 1]):
                free[rows.item_rows[entry]] -= rows.item_coefficients[entry] * (width - believed[item])
            which[n], widths[n] = item, width
            n += 1
    return _Grown(which[:n], widths[:n])
