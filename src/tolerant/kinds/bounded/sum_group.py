"""Groups of sums that are exchanged with their items together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tolerant.filters.state import Integers
from tolerant.filters.substitution import PartialSum
from tolerant.kernels.snapshots import State
from tolerant.kinds.bounded.sum_phases import Phase


@dataclass(eq=False)
class SumGroup:
    """Sums of one source; `parts` is parallel to `keys`."""

    source: int
    keys: list[str]
    parts: list[PartialSum]
    phase: Phase = Phase.OFFERED
    wanted: bool = True
    """Whether the source, and the pipeline, want the sums."""
    dropped: list[int] = field(default_factory=list)
    """Parts whose query has been dropped."""
    shares: list[float] = field(default_factory=list)
    """As last published."""

    @property
    def name(self) -> str:
        """Its identifier: its first key."""
        return self.keys[0]

    @property
    def items(self) -> Integers:
        """All its items."""
        return np.unique(np.concatenate([part.items for part in self.parts]))

    @property
    def sums(self) -> Integers:
        """The indices of its sums."""
        return np.array([part.sum for part in self.parts], np.int64)

    def alive(self) -> list[int]:
        """The indices of the parts whose query still exists."""
        return [place for place in range(len(self.parts)) if place not in self.dropped]

    def alive_keys(self) -> list[str]:
        """The keys of the sums whose query still exists."""
        return [self.keys[place] for place in self.alive()]

    def alive_parts(self) -> list[PartialSum]:
        """The parts whose query still exists."""
        return [self.parts[place] for place in self.alive()]

    def signature(self) -> tuple[object, ...]:
        """Equal for two groups with the same content."""
        return (self.source, *((part.query, part.items.tobytes(), part.weights.tobytes()) for part in self.parts))


class SumGroups:
    """The groups of a shard in order of their offers.

    A group is *active* once its sums are more than an offer. A *busy* group is looked at whenever the watermark
    advances. `changed`: whether items, queries or groups have been added or removed since the last offers.
    """

    def __init__(self) -> None:
        self.changed = False
        self._groups: dict[str, SumGroup] = {}
        self._active: dict[int, str] = {}  # items and sums of active groups
        self._by_key: dict[str, str] = {}
        self._busy: dict[str, None] = {}  # in order

    def __iter__(self) -> Iterator[SumGroup]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group: SumGroup) -> bool:
        return self._groups.get(group.name) is group

    def has_key(self, key: str) -> bool:
        """Whether a sum with this key is in a group."""
        return key in self._by_key

    def with_key(self, key: str) -> SumGroup | None:
        """Returns the group of the sum with this key."""
        name = self._by_key.get(key)
        return None if name is None else self._groups[name]

    def with_items(self, items: Integers) -> list[SumGroup]:
        """Returns the active groups that have any of these items or sums."""
        names = dict.fromkeys(self._active[item] for item in items.tolist() if item in self._active)
        return [self._groups[name] for name in names]

    def active_items(self) -> Integers:
        """Returns the items and sums of active groups."""
        return np.array(list(self._active), np.int64)

    def add(self, group: SumGroup) -> None:
        """Adds a group that is offered."""
        self._groups[group.name] = group
        self._by_key.update(dict.fromkeys(group.keys, group.name))

    def activate(self, group: SumGroup) -> None:
        """Makes a group active: no other may have its items."""
        self._active.update(dict.fromkeys([*group.items.tolist(), *group.sums.tolist()], group.name))
        self.changed = True

    def remove(self, group: SumGroup) -> None:
        """Removes a group; its content may be offered again with other keys."""
        del self._groups[group.name]
        self.rest(group)
        for key in group.keys:
            del self._by_key[key]
        for item in [*group.items.tolist(), *group.sums.tolist()]:
            if self._active.get(item) == group.name:
                del self._active[item]
        self.changed = True

    def wake(self, group: SumGroup) -> None:
        """Makes a group busy."""
        self._busy[group.name] = None

    def rest(self, group: SumGroup) -> None:
        """Ends that a group is busy."""
        self._busy.pop(group.name, None)

    def busy(self) -> list[SumGroup]:
        """Returns the busy groups."""
        return [self._groups[name] for name in self._busy if name in self._groups]

    def state(self) -> State:
        """The groups, for a snapshot."""
        groups = [
            [
                group.source, group.keys, group.phase.value, group.wanted, group.dropped, group.shares,
                [[part.query, part.items.tolist(), part.weights.tolist(), part.sum] for part in group.parts],
            ]
            for group in self
        ]  # fmt: skip
        return State(groups=groups, busy=list(self._busy), changed=self.changed)

    def load(self, state: State) -> None:
        """Restores what `state` returned."""
        groups, busy, changed = state.exactly("groups", "busy", "changed")
        self._groups, self._active, self._by_key = {}, {}, {}
        for source, keys, phase, wanted, dropped, shares, parts in groups:
            group = SumGroup(source, keys, _loaded(parts), Phase(phase), wanted, dropped, shares)
            self.add(group)
            if group.phase is not Phase.OFFERED:
                self.activate(group)
        self._busy, self.changed = dict.fromkeys(busy), changed


def _loaded(parts: Iterable[Any]) -> list[PartialSum]:
    return [
        PartialSum(query, np.array(items, np.int64), np.array(weights, np.float64), sum_)
        for query, items, weights, sum_ in parts
    ]
