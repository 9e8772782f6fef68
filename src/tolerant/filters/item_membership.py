"""Items and queries by name and by index, and which items are in which query.

Indices are dense and reused, so that the arrays stay as small as the number of live items and queries; links and
constraints are recomputed on the first use after a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.constraints import WidthConstraints, constraints_of
from tolerant.filters.state import (
    CODES,
    Flags,
    Integers,
    ItemArrays,
    LinkArrays,
    QueryArrays,
    blank,
    grown,
    links_of,
    reset,
)
from tolerant.kernels.snapshots import State
from tolerant.queries import Aggregate

_SMALLEST = 16


@dataclass
class RegisteredQuery:
    """A query as the membership stores it: its function, tolerance, and the weight of each item index."""

    name: str
    fn: str
    within: float
    weights: dict[int, float] = field(default_factory=dict)


class Membership:
    """The items and queries of a coordinator, which are added and removed at run time.

    costs: of a message, by item (default 1). margins: the most that each item can change while an update is in flight,
    by which answers are wider; None: not considered.
    """

    def __init__(self, costs: Mapping[str, float] | None = None, margins: Mapping[str, float] | None = None) -> None:
        self._costs, self._margins = dict(costs or {}), margins
        self.items = blank(ItemArrays, _SMALLEST)
        self.queries = blank(QueryArrays, _SMALLEST)
        self.item_names: list[str | None] = []
        self.registered: list[RegisteredQuery | None] = []
        self.index: dict[str, int] = {}
        self.query_index: dict[str, int] = {}
        self._free_items: list[int] = []
        self._free_queries: list[int] = []
        self.query_ids = np.zeros(_SMALLEST, np.int64)
        """By query index: its id, which no later query gets."""
        self._opened = 0
        self._dropped_queries: dict[int, str] = {}
        self._sums: set[int] = set()
        self._links: LinkArrays | None = None
        self._rows: WidthConstraints | None = None

    def __len__(self) -> int:
        """Number of items that have an index."""
        return len(self.index)

    @property
    def size(self) -> int:
        """Number of item indices, freed ones included."""
        return len(self.item_names)

    def find(self, names: Sequence[str]) -> Integers:
        """The indices of these items, −1 for an unknown item."""
        return np.fromiter(map(self.index.get, names, repeat(-1)), np.int64, len(names))

    def intern(self, names: Iterable[str]) -> Integers:
        """Return the indices of these items; a new item gets one."""
        return np.array([self._intern_one(name) for name in names], np.int64)

    def _intern_one(self, name: str) -> int:
        index = self.index.get(name)
        if index is not None:
            return index
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

    def remove(self, items: Integers) -> None:
        """Remove items from their queries and reset their state; they keep their index until `release`."""
        links = self.links()
        for item in items.tolist():
            for query in links.item_queries[links.item_start[item] : links.item_start[item + 1]]:
                registered = self.registered[query]
                if registered is not None:
                    registered.weights.pop(item, None)
            reset(self.items, item)
        self._sums.difference_update(items.tolist())
        self.changed()

    def release(self, items: Integers) -> None:
        """Free the indices of removed items for reuse."""
        for item in items.tolist():
            del self.index[str(self.item_names[item])]
            self.item_names[item] = None
            self._free_items.append(item)

    def add_query(self, query: Aggregate) -> None:
        """Add a query and its items.

        Raises:
            ValueError: the name is in use, or the items' margins exceed the tolerance.
        """
        if query.name in self.query_index:
            raise ValueError(f"there is a query named {query.name!r} already")
        margins = {} if self._margins is None else self._margins
        if self._margins is not None and (unknown := query.weights.keys() - margins.keys()):
            raise ValueError(f"there is no rate for item {min(unknown)!r} of query {query.name!r}")
        indices = self.intern(query.weights)
        for item, name in zip(indices, query.weights, strict=True):
            self.items.cost[item] = self._costs.get(name, 1.0)
            self.items.pad[item] = 2.0 * margins.get(name, 0.0)
        self._open(query.name, query.fn, query.within, dict(zip(indices.tolist(), query.weights.values(), strict=True)))
        if self._margins is not None and self.rows().beta.min(initial=0.0) < 0:
            self.drop_query(query.name)
            raise _too_narrow(query.name, query.within)

    def alter_query(self, name: str, within: float) -> None:
        """Change the tolerance of a query.

        Raises:
            ValueError: there is no such query, or the tolerance is negative or below the items' margins.
        """
        if not (np.isfinite(within) and within >= 0):
            raise ValueError(f"within of query {name!r} must be finite and not negative, got {within}")
        before = self.query(name).within
        self._set_within(name, float(within))
        if self._margins is not None and self.rows().beta.min(initial=0.0) < 0:
            self._set_within(name, before)
            raise _too_narrow(name, within)

    def _set_within(self, name: str, within: float) -> None:
        self.query(name).within = within
        self.queries.within[self.query_index[name]] = within
        self._rows = None

    def _open(self, name: str, fn: str, within: float, weights: dict[int, float]) -> None:
        if self._free_queries:
            query = self._free_queries.pop()
            self.registered[query] = RegisteredQuery(name, fn, within, weights)
        else:
            query = len(self.registered)
            self.registered.append(RegisteredQuery(name, fn, within, weights))
            if query >= len(self.queries.fn):
                self.queries = grown(self.queries, 2 * len(self.queries.fn))
                self.query_ids = np.resize(self.query_ids, len(self.queries.fn))
        self.query_ids[query] = self._opened
        self._opened += 1
        reset(self.queries, query)
        self.queries.fn[query] = CODES[fn]
        self.queries.within[query] = within
        self.query_index[name] = query
        self.changed()

    def drop_query(self, name: str) -> None:
        """Remove a query; its index is reused only after `release_queries`."""
        self.query(name)
        query = self.query_index.pop(name)
        self.registered[query] = None
        self._dropped_queries[query] = name
        reset(self.queries, query)
        self.changed()

    def add_items(self, name: str, weights: Mapping[int, float]) -> None:
        """Add items to a query."""
        self.query(name).weights.update(weights)
        self.changed()

    def query(self, name: str) -> RegisteredQuery:
        """The query of this name.

        Raises:
            ValueError: there is no such query.
        """
        registered = self.registered[self.query_index[name]] if name in self.query_index else None
        if registered is None:
            raise ValueError(f"there is no query named {name!r}")
        return registered

    def query_names(self) -> list[str | None]:
        """The name of each query index."""
        return [None if registered is None else registered.name for registered in self.registered]

    def names_by_id(self) -> dict[int, str]:
        """The names of all queries by their ids."""
        return dict(zip(self.query_ids[list(self.query_index.values())].tolist(), self.query_index, strict=True))

    def release_queries(self) -> dict[int, str]:
        """Free the indices of dropped queries, once no answer refers to them any more; returns their names by id."""
        dropped, self._dropped_queries = self._dropped_queries, {}
        self._free_queries += dropped
        return {int(self.query_ids[query]): name for query, name in dropped.items()}

    def queries_of(self, items: Integers) -> Integers:
        """The indices of the queries that have one of these items."""
        links = self.links()
        spans = [links.item_queries[links.item_start[item] : links.item_start[item + 1]] for item in items]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *spans]))

    def counted_items(self, registered: RegisteredQuery) -> int:
        """Number of items of a query, not counting sums that replace some of them."""
        if not self._sums:
            return len(registered.weights)
        return len(registered.weights) - sum(item in self._sums for item in registered.weights)

    def mark_sums(self, items: Integers) -> None:
        """Mark items as sums of other items, which averages do not count."""
        self.items.is_sum[items] = True
        self._sums.update(items.tolist())
        self.changed()

    def sums(self) -> Flags:
        """Which item indices are sums of other items."""
        return self.items.is_sum[: self.size]

    def linked(self) -> Flags:
        """Which item indices are in some query."""
        return np.diff(self.links().item_start) > 0

    @property
    def any_suppressed(self) -> bool:
        """Whether any item is suppressed."""
        return bool(self.items.suppress_side.any())

    def has_reported_history(self, name: str) -> bool:
        """Whether the value of an item is bounded by its reported history."""
        return bool(np.isfinite(self.items.reported_low[self.index[name]]))

    def stale(self, items: Integers) -> Flags:
        """Which of these items are stale."""
        return self.items.stale[items]

    def sequences(self, items: Integers) -> Integers:
        """The sequence of the newest row applied, by item."""
        return self.items.sequence[items]

    def set_sequences(self, items: Integers, sequences: Integers) -> None:
        """Set the newest sequence of items, by which repeated rows are recognised: for rows that are not applied."""
        self.items.sequence[items] = sequences

    def restart_sequences(self, items: Integers, epochs: Integers) -> None:
        """Items are sent by another source, of these epochs, from now on: it numbers its rows independently."""
        self.items.sequence[items] = 0
        self.items.lost_sequence[items] = 0
        self.items.epoch[items] = epochs

    def changed(self) -> None:
        """Discard links and constraints, after a change."""
        self._links = None
        self._rows = None

    def alive(self) -> Integers:
        """The indices of all queries."""
        return np.array([query for query, registered in enumerate(self.registered) if registered is not None], np.int64)

    def arrays(self) -> tuple[ItemArrays, QueryArrays, LinkArrays]:
        """The arrays for compiled code; valid until the membership changes."""
        return self.items, self.queries, self.links()

    def links(self) -> LinkArrays:
        """Which items are in which query, with which weight."""
        if self._links is None:
            self._links = links_of([_arrays(registered) for registered in self.registered], self.size)
        return self._links

    def rows(self) -> WidthConstraints:
        """The constraints Σ a·W ≤ β of `docs/design/filters.md` §2.2."""
        if self._rows is None:
            alive = [registered for registered in self.registered if registered is not None]
            terms = [(m.fn, *_arrays(m), m.within) for m in alive]
            rows = constraints_of(terms, self.size, [self.counted_items(registered) for registered in alive])
            pads = self.items.pad[: self.size]
            self._rows = replace(rows, beta=rows.beta - rows.used(pads)) if pads.any() else rows
        return self._rows

    def state(self) -> State:
        """Items and queries up to the greatest index, for a snapshot."""
        links = self.links()
        return State(
            item_names=self.item_names,
            members=[None if m is None else [m.name, m.fn, m.within] for m in self.registered],
            free_items=self._free_items,
            query_indices=State(
                free=self._free_queries,
                dropped=list(self._dropped_queries.items()),
                ids=self.query_ids[: len(self.registered)],
                opened=self._opened,
            ),
            items=State({name: array[: self.size] for name, array in self.items._asdict().items()}),
            queries=State({name: array[: len(self.registered)] for name, array in self.queries._asdict().items()}),
            links=State(start=links.query_start, items=links.query_items, weights=links.query_weights),
        )

    def load(self, state: State) -> None:
        """Restore what `state` returned, bit for bit."""
        self.item_names, members, self._free_items, item_arrays, query_arrays, links, indices = state.exactly(
            "item_names", "members", "free_items", "items", "queries", "links", "query_indices"
        )
        self._free_queries, dropped, query_ids, self._opened = indices.exactly("free", "dropped", "ids", "opened")
        self._dropped_queries = dict(dropped)
        self.index = {name: item for item, name in enumerate(self.item_names) if name is not None}
        self.items = grown(
            ItemArrays(*item_arrays.exactly(*ItemArrays._fields)),
            max(_SMALLEST, _power(len(self.item_names))),
        )
        self.queries = grown(
            QueryArrays(*query_arrays.exactly(*QueryArrays._fields)),
            max(_SMALLEST, _power(len(members))),
        )
        self.query_ids = np.resize(query_ids, len(self.queries.fn))
        start, items, weights = links.exactly("start", "items", "weights")
        self.registered = []
        for query, head in enumerate(members):
            span = slice(start[query], start[query + 1])
            own = dict(zip(items[span].tolist(), weights[span].tolist(), strict=True))
            self.registered.append(None if head is None else RegisteredQuery(head[0], head[1], head[2], own))
        self.query_index = {m.name: query for query, m in enumerate(self.registered) if m is not None}
        self._sums = set(np.flatnonzero(self.items.is_sum).tolist())
        self.changed()


def _arrays(registered: RegisteredQuery | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    weights = {} if registered is None else registered.weights
    size = len(weights)
    return np.fromiter(weights.keys(), np.int64, size), np.fromiter(weights.values(), np.float64, size)


def _too_narrow(name: str, within: float) -> ValueError:
    return ValueError(
        f"query {name!r} cannot be answered within {within} because its items may change by more while an update is in "
        "flight"
    )


def _power(size: int) -> int:
    return 1 << max(size - 1, 0).bit_length()
