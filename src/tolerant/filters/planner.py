"""The predictive policy in the pipeline: plans at boundaries, carried out as their tightenings are confirmed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tolerant.filters.asking import Freed, sides, to_free
from tolerant.filters.book import Book
from tolerant.filters.plans import Plan, best_plan
from tolerant.filters.prices import Known, market
from tolerant.filters.rows import RowArrays, Rows
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled

_PATIENCE = 3
"""Periods for which a growth waits for the room that its plan frees."""

_ROUNDING = 1e-9


class Planner:
    """Remembers what plans have cost, and says at boundaries what to tighten and later what to grow. Ticks."""

    def __init__(self, period: int) -> None:
        self._period = period
        self._begun = -1
        self._last = 0
        self._spent = 0.0
        self._received = 0.0

    def tighten(self, book: Book, widths: Floats, tick: int) -> tuple[Integers, Floats]:
        """At a boundary: the items to tighten now, and to which widths; what is to grow then waits in `pending`.

        `widths` are those granted, by item index.
        """
        items, n = book.items, book.size
        news = bool(items.updates[:n].any())
        self._received += float(items.cost[:n] @ items.updates[:n])
        if self._begun < 0:
            self._begun = tick
        if items.pending[:n].any():
            if tick - self._begun - self._last <= _PATIENCE * self._period:
                return np.zeros(0, np.int64), np.zeros(0)
            items.pending[:n] = 0.0
        if not news:
            return np.zeros(0, np.int64), np.zeros(0)
        plan = self._plan(book, book.rows(), widths, tick)
        if not plan.worth > 0.0:
            return np.zeros(0, np.int64), np.zeros(0)
        self._last = tick - self._begun
        self._spent += plan.cost
        narrower = np.flatnonzero(plan.width < widths)
        items.narrowed[narrower] = tick
        wider = np.flatnonzero(plan.width > widths)
        items.pending[wider] = plan.width[wider]
        return narrower, plan.width[narrower]

    def _plan(self, book: Book, rows: Rows, widths: Floats, tick: int) -> Plan:
        return best_plan(
            rows.arrays, known_of_items(book, rows, self._begun), book.items.width[: book.size].copy(),
            self._movable(book, rows, widths), tick - self._begun, self._last, self._spent, self._received,
            market(book.size),
        )  # fmt: skip

    def _movable(self, book: Book, rows: Rows, widths: Floats) -> Flags:
        """The adaptable items whose newest width is confirmed, from sources that are heard."""
        items, n = book.items, book.size
        return rows.adaptable & items.seen[:n] & ~items.stale[:n] & (items.width[:n] == widths)

    def grow(self, book: Book, tick: int) -> tuple[Integers, Floats]:
        """The items whose growth has room now, and their new widths."""
        items, n = book.items, book.size
        if not items.pending[:n].any():
            return np.zeros(0, np.int64), np.zeros(0)
        which, widths = _grow(book.rows().arrays, items.width[:n], items.pending[:n], items.seen[:n])
        items.pending[which] = 0.0
        items.widened[which] = tick
        return which, widths

    def free(self, book: Book, tick: int) -> Freed:
        """At a boundary: the items of minima and maxima that may go unheard."""
        queries, links = book.queries, book.links()
        return to_free(sides(book.size, queries, links), tick, book.items, queries, links)

    def state(self) -> list[Any]:
        """Everything, for `load`."""
        return [self._begun, self._last, self._spent, self._received]

    def load(self, values: list[Any]) -> None:
        """Become what `state` said."""
        self._begun, self._last, self._spent, self._received = values


def known_of_items(book: Book, rows: Rows, begun: int) -> Known:
    """What the newest reports say, in ticks since `begun`; of an item without one, what any is expected to send."""
    items, n = book.items, book.size
    reported = items.unit[:n] > 0.0
    unit = np.where(reported, items.unit[:n], np.where(rows.unqueried, 0.0, rows.uniform))
    ticks = [np.maximum(one[:n] - begun, 0) for one in (items.reported, items.widened, items.narrowed)]
    cost, curves, age = items.cost[:n].copy(), items.curves[:n].copy(), items.age[:n].copy()
    return Known(unit, cost, curves, reported, ticks[0], age, ticks[1], ticks[2])


class _Grown(NamedTuple):
    which: Integers
    widths: Floats


@compiled
def _grow(rows: RowArrays, believed: Floats, pending: Floats, seen: Flags) -> _Grown:
    """Which of the pending growths fit now, one after the other."""
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
