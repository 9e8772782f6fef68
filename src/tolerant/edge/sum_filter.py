"""The sums that a source filters instead of items, on the same filter array (`docs/design/filters.md` §2.8).

Returns what has to change; `SourceCore` stamps and sends it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.edge.filter_array import FilterArray
from tolerant.edge.source_sums import Register, SourceSumGroup, SourceSums, SumGroupChanges
from tolerant.filters.form_costs import ITEMS, QUERIES
from tolerant.transport.sums import SumOffers


class SumTotals(NamedTuple):
    """Sums by handle, their totals, and the groups whose totals are too large for a float."""

    handles: NDArray[np.int64]
    totals: NDArray[np.float64]
    overflowed: list[SourceSumGroup]


class SumFilter:
    """The filtered sums of a source. `register` returns the handles of keys, known ones or new."""

    def __init__(self, filters: FilterArray, sums: SourceSums, register: Register) -> None:
        self.sums = sums
        self._filters, self._register = filters, register

    def totals(self, handles: NDArray[np.int64], values: NDArray[np.float64]) -> SumTotals:
        """Return the filtered sums that these new values of items change, with their new totals."""
        if not self.sums.filtered:
            return SumTotals(handles[:0], values[:0], [])
        known, last = self._filters.known.copy(), self._filters.last.copy()
        known[handles], last[handles] = True, values
        sums = self.sums.affected(handles, known)
        totals = self.sums.values(sums, last) if len(sums) else values[:0]
        finite = np.isfinite(totals)
        return SumTotals(sums[finite], totals[finite], self.containing(sums[~finite].tolist()))

    def containing(self, handles: Iterable[int]) -> list[SourceSumGroup]:
        """Return the groups that have these items or sums."""
        return [group for handle in handles for group in self.sums.containing(handle)]

    def apply_offers(self, offers: Iterable[SumOffers]) -> SumGroupChanges:
        """Apply offers; return the active groups that they withdraw, and the groups to begin."""
        changes = self.sums.apply_offers(offers, self._register)
        return changes._replace(withdrawn=[group for group in changes.withdrawn if group.active])

    def begin(self, groups: Iterable[SourceSumGroup]) -> NDArray[np.int64]:
        """Filter the sums of these groups from now on; return the handles of their items that have a value."""
        items = [np.zeros(0, np.int64)]
        for group in groups:
            self.sums.begin(group, self._register)
            items.append(group.handles)
        handles = np.concatenate(items)
        return handles[self._filters.known[handles]]

    def end(self, groups: Sequence[SourceSumGroup]) -> NDArray[np.int64]:
        """End these groups for good; return the handles of their sums that have a value."""
        for group in groups:
            group.broken = True
        handles = np.unique(self.sums.end(groups))
        return handles[self._filters.known[handles]]

    def is_complete(self, group: SourceSumGroup) -> bool:
        """Return whether all items of a group have a value."""
        return bool(self._filters.known[group.handles].all())

    def pass_tick(self, tick: int) -> None:
        """Measure how items and sums have moved until tick number `tick`."""
        if self.sums.groups:
            self.sums.pass_tick(tick, self._filters.last, self._filters.known)

    def transitions(self, periods: int) -> Iterator[tuple[SourceSumGroup, str]]:
        """Yield groups that should change their form after `periods` periods: QUERIES for a group that is not filtered
        yet, else the form to request.
        """
        for group, form in self.sums.compare(periods):
            if not group.active:
                if form == QUERIES and self.is_complete(group):
                    yield group, QUERIES
            elif self._filters.known[group.sums].all() and ITEMS in (form, group.requested_form):
                yield group, form

    def weights(self) -> dict[str, dict[str, float]]:
        """Return the sums that have a value: key → the weight of each item."""
        weights = {}
        for group in self.sums.groups.values():
            offer = group.offer
            for key, handle, part, terms in zip(
                offer.keys, group.sums.tolist(), offer.parts, offer.weights, strict=False
            ):
                if self._filters.known[handle]:
                    weights[key] = {offer.items[k]: weight for k, weight in zip(part, terms, strict=True)}
        return weights
