"""Sum substitution (`docs/design/filters.md` §2.8): offers sums to sources, and exchanges items and sums.

A source that has several items in a query may filter their sum. The pipeline offers the sums that would serve
(`sums.<stream>`); the source sends a hello for them when they are cheaper, and a request to return to items when they
no longer are. A set of sums goes through

    offered → forming → formed → parting → (offered again, with other keys)

Forming: the source sends the sums, and a hidden query limits each to the width of its items. Once that is confirmed, so
that every row of the query still fits, the sums replace their items in one transaction. Parting is the reverse. Any
interruption, such as an item that is removed or changes its owner, ends a set at once, and the answer settles again as
after any such change. Everything is a function of the log: transitions happen when the watermark advances, from the
state at that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.changes import Change
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.form_choice import EVERY
from tolerant.filters.overlaps import PartialSumShares, overlaps
from tolerant.filters.substitution import PartialSum, RowRoom, matches_query, row_room
from tolerant.kernels.versions import version
from tolerant.kinds.bounded.item_registry import ItemRegistry
from tolerant.pipeline.sources import Sources
from tolerant.queries import Aggregate
from tolerant.streams import is_sum, sum_key
from tolerant.transport.sums import Sums, sums_body, sums_key

Integers = NDArray[np.int64]

OFFERED, FORMING, FORMED, PARTING = range(4)

_MOVED = 1.5
"""Factor by which a share must have grown or shrunk to be published again."""
_BESIDE = 0.25
"""A sum is replaced when its source has this share of its items more in the same query outside it."""


@dataclass(eq=False)
class SumGroup:
    """Sums of one source that are exchanged with their items together; `parts` is parallel to `keys`."""

    source: int
    keys: list[str]
    parts: list[PartialSum]
    phase: int = OFFERED
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

    def signature(self) -> tuple[object, ...]:
        """Equal for two sets with the same content."""
        return (self.source, *((part.query, part.items.tobytes(), part.weights.tobytes()) for part in self.parts))


class SumSubstitution:
    """All sets of a shard. `keep` is called before queries are added or dropped, to collect the answers so far."""

    def __init__(
        self, coordinator: Coordinator, roll: ItemRegistry, sources: Sources, shard: int, keep: Callable[[], None]
    ) -> None:
        self._coordinator, self._roll, self._sources, self._shard = coordinator, roll, sources, shard
        self._keep = keep
        self.enabled = coordinator.policy.name in ("adaptive", "predictive")
        self.sets: dict[str, SumGroup] = {}
        self._of: dict[int, str] = {}  # items and sums of the sets that are not merely offered
        self._of_key: dict[str, str] = {}
        self._busy: dict[str, None] = {}  # the sets in transition, in order
        self._said: dict[str, list[Any]] = {}  # source → the content of its last row
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._count = 0
        self._epoch = coordinator.grant_log.epoch
        self._looked = 0
        self.changed = False
        """Whether items or queries have been added or removed since the last offers."""

    # -- events ----------------------------------------------------------------------------------------------------

    def appeared(self, items: Integers) -> None:
        """Called when items or sums have been added."""
        names = self._coordinator.membership.item_names
        for item in items.tolist():
            if is_sum(str(names[item])):
                own = self._of_key.get(str(names[item]))
                if own is not None:
                    self._busy[own] = None
        self.changed = True

    def request(self, item: int, wanted: bool) -> None:
        """Applies the request of a source to send the sums of a set (`wanted`), or its items."""
        own = self._of_key.get(str(self._coordinator.membership.item_names[item]))
        if own is not None and self.sets[own].wanted != wanted and not self.sets[own].dropped:
            self.sets[own].wanted = wanted
            self._busy[own] = None

    def departing(self, items: Integers) -> None:
        """Ends the sums of items that are about to be removed; the caller's next change adjusts the widths."""
        self.changed = True
        for one in self._having(items):
            self._end(one)

    def handed_over(self, items: Integers, at: int) -> None:
        """Ends the sums of items that have moved to another source."""
        self.changed = True
        ended = self._having(items)
        for one in ended:
            self._end(one)
        if ended:
            self._coordinator.apply(Change(), at)

    def dropping(self, queries: Iterable[str]) -> None:
        """Ends the sums of queries that are about to be dropped; the caller's next change adjusts the widths."""
        self.changed = True
        gone = set(queries)
        for one in list(self.sets.values()):
            touched = [place for place in one.alive() if one.parts[place].query in gone]
            if not touched or one.phase == OFFERED:
                continue
            if one.phase == FORMING or len(touched) == len(one.alive()):
                self._end(one)
                continue
            if one.phase == PARTING:
                self._edit(drop=[one.keys[place] for place in touched])
            one.dropped += touched
            one.wanted = False  # the rest returns to items step by step, and may form again
            self._busy[one.name] = None

    def opened(self) -> None:
        """Called when queries have been opened."""
        self.changed = True

    def step(self, at: int, boundary: bool) -> Integers:
        """Makes the transitions due at `at`; `boundary`: a period has ended. Returns the sums to remove."""
        if not self.enabled:
            return np.zeros(0, np.int64)
        for name in list(self._busy):
            if name in self.sets:
                self._move(self.sets[name], at, boundary)
        return self._boundary(at) if boundary else np.zeros(0, np.int64)

    # -- transitions of a set --------------------------------------------------------------------------------------

    def _move(self, one: SumGroup, at: int, boundary: bool) -> None:
        if one.phase == OFFERED:
            self._form(one, at)
        elif one.phase == FORMED:
            self._part(one, at)
        elif one.phase == FORMING and not (one.wanted and self._stands(one)):
            self._dissolve(one, at)
        elif one.phase == PARTING and one.wanted:
            self._exchange(at, drop=self._hidden(one))
            one.phase = FORMED
            self._busy.pop(one.name)
        elif self._fits(one):
            self._swap(one, at)
        elif boundary:
            self._tune(one, at)

    def _form(self, one: SumGroup, at: int) -> None:
        """Begins to form if the sums are present and nothing has changed since they were offered."""
        sums = self._coordinator.membership.find(one.keys)
        there = (sums >= 0) & self._roll.present[sums]
        if not there.any():
            self._busy.pop(one.name)
            return
        if not one.wanted:
            self._retire(one)
            return
        if not there.all():
            return
        one.parts = [part._replace(sum=int(sum_)) for part, sum_ in zip(one.parts, sums, strict=True)]
        if not self._stands(one) or self._coordinator.membership.stale(sums).any():
            return
        rooms = [row_room(self._coordinator.membership, part) for part in one.parts]
        if not all(np.isfinite(room.items) and room.left >= 0.0 for room in rooms):
            return
        one.phase = FORMING
        self.changed = True
        self._of.update(dict.fromkeys([*one.items.tolist(), *sums.tolist()], one.name))
        names = self._coordinator.membership.item_names
        hidden = [
            Aggregate(key, "sum", {str(names[part.sum]): 1.0}, room.target(room.items) / 2)
            for key, part, room in zip(one.keys, one.parts, rooms, strict=True)
        ]
        self._exchange(at, add=hidden)

    def _part(self, one: SumGroup, at: int) -> None:
        """Begins to return to items."""
        if one.wanted:
            self._busy.pop(one.name)
            return
        alive = one.alive()
        rooms = {place: row_room(self._coordinator.membership, one.parts[place]) for place in alive}
        if not all(np.isfinite(room.sum) and room.left >= 0.0 for room in rooms.values()):
            return
        names = self._coordinator.membership.item_names
        hidden = []
        for place, room in rooms.items():
            items, weights = one.parts[place].items.tolist(), one.parts[place].weights.tolist()
            terms = {str(names[item]): weight for item, weight in zip(items, weights, strict=True)}
            hidden.append(Aggregate(one.keys[place], "sum", terms, room.target(room.sum) / 2))
        one.phase = PARTING
        self._exchange(at, add=hidden)

    def _fits(self, one: SumGroup) -> bool:
        """Whether, with the confirmed widths, every row of a query still fits its tolerance after the exchange."""
        if self._coordinator.membership.stale(one.sums if one.phase == FORMING else one.items).any():
            return False
        rooms = [row_room(self._coordinator.membership, one.parts[place]) for place in one.alive()]
        return all(self._other(one, room) <= room.left for room in rooms)

    def _other(self, one: SumGroup, room: RowRoom) -> float:
        """The width that the target of the transition, sums or items, takes of a row."""
        return room.sum if one.phase == FORMING else room.items

    def _tune(self, one: SumGroup, at: int) -> None:
        """Narrows the hidden queries whose confirmed width no longer fits because other widths have grown."""
        narrower: dict[str, float] = {}
        for place in one.alive():
            room = row_room(self._coordinator.membership, one.parts[place])
            held, other = (room.items, room.sum) if one.phase == FORMING else (room.sum, room.items)
            if np.isfinite(held) and np.isfinite(other) and 0.0 <= room.left < other:
                narrower[one.keys[place]] = room.target(held) / 2
        if narrower:
            self._keep()
            self._coordinator.apply(Change(alter=narrower), at)

    def _swap(self, one: SumGroup, at: int) -> None:
        """Exchanges items and sums in one transaction."""
        parts = [one.parts[place] for place in one.alive()]
        if one.phase == FORMING:
            self._exchange(at, substitute=parts, drop=self._hidden(one))
            one.phase = FORMED
            self._busy.pop(one.name)
        else:
            self._exchange(at, restore=parts, drop=self._hidden(one))
            self._retire(one)

    def _hidden(self, one: SumGroup) -> list[str]:
        return [one.keys[place] for place in one.alive()] if one.phase in (FORMING, PARTING) else []

    def _stands(self, one: SumGroup) -> bool:
        """Whether items, sums, weights and owners are unchanged since the set was offered."""
        own = np.append(one.items, one.sums)
        here = self._roll.present[own] & (self._roll.owner[own] == one.source)
        return bool(here.all()) and all(matches_query(self._coordinator.membership, part) for part in one.parts)

    def _end(self, one: SumGroup) -> None:
        """Ends a set in whatever phase it is; the caller's next change adjusts the widths."""
        restore = [one.parts[place] for place in one.alive()] if one.phase in (FORMED, PARTING) else []
        self._edit(restore=restore, drop=self._hidden(one))
        self._retire(one)

    def _dissolve(self, one: SumGroup, at: int) -> None:
        self._end(one)
        self._coordinator.apply(Change(), at)

    def _retire(self, one: SumGroup) -> None:
        """Removes a set; its content may be offered again with other keys."""
        del self.sets[one.name]
        self._busy.pop(one.name, None)
        for key in one.keys:
            del self._of_key[key]
        for item in [*one.items.tolist(), *one.sums.tolist()]:
            if self._of.get(item) == one.name:
                del self._of[item]
        self.changed = True

    def _having(self, items: Integers) -> list[SumGroup]:
        names = dict.fromkeys(self._of[item] for item in items.tolist() if item in self._of)
        return [self.sets[name] for name in names]

    def _edit(self, *, restore: Iterable[PartialSum] = (), drop: Iterable[str] = ()) -> None:
        self._keep()
        Change(restore=restore, drop=drop).apply_to(self._coordinator.membership)

    def _exchange(
        self,
        at: int,
        *,
        substitute: Iterable[PartialSum] = (),
        restore: Iterable[PartialSum] = (),
        add: Iterable[Aggregate] = (),
        drop: Iterable[str] = (),
    ) -> None:
        self._keep()
        self._coordinator.apply(Change(substitute=substitute, restore=restore, add=add, drop=drop), at)

    # -- offers ----------------------------------------------------------------------------------------------------

    def _boundary(self, at: int) -> Integers:
        for one in [one for one in self.sets.values() if one.phase != OFFERED]:
            # The source has restarted without these sums.
            if (
                self._coordinator.membership.stale(one.sums).any()
                and not self._coordinator.membership.stale(one.items).any()
            ):
                self._dissolve(one, at)
        looks = self._coordinator.grant_log.passed // EVERY > self._looked
        if self._epoch != self._coordinator.grant_log.epoch:
            self._epoch = self._coordinator.grant_log.epoch
            self._said = {name: [] for name in self._said}  # a foreign epoch may have published other sums
            self.changed = True
        if looks:
            self._looked = self._coordinator.grant_log.passed // EVERY
            self._renew()
        lost = self._strays()
        if self.changed or looks:
            self._offer(lost, looks)
        self.changed = False
        return lost

    def _renew(self) -> None:
        """Returns sets to items where better ones could replace them."""
        found = overlaps(
            self._coordinator.membership,
            self._roll.owner,
            self._everything(),
            self.hidden_queries(),
            self._coordinator.grant_log.granted(),
        )
        beside = {(part.query, int(self._roll.owner[part.items[0]])): part for own in found.sets for part in own}
        taken = {item for part in beside.values() for item in part.items.tolist()}
        for one in self.sets.values():
            if one.phase != FORMED:
                continue
            crowded = any(
                len(more.items) >= max(2.0, _BESIDE * len(part.items))
                for part in one.parts
                if (more := beside.get((part.query, one.source))) is not None
            )
            if crowded or not taken.isdisjoint(one.items.tolist()):
                one.wanted = False
                self._busy[one.name] = None

    def _strays(self) -> Integers:
        """Sums that are in no set and that no source sends."""
        sums = self._alien()
        return sums[self._coordinator.membership.stale(sums)]

    def _alien(self) -> Integers:
        """Sums that are in no set: they belong to earlier sets or to another pipeline."""
        names = self._coordinator.membership.item_names
        sums = np.flatnonzero(self._roll.present[: len(names)] & self._coordinator.membership.sums())
        return np.array([item for item in sums.tolist() if str(names[item]) not in self._of_key], np.int64)

    def _everything(self) -> NDArray[np.bool_]:
        return self._roll.present[: len(self._coordinator.membership.item_names)].copy()

    def hidden_queries(self) -> NDArray[np.bool_]:
        """Marks the query indices that belong to no user."""
        return np.array([name is None or is_sum(name) for name in self._coordinator.membership.query_names()], np.bool_)

    def _offer(self, lost: Integers, looks: bool) -> None:
        """Updates the offers to the current queries and items, and publishes the changes for the sources concerned."""
        free = self._everything()
        free[np.array(list(self._of), np.int64)] = False
        found = overlaps(
            self._coordinator.membership,
            self._roll.owner,
            free,
            self.hidden_queries(),
            self._coordinator.grant_log.granted(),
        )
        held = {one.signature(): one for one in self.sets.values() if one.phase == OFFERED}
        offers = [SumGroup(int(self._roll.owner[parts[0].items[0]]), [], parts) for parts in found.sets]
        wanted = [(one.signature(), one) for one in offers]
        for old in [old for signature, old in held.items() if signature not in dict(wanted)]:
            self._retire(old)
        for signature, one in wanted:
            if signature not in held:
                self._number(one)
        self._say(found.alone, lost, looks)

    def _number(self, one: SumGroup) -> None:
        """Assigns keys to a new set and adds it."""
        for _ in one.parts:
            one.keys.append(sum_key(self._shard, self._next()))
        self.sets[one.name] = one
        self._of_key.update(dict.fromkeys(one.keys, one.name))

    def _next(self) -> int:
        self._count += 1
        return version(self._coordinator.grant_log.epoch, self._count)

    def _say(self, alone: NDArray[np.float64], lost: Integers, looks: bool) -> None:
        """Publishes rows for the sources whose sets have changed or, if `looks`, whose shares have moved."""
        names, sources = self._coordinator.membership.item_names, self._sources.names
        about: dict[str, list[Any]] = {name: [] for name in self._said}
        own: dict[str, list[SumGroup]] = {}
        for one in self.sets.values():
            about.setdefault(sources[one.source], []).append([one.name, one.phase != OFFERED])
            own.setdefault(sources[one.source], []).append(one)
        for item in np.setdiff1d(self._alien(), lost).tolist():
            about.setdefault(sources[self._roll.owner[item]], []).append(str(names[item]))
        shares = PartialSumShares(self._coordinator.membership, self._coordinator.grant_log.granted())
        for source, what in about.items():
            news = what != self._said.get(source)
            if not (news or looks):
                continue
            now = [self._shares(one, shares) for one in own.get(source, [])]
            if news or any(_moved(one.shares, new) for one, new in zip(own.get(source, []), now, strict=True)):
                self._said[source] = what
                for one, new in zip(own.get(source, []), now, strict=True):
                    one.shares = new
                body = sums_body([self._told(one, alone) for one in own.get(source, [])])
                self._rows[source] = self._next(), body

    def _shares(self, one: SumGroup, shares: PartialSumShares) -> list[float]:
        """The current width of each part; for a part whose query was dropped, as last published."""
        places = enumerate(one.parts)
        return [one.shares[place] if place in one.dropped else shares.width_of(part) for place, part in places]

    def _told(self, one: SumGroup, alone: NDArray[np.float64]) -> Sums:
        """A set as it is published for its source."""
        names, items = self._coordinator.membership.item_names, one.items
        bound = [float(width) if np.isfinite(width) else None for width in alone[items]]
        return Sums(
            tuple(one.keys),
            tuple(str(names[item]) for item in items.tolist()),
            tuple(tuple(np.searchsorted(items, part.items).tolist()) for part in one.parts),
            tuple(tuple(part.weights.tolist()) for part in one.parts),
            tuple(one.shares),
            tuple(bound),
            one.phase != OFFERED,
        )

    def formed(self) -> list[tuple[int, PartialSum]]:
        """The sums that currently replace items, each with the index of its source."""
        found = [one for one in self.sets.values() if one.phase in (FORMED, PARTING)]
        return [(one.source, one.parts[place]) for one in found for place in one.alive()]

    def take(self) -> list[tuple[str, int, bytes]]:
        """Returns rows (key, version, body) for `sums.<stream>` since the last call, the newest of each source."""
        found, self._rows = self._rows, {}
        return [(sums_key(source, self._shard), number, body) for source, (number, body) in found.items()]

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        """The state as plain values. Rows must have been taken before."""
        sets = [
            [
                one.source, one.keys, one.phase, one.wanted, one.dropped, one.shares,
                [[part.query, part.items.tolist(), part.weights.tolist(), part.sum] for part in one.parts],
            ]
            for one in self.sets.values()
        ]  # fmt: skip
        return [sets, list(self._busy), self._said, self._count, self._epoch, self._looked, self.changed]

    def load(self, values: list[Any]) -> None:
        """Restores what `state` returned."""
        sets, busy, self._said, self._count, self._epoch, self._looked, self.changed = values
        self.sets, self._of, self._of_key, self._rows = {}, {}, {}, {}
        for source, keys, phase, wanted, dropped, shares, listed in sets:
            parts = [
                PartialSum(query, np.array(items, np.int64), np.array(weights, np.float64), sum_)
                for query, items, weights, sum_ in listed
            ]
            one = SumGroup(source, keys, parts, phase, wanted, dropped, shares)
            self.sets[one.name] = one
            self._of_key.update(dict.fromkeys(keys, one.name))
            if phase != OFFERED:
                self._of.update(dict.fromkeys([*one.items.tolist(), *one.sums.tolist()], one.name))
        self._busy = dict.fromkeys(busy)


def _moved(before: list[float], now: list[float]) -> bool:
    """Whether shares differ much from those last published, or none were."""
    return len(before) != len(now) or any(
        not one / _MOVED <= other <= one * _MOVED for one, other in zip(before, now, strict=True)
    )
