"""Who is who: items and queries by name and by index, and which items are in which query.

Indices are dense and reused, so that the arrays stay as small as what is alive; links and rows are made anew only
when they are asked for after a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.rows import Rows, rows_of
from tolerant.filters.state import CODES, Integers, Items, Links, Queries, blank, grown, links_of, reset

_SMALLEST = 16


@dataclass
class Member:
    """A query as the book keeps it: its function, tolerance, and the weight of each item index."""

    name: str
    fn: str
    within: float
    weights: dict[int, float] = field(default_factory=dict)


class Book:
    """Items and queries that come and go."""

    def __init__(self) -> None:
        self.items = blank(Items, _SMALLEST)
        self.queries = blank(Queries, _SMALLEST)
        self.item_names: list[str | None] = []
        self.members: list[Member | None] = []
        self.index: dict[str, int] = {}
        self.query_index: dict[str, int] = {}
        self._free_items: list[int] = []
        self._free_queries: list[int] = []
        self._compounds: set[int] = set()
        self._links: Links | None = None
        self._rows: Rows | None = None

    @property
    def size(self) -> int:
        """How many item indices are in use, freed ones included."""
        return len(self.item_names)

    def admit(self, names: Iterable[str]) -> Integers:
        """The indices of these items, which get one if they have none."""
        return np.array([self._admit_one(name) for name in names], np.int64)

    def _admit_one(self, name: str) -> int:
        known = self.index.get(name)
        if known is not None:
            return known
        if self._free_items:
            item = self._free_items.pop()
            self.item_names[item] = name
        else:
            item = len(self.item_names)
            self.item_names.append(name)
            if item >= len(self.items.level):
                self.items = grown(self.items, 2 * len(self.items.level))
        self.index[name] = item
        self.changed()
        return item

    def dismiss(self, items: Integers) -> None:
        """Take items out of their queries and make them what they were at birth; they keep their index until
        `release`.
        """
        links = self.links()
        for item in items.tolist():
            for query in links.item_queries[links.item_start[item] : links.item_start[item + 1]]:
                member = self.members[query]
                if member is not None:
                    member.weights.pop(item, None)
            reset(self.items, item)
        self._compounds.difference_update(items.tolist())
        self.changed()

    def release(self, items: Integers) -> None:
        """Let the indices of dismissed items be used by others."""
        for item in items.tolist():
            del self.index[str(self.item_names[item])]
            self.item_names[item] = None
            self._free_items.append(item)

    def open(self, name: str, fn: str, within: float, weights: Mapping[int, float]) -> int:
        """Give a query an index."""
        if self._free_queries:
            query = self._free_queries.pop()
            self.members[query] = Member(name, fn, within, dict(weights))
        else:
            query = len(self.members)
            self.members.append(Member(name, fn, within, dict(weights)))
            if query >= len(self.queries.fn):
                self.queries = grown(self.queries, 2 * len(self.queries.fn))
        reset(self.queries, query)
        self.queries.fn[query] = CODES[fn]
        self.queries.within[query] = within
        self.query_index[name] = query
        self.changed()
        return query

    def close(self, name: str) -> None:
        """Forget a query."""
        query = self.query_index.pop(name)
        self.members[query] = None
        self._free_queries.append(query)
        reset(self.queries, query)
        self.changed()

    def enter(self, name: str, weights: Mapping[int, float]) -> None:
        """Add items to a query."""
        self.member(name).weights.update(weights)
        self.changed()

    def retune(self, name: str, within: float) -> None:
        """Give a query another tolerance."""
        self.member(name).within = within
        self.queries.within[self.query_index[name]] = within
        self._rows = None

    def member(self, name: str) -> Member:
        """The query of this name."""
        member = self.members[self.query_index[name]]
        assert member is not None
        return member

    def counted(self, member: Member) -> int:
        """How many items a query has, sums that stand for some of them left out."""
        if not self._compounds:
            return len(member.weights)
        return len(member.weights) - sum(item in self._compounds for item in member.weights)

    def mark_compound(self, items: Integers) -> None:
        """These are sums of other items."""
        self.items.compound[items] = True
        self._compounds.update(items.tolist())
        self.changed()

    def changed(self) -> None:
        """Forget what was made from the membership."""
        self._links = None
        self._rows = None

    def alive(self) -> Integers:
        """The indices of the queries that there are."""
        return np.array([query for query, member in enumerate(self.members) if member is not None], np.int64)

    def links(self) -> Links:
        """Which items are in which query."""
        if self._links is None:
            self._links = links_of([_arrays(member) for member in self.members], self.size)
        return self._links

    def rows(self) -> Rows:
        """The rows Σ a·W ≤ β of `specs/1-filters.md` §2.2."""
        if self._rows is None:
            alive = [member for member in self.members if member is not None]
            terms = [(m.fn, *_arrays(m), m.within) for m in alive]
            rows = rows_of(terms, self.size, [self.counted(member) for member in alive])
            pads = self.items.pad[: self.size]
            self._rows = replace(rows, beta=rows.beta - rows.used(pads)) if pads.any() else rows
        return self._rows

    def state(self) -> tuple[dict[str, NDArray[Any]], Any]:
        """Everything as arrays and plain values; `load` takes it back."""
        links = self.links()
        arrays: dict[str, NDArray[Any]] = {"query_start": links.query_start, "query_items": links.query_items}
        arrays["query_weights"] = links.query_weights
        arrays |= {f"item.{name}": array[: self.size] for name, array in self.items._asdict().items()}
        arrays |= {f"query.{name}": array[: len(self.members)] for name, array in self.queries._asdict().items()}
        members = [None if m is None else [m.name, m.fn, m.within] for m in self.members]
        return arrays, [self.item_names, members, self._free_items, self._free_queries]

    def load(self, arrays: Mapping[str, NDArray[Any]], values: Any) -> None:
        """Become what `state` said, bit for bit."""
        self.item_names, members, self._free_items, self._free_queries = values
        self.index = {name: item for item, name in enumerate(self.item_names) if name is not None}
        self.items = grown(
            Items(*(arrays[f"item.{name}"] for name in Items._fields)), max(_SMALLEST, _power(len(self.item_names)))
        )
        self.queries = grown(
            Queries(*(arrays[f"query.{name}"] for name in Queries._fields)), max(_SMALLEST, _power(len(members)))
        )
        start, items, weights = arrays["query_start"], arrays["query_items"], arrays["query_weights"]
        self.members = []
        for query, head in enumerate(members):
            span = slice(start[query], start[query + 1])
            own = dict(zip(items[span].tolist(), weights[span].tolist(), strict=True))
            self.members.append(None if head is None else Member(head[0], head[1], head[2], own))
        self.query_index = {m.name: query for query, m in enumerate(self.members) if m is not None}
        self._compounds = set(np.flatnonzero(self.items.compound).tolist())
        self.changed()


def _arrays(member: Member | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    weights = {} if member is None else member.weights
    size = len(weights)
    return np.fromiter(weights.keys(), np.int64, size), np.fromiter(weights.values(), np.float64, size)


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
