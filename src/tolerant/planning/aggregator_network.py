"""The network: which aggregator holds which item, how precisely, and where it gets it from (`docs/design/planning.md`
§2.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tolerant.planning.planning_arrays import Floats, Integers

Bounds = Mapping[str, Mapping[str, float]]


class HolderTable(NamedTuple):
    """Aggregators by item, so that a query reads only what concerns it: item i is served by holders[start[i]:
    start[i + 1]], each within the bound at the same index of `within`.
    """

    start: Integers
    holders: Integers
    within: Floats


class Network:
    """Aggregators, the items that each serves, and how far its copy may be from the source.

    bounds: {aggregator: {item: within}}; the order breaks ties. parents: {aggregator: parent}, where an item comes from
    the parent if it serves it, else from the source; a child's bound is never tighter than its parent's.

    >>> network = Network({"D1": {"S1": 0.5, "S3": 0.2}, "D2": {"S1": 1.0, "S2": 0.1}})
    >>> network.aggregators, network.tightest("S1")
    (('D1', 'D2'), 0.5)
    """

    __slots__ = ("aggregators", "bounds", "index", "items", "parents", "places", "table")

    aggregators: tuple[str, ...]
    items: tuple[str, ...]
    bounds: Mapping[str, Mapping[str, float]]
    parents: Mapping[str, str]
    places: Mapping[str, int]
    index: Mapping[str, int]
    table: HolderTable

    def __init__(self, bounds: Bounds, parents: Mapping[str, str] | None = None) -> None:
        checked = {str(name): _checked(str(name), served) for name, served in bounds.items()}
        self.bounds = MappingProxyType({name: MappingProxyType(served) for name, served in checked.items()})
        self.aggregators = tuple(checked)
        self.places = MappingProxyType({name: place for place, name in enumerate(checked)})
        self.items = tuple(dict.fromkeys(item for served in checked.values() for item in served))
        self.parents = MappingProxyType({str(child): str(parent) for child, parent in (parents or {}).items()})
        self._check_parents()
        self.index = MappingProxyType({item: place for place, item in enumerate(self.items)})
        self.table = _table(list(checked.values()), self.items)

    def serving(self, item: str) -> tuple[Integers, Floats]:
        """Return the aggregators that serve the item, as indices in `aggregators`, and their bounds."""
        place = self.index.get(item)
        if place is None:
            return self.table.holders[:0], self.table.within[:0]
        begin, end = self.table.start[place], self.table.start[place + 1]
        return self.table.holders[begin:end], self.table.within[begin:end]

    def tightest(self, item: str) -> float:
        """Return the tightest bound within which an aggregator serves the item; infinite if none does."""
        return float(self.serving(item)[1].min(initial=math.inf))

    def source_of(self, aggregator: str, item: str) -> str | None:
        """Return the aggregator that this one gets the item from; None: from the source itself."""
        parent = self.parents.get(aggregator)
        return parent if parent is not None and item in self.bounds[parent] else None

    def path(self, aggregator: str, item: str) -> tuple[str, ...]:
        """Return the aggregators that the item passes, first the one that reads the source, last this one."""
        passed = [aggregator]
        while (above := self.source_of(passed[-1], item)) is not None:
            passed.append(above)
        return tuple(reversed(passed))

    def step(self, aggregator: str, item: str) -> float:
        """Return how far its copy may be behind what it is offered: c, or c − c of the parent that feeds it."""
        above = self.source_of(aggregator, item)
        within = self.bounds[aggregator][item]
        return within if above is None else within - self.bounds[above][item]

    def without(self, *aggregators: str) -> Network:
        """Return the network without these; a child gets its items from its grandparent where that can feed it, else
        from the source.
        """
        for name in aggregators:
            self._known(name)
        gone = set(aggregators)
        bounds = {name: served for name, served in self.bounds.items() if name not in gone}
        parents: dict[str, str] = {}
        for child in bounds:
            above = self._next_parent(child, gone)
            if above is not None:
                parents[child] = above
        return Network(bounds, parents)

    def joined(self, aggregator: str, served: Mapping[str, float], parent: str | None = None) -> Network:
        """Return the network with one more aggregator, or with one that serves other items now; it comes last."""
        bounds = {name: items for name, items in self.bounds.items() if name != aggregator}
        parents = {child: above for child, above in self.parents.items() if child != aggregator}
        if parent is not None:
            parents[aggregator] = parent
        return Network({**bounds, aggregator: served}, parents)

    def without_items(self, items: Iterable[str]) -> Network:
        """Return the network that does not serve these items any more."""
        gone = set(items)
        return Network(
            {name: {i: c for i, c in served.items() if i not in gone} for name, served in self.bounds.items()},
            self.parents,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and (
            self.aggregators == other.aggregators and self.bounds == other.bounds and self.parents == other.parents
        )

    def __hash__(self) -> int:
        return hash((self.aggregators, self.items))

    def __repr__(self) -> str:
        return f"Network({len(self.aggregators)} aggregators, {len(self.items)} items)"

    def __reduce__(self) -> tuple[object, ...]:
        bounds = {name: dict(served) for name, served in self.bounds.items()}
        return (Network, (bounds, dict(self.parents)))

    def _next_parent(self, child: str, gone: set[str]) -> str | None:
        above = self.parents.get(child)
        while above is not None and above in gone:
            above = self.parents.get(above)
        if above is None or above == self.parents[child]:
            return above
        served, fed = self.bounds[child], self.bounds[above]
        return above if all(c >= fed.get(item, 0.0) for item, c in served.items()) else None

    def _known(self, name: str) -> None:
        if name not in self.bounds:
            raise ValueError(f"no aggregator is called {name!r}; there are {', '.join(self.aggregators) or 'none'}")

    def _check_parents(self) -> None:
        for child, parent in self.parents.items():
            for name in (child, parent):
                if name not in self.bounds:
                    raise ValueError(f"parents: no aggregator is called {name!r} (parent of {child!r} is {parent!r})")
            self._check_chain(child)
            for item, within in self.bounds[child].items():
                above = self.bounds[parent].get(item, 0.0)
                if within < above:
                    raise ValueError(
                        f"aggregator {child!r} holds {item!r} within {within:g}, tighter than its parent "
                        f"{parent!r}, which holds it within {above:g}"
                    )

    def _check_chain(self, start: str) -> None:
        seen, name = {start}, start
        while (above := self.parents.get(name)) is not None:
            if above in seen:
                raise ValueError(f"parents must not go round in a circle, but {above!r} is above itself")
            seen.add(above)
            name = above


def _table(bounds: list[dict[str, float]], items: tuple[str, ...]) -> HolderTable:
    serving: dict[str, list[int]] = {item: [] for item in items}
    for place, served in enumerate(bounds):
        for item in served:
            serving[item].append(place)
    start = np.concatenate([[0], np.cumsum([len(places) for places in serving.values()])]).astype(np.int64)
    holders = np.array([place for places in serving.values() for place in places], np.int64)
    within = np.array([bounds[place][item] for item, places in serving.items() for place in places], np.float64)
    return HolderTable(start, holders, within)


def _checked(aggregator: str, served: Mapping[str, float]) -> dict[str, float]:
    checked = {}
    for item, within in served.items():
        if isinstance(within, bool) or not isinstance(within, int | float | np.number):
            raise ValueError(f"within of {item!r} at aggregator {aggregator!r} must be a number, got {within!r}")
        if not (math.isfinite(within) and within >= 0):
            raise ValueError(
                f"within of {item!r} at aggregator {aggregator!r} must be finite and not negative, got {within}"
            )
        checked[str(item)] = float(within)
    return checked
