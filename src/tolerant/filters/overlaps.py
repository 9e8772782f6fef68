"""Finds the partial sums that sources could filter instead of items (`docs/design/filters.md` §2.8).

Queries that share items of a source form one set: its items are replaced in all of them or in none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.filters.item_membership import Membership
from tolerant.filters.state import AVG, MAX, MIN, SUM, Flags, Floats, Integers
from tolerant.filters.substitution import PartialSum

_LARGEST = 50_000
"""The most entries in a set of partial sums; larger sets are left as items."""


class Overlaps(NamedTuple):
    """Sets of partial sums, each of one owner; and the width that each item may have in the queries in which its owner
    has no other item (infinite: any).
    """

    sets: list[list[PartialSum]]
    alone: Floats


class _Entries(NamedTuple):
    query: Integers
    item: Integers
    weight: Floats


def overlaps(membership: Membership, owner: Integers, free: Flags, hidden: Flags, granted: Floats) -> Overlaps:
    """Find the partial sums over the `free` items; `owner` and `free` by item index, `hidden`: query indices to leave
    out, `granted`: the newest widths.
    """
    n, links = membership.size, membership.links()
    fn = membership.queries.fn[: len(membership.registered)]
    query = np.repeat(np.arange(len(fn)), np.diff(links.query_start))
    plain = (links.query_weights != 0.0) & ~hidden[query] & ~membership.items.is_sum[links.query_items]
    extreme = plain & ((fn[query] == MIN) | (fn[query] == MAX))
    linear = plain & ((fn[query] == SUM) | (fn[query] == AVG))
    entries = _Entries(query[linear], links.query_items[linear], links.query_weights[linear])
    group = entries.query * (int(owner[:n].max(initial=0)) + 1) + owner[entries.item]
    _, group, size = np.unique(group, return_inverse=True, return_counts=True)
    single = size[group] == 1
    alone = np.full(n, np.inf)
    np.minimum.at(alone, links.query_items[extreme], 2.0 * membership.queries.within[query[extreme]])
    np.minimum.at(alone, entries.item[single], granted[entries.item[single]])
    shared = free[entries.item] & (np.bincount(group[free[entries.item]], minlength=len(size))[group] > 1)
    return Overlaps(_sets(membership, _Entries._make(column[shared] for column in entries), group[shared]), alone)


def _sets(membership: Membership, entries: _Entries, group: Integers) -> list[list[PartialSum]]:
    """The entries as partial sums, one per group, in sets of those that have items in common."""
    if not len(group):
        return []
    from scipy.sparse import coo_array  # slow to import, and needed only where sources have several items in a query
    from scipy.sparse.csgraph import connected_components

    n, groups = membership.size, int(group.max()) + 1
    ones = np.ones(len(group), np.int8)
    graph = coo_array((ones, (entries.item, n + group)), shape=(n + groups, n + groups))
    label = connected_components(graph, directed=False)[1][n + group]
    order = np.lexsort((np.arange(len(group)), group, label))
    label, group = label[order], group[order]
    cuts = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(label, prepend=-1))
    sets: dict[int, list[PartialSum]] = {}
    sizes = np.bincount(label)
    for begin, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(group)], strict=True):
        if sizes[label[begin]] <= _LARGEST:
            own = order[begin:end]
            registered = membership.registered[entries.query[own[0]]]
            assert registered is not None
            part = PartialSum(registered.name, entries.item[own], entries.weight[own])
            sets.setdefault(int(label[begin]), []).append(part)
    return list(sets.values())


class PartialSumShares:
    """Widths that partial sums may have in either form: what they use, plus their fraction of the unused room."""

    def __init__(self, membership: Membership, granted: Floats) -> None:
        self._membership, self._granted = membership, granted
        self._of_query: dict[str, tuple[float, float]] = {}

    def width_of(self, part: PartialSum) -> float:
        """The width that a part may have."""
        registered = self._membership.query(part.query)
        if part.query not in self._of_query:
            size = len(registered.weights)
            index = np.fromiter(registered.weights.keys(), np.int64, size)
            a = np.abs(np.fromiter(registered.weights.values(), np.float64, size))
            beta = (
                2.0 * registered.within * (self._membership.counted_items(registered) if registered.fn == "avg" else 1)
            )
            used = float(a[a > 0] @ self._granted[index[a > 0]])
            self._of_query[part.query] = max(beta - used, 0.0), float(a.sum())
        left, total = self._of_query[part.query]
        own = np.abs(part.weights)
        if part.sum in registered.weights:
            used, fraction = float(self._granted[part.sum]), 1.0 / total
        else:
            used, fraction = float(own @ self._granted[part.items]), float(own.sum()) / total
        return used + left * fraction
