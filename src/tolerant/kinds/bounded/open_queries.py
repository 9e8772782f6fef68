"""The queries of a shard, and which items they are over."""

from __future__ import annotations

from collections.abc import Mapping

from tolerant.filters.changes import Change
from tolerant.filters.state import Integers
from tolerant.kinds.bounded.shard_state import ShardState
from tolerant.kinds.bounded.sum_substitution import SumSubstitution
from tolerant.queries import Aggregate
from tolerant.sql.membership import Keys, aggregate, instance_name, members
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import is_sum


class OpenQueries:
    """Open queries: `selects` by name, and the groups of each, every one of which is a query of the coordinator."""

    def __init__(self, state: ShardState, sums: SumSubstitution) -> None:
        self.selects: dict[str, AggregateSelect] = {}
        self.groups: dict[str, list[str]] = {}
        self._state, self._sums, self._coordinator = state, sums, state.coordinator

    def open(self, selects: Mapping[str, AggregateSelect], at: int) -> None:
        """Opens queries over the items that exist at `at`."""
        stream, registry = self._state.stream, self._state.registry
        items = registry.items()
        texts = self._state.keys(items[~self._coordinator.membership.sums()[items]])
        keys = Keys(stream, texts)
        opened = []
        for name, select in selects.items():
            self.selects[name] = select
            groups = members(select, keys)
            if not select.group_by and stream.options.shards == 1:
                groups.setdefault("", {})  # of several shards, the one that has the items answers
            self.groups[name] = list(groups)
            for group, weights in groups.items():
                opened.append(aggregate(name, group, select, {texts[i]: weight for i, weight in weights.items()}))
        self._coordinator.apply(Change(add=opened), at)
        self._sums.opened()
        self._state.answers.finish()

    def alter(self, name: str, select: AggregateSelect, at: int) -> None:
        """Changes the tolerance of a query."""
        self.selects[name] = select
        self._coordinator.apply(Change(alter=dict.fromkeys(self._instances(name), select.within)), at)
        self._state.answers.finish()

    def drop(self, name: str, at: int) -> None:
        """Drops a query."""
        dropped = self._instances(name)
        del self.selects[name], self.groups[name]
        self._sums.dropping(dropped)
        self._coordinator.apply(Change(drop=dropped), at)
        self._state.counters.forget(name)
        self._state.answers.finish()

    def _instances(self, name: str) -> list[str]:
        return [instance_name(name, group) for group in self.groups[name]]

    def join(self, items: Integers, at: int) -> None:
        """Adds new items to the queries that are over them; opens groups that begin with them."""
        names = self._state.keys(items)
        sums = [is_sum(name) for name in names]
        if any(sums):
            self._coordinator.membership.mark_sums(items[sums])
        self._sums.appeared(items)
        single = [item for item, summed in zip(items.tolist(), sums, strict=True) if not summed]
        keys = Keys(self._state.stream, [name for name, summed in zip(names, sums, strict=True) if not summed])
        joined: dict[str, dict[int, float]] = {}
        opened: list[Aggregate] = []
        for name, select in self.selects.items():
            for group, weights in members(select, keys).items():
                if group not in self.groups[name]:
                    self.groups[name].append(group)
                    opened.append(aggregate(name, group, select, {}))
                joined[instance_name(name, group)] = {single[index]: weight for index, weight in weights.items()}
        self._coordinator.apply(Change(add=opened, join=joined, joining=items), at)

    def names_of(self, items: Integers) -> list[str]:
        """Returns the coordinator's queries over any of these items."""
        names = self._coordinator.membership.query_names()
        queries = (str(names[query]) for query in self._coordinator.membership.queries_of(items))
        return [name for name in queries if not is_sum(name)]

    def load(self, groups: dict[str, list[str]], selects: Mapping[str, AggregateSelect]) -> None:
        """Restores the open queries; `selects` may contain others."""
        self.groups = groups
        self.selects = {name: selects[name] for name in groups}
