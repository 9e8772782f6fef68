"""Where a source has several items in one query: the sums that it could filter instead (`specs/1-filters.md` §2.8).

Queries that share items of a source belong together: its items leave all of them or none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tolerant.filters.book import Book
from tolerant.filters.exchange import Part
from tolerant.filters.state import AVG, MAX, MIN, SUM, Flags, Floats, Integers

_LARGEST = 50_000
"""Items and weights of sums that belong together, at most: more are left as they are."""


class Overlaps(NamedTuple):
    """Parts of queries that belong together, each list of one owner; and how wide each item may be for the queries in
    which its owner has no other, infinite: any.
    """

    sets: list[list[Part]]
    alone: Floats


class _Entries(NamedTuple):
    query: Integers
    item: Integers
    weight: Floats


def overlaps(book: Book, owner: Integers, free: Flags, hidden: Flags, granted: Floats) -> Overlaps:
    """The parts that could be sums, over the items that are `free` to; `owner` and `free` by item index, `hidden` says
    which query indices are left out, `granted` has the newest widths.
    """
    n, links = book.size, book.links()
    fn = book.queries.fn[: len(book.members)]
    query = np.repeat(np.arange(len(fn)), np.diff(links.query_start))
    plain = (links.query_weights != 0.0) & ~hidden[query] & ~book.items.compound[links.query_items]
    extreme = plain & ((fn[query] == MIN) | (fn[query] == MAX))
    linear = plain & ((fn[query] == SUM) | (fn[query] == AVG))
    entries = _Entries(query[linear], links.query_items[linear], links.query_weights[linear])
    group = entries.query * (int(owner[:n].max(initial=0)) + 1) + owner[entries.item]
    _, group, size = np.unique(group, return_inverse=True, return_counts=True)
    single = size[group] == 1
    alone = np.full(n, np.inf)
    np.minimum.at(alone, links.query_items[extreme], 2.0 * book.queries.within[query[extreme]])
    np.minimum.at(alone, entries.item[single], granted[entries.item[single]])
    shared = free[entries.item] & (np.bincount(group[free[entries.item]], minlength=len(size))[group] > 1)
    return Overlaps(_sets(book, _Entries._make(column[shared] for column in entries), group[shared]), alone)


def _sets(book: Book, entries: _Entries, group: Integers) -> list[list[Part]]:
    """The entries as parts, one a group, put together where they have items in common."""
    if not len(group):
        return []
    n, groups = book.size, int(group.max()) + 1
    ones = np.ones(len(group), np.int8)
    graph = coo_array((ones, (entries.item, n + group)), shape=(n + groups, n + groups))
    label = connected_components(graph, directed=False)[1][n + group]
    order = np.lexsort((np.arange(len(group)), group, label))
    label, group = label[order], group[order]
    cuts = np.flatnonzero(np.diff(group, prepend=-1) | np.diff(label, prepend=-1))
    found: dict[int, list[Part]] = {}
    sizes = np.bincount(label)
    for begin, end in zip(cuts.tolist(), [*cuts[1:].tolist(), len(group)], strict=True):
        if sizes[label[begin]] <= _LARGEST:
            own = order[begin:end]
            member = book.members[entries.query[own[0]]]
            assert member is not None
            part = Part(member.name, entries.item[own], entries.weight[own])
            found.setdefault(int(label[begin]), []).append(part)
    return list(found.values())


class Shares:
    """How wide parts may be, whichever form they have: what they hold, and of what nobody holds their fraction."""

    def __init__(self, book: Book, granted: Floats) -> None:
        self._book, self._granted = book, granted
        self._of_query: dict[str, tuple[float, float]] = {}

    def of(self, part: Part) -> float:
        """Of one part."""
        member = self._book.member(part.query)
        if part.query not in self._of_query:
            size = len(member.weights)
            index = np.fromiter(member.weights.keys(), np.int64, size)
            a = np.abs(np.fromiter(member.weights.values(), np.float64, size))
            beta = 2.0 * member.within * (self._book.counted(member) if member.fn == "avg" else 1)
            held = float(a[a > 0] @ self._granted[index[a > 0]])
            self._of_query[part.query] = max(beta - held, 0.0), float(a.sum())
        left, total = self._of_query[part.query]
        own = np.abs(part.weights)
        if part.sum in member.weights:
            held, fraction = float(self._granted[part.sum]), 1.0 / total
        else:
            held, fraction = float(own @ self._granted[part.items]), float(own.sum()) / total
        return held + left * fraction
