"""Sums in place of items (`specs/1-filters.md` §2.8): what each source is offered, and the way there and back.

A source that has several items in a query may filter their sum. It is told which sums would serve (`forms.<stream>`),
says hello with them when that is cheaper, and wishes to go back when it no longer is. A set of sums goes through

    offered → forming → formed → parting → (offered anew, under other keys)

Forming: the sums are there, and a hidden query holds each to the width that its items have; once that is confirmed, so
that every row still fits, the sums take their items' places in one transaction. Parting is the mirror image. Anything
that comes between, an item that goes or changes hands, ends a set at once, and the answer settles again like after any
such change. All of it follows from the log: it happens where time moves, by what is believed then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.aggregation import EVERY
from tolerant.filters.coordinator import Coordinator
from tolerant.filters.exchange import Part, Room
from tolerant.filters.overlaps import Shares
from tolerant.kernels.versions import version
from tolerant.queries import Aggregate
from tolerant.spark.kinds.roll import Roll
from tolerant.spark.sources import Sources
from tolerant.streams import is_sum, sum_key
from tolerant.transport.forms import Sums, forms_body, forms_key

Integers = NDArray[np.int64]

OFFERED, FORMING, FORMED, PARTING = range(4)

_MOVED = 1.5
"""Times or divided by: how far a share must have moved to be said again."""
_BESIDE = 0.25
"""Of the items of a sum: so many more of its source beside it, and it is time to make a new one."""


@dataclass(eq=False)
class FormSet:
    """Sums of one source that are exchanged with their items together. Parts are parallel to keys."""

    source: int
    keys: list[str]
    parts: list[Part]
    phase: int = OFFERED
    wanted: bool = True
    """Whether the source, and the pipeline, want the sums."""
    dropped: list[int] = field(default_factory=list)
    """Parts whose query is no more."""
    shares: list[float] = field(default_factory=list)
    """As last said."""

    @property
    def name(self) -> str:
        """What it is known by."""
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
        """The parts whose query stands."""
        return [place for place in range(len(self.parts)) if place not in self.dropped]

    def signature(self) -> tuple[object, ...]:
        """By which two sets of one content are known to be the same."""
        return (self.source, *((part.query, part.items.tobytes(), part.weights.tobytes()) for part in self.parts))


class Forms:
    """All sets of a shard. `keep`: called before queries come or go, to take the answers given so far."""

    def __init__(
        self, coordinator: Coordinator, roll: Roll, sources: Sources, shard: int, keep: Callable[[], None]
    ) -> None:
        self._coordinator, self._roll, self._sources, self._shard = coordinator, roll, sources, shard
        self._keep = keep
        self.enabled = coordinator.policy in ("adaptive", "predictive")
        self.sets: dict[str, FormSet] = {}
        self._of: dict[int, str] = {}  # items and sums of the sets that are more than offered
        self._of_key: dict[str, str] = {}
        self._busy: dict[str, None] = {}  # the sets on their way, in order
        self._said: dict[str, list[Any]] = {}  # source → what its row was about
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._count = 0
        self._epoch = coordinator.ledger.epoch
        self._looked = 0
        self.changed = False
        """Whether items or queries have come or gone since offers were made."""

    # -- what happens ----------------------------------------------------------------------------------------------

    def appeared(self, items: Integers) -> None:
        """Items, or sums, have begun to exist."""
        names = self._coordinator.item_names()
        for item in items.tolist():
            if is_sum(str(names[item])):
                own = self._of_key.get(str(names[item]))
                if own is not None:
                    self._busy[own] = None
        self.changed = True

    def wish(self, item: int, wanted: bool) -> None:
        """A source would rather have the sums of a set, or rather its items."""
        own = self._of_key.get(str(self._coordinator.item_names()[item]))
        if own is not None and self.sets[own].wanted != wanted and not self.sets[own].dropped:
            self.sets[own].wanted = wanted
            self._busy[own] = None

    def departing(self, items: Integers) -> None:
        """Items are about to go (the caller's next change sees to the widths): their sums end."""
        self.changed = True
        for one in self._having(items):
            self._end(one)

    def handed_over(self, items: Integers, at: int) -> None:
        """Items are another source's from now on: their sums end."""
        self.changed = True
        ended = self._having(items)
        for one in ended:
            self._end(one)
        if ended:
            self._coordinator.exchange(at)

    def dropping(self, queries: Iterable[str]) -> None:
        """Queries are about to end (the caller's next change sees to the widths)."""
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
            one.wanted = False  # what is left of it goes back to items in order, and may form anew
            self._busy[one.name] = None

    def opened(self) -> None:
        """Queries have begun."""
        self.changed = True

    def step(self, at: int, boundary: bool) -> Integers:
        """Time has moved to `at`, past a boundary or not: do what is due; the sums that nobody needs or sends."""
        if not self.enabled:
            return np.zeros(0, np.int64)
        for name in list(self._busy):
            if name in self.sets:
                self._move(self.sets[name], at, boundary)
        return self._boundary(at) if boundary else np.zeros(0, np.int64)

    # -- the way of a set ------------------------------------------------------------------------------------------

    def _move(self, one: FormSet, at: int, boundary: bool) -> None:
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

    def _form(self, one: FormSet, at: int) -> None:
        """Begin to form, if the sums are there and everything is as it was when they were offered."""
        sums = self._coordinator.find(one.keys)
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
        if not self._stands(one) or self._coordinator.stale(sums).any():
            return
        rooms = [self._coordinator.room(part) for part in one.parts]
        if not all(np.isfinite(room.items) and room.left >= 0.0 for room in rooms):
            return
        one.phase = FORMING
        self.changed = True
        self._of.update(dict.fromkeys([*one.items.tolist(), *sums.tolist()], one.name))
        names = self._coordinator.item_names()
        hidden = [
            Aggregate(key, "sum", {str(names[part.sum]): 1.0}, room.target(room.items) / 2)
            for key, part, room in zip(one.keys, one.parts, rooms, strict=True)
        ]
        self._exchange(at, add=hidden)

    def _part(self, one: FormSet, at: int) -> None:
        """Begin to go back to items."""
        if one.wanted:
            self._busy.pop(one.name)
            return
        alive = one.alive()
        rooms = {place: self._coordinator.room(one.parts[place]) for place in alive}
        if not all(np.isfinite(room.sum) and room.left >= 0.0 for room in rooms.values()):
            return
        names = self._coordinator.item_names()
        hidden = []
        for place, room in rooms.items():
            items, weights = one.parts[place].items.tolist(), one.parts[place].weights.tolist()
            terms = {str(names[item]): weight for item, weight in zip(items, weights, strict=True)}
            hidden.append(Aggregate(one.keys[place], "sum", terms, room.target(room.sum) / 2))
        one.phase = PARTING
        self._exchange(at, add=hidden)

    def _fits(self, one: FormSet) -> bool:
        """Whether the exchange would leave every row with what it can give, by what is confirmed."""
        if self._coordinator.stale(one.sums if one.phase == FORMING else one.items).any():
            return False
        rooms = [self._coordinator.room(one.parts[place]) for place in one.alive()]
        return all(self._other(one, room) <= room.left for room in rooms)

    def _other(self, one: FormSet, room: Room) -> float:
        """What the form that a set is on its way to holds of a row."""
        return room.sum if one.phase == FORMING else room.items

    def _tune(self, one: FormSet, at: int) -> None:
        """Others have grown since: ask for less, where what was asked for is confirmed and does not fit."""
        narrower: dict[str, float] = {}
        for place in one.alive():
            room = self._coordinator.room(one.parts[place])
            held, other = (room.items, room.sum) if one.phase == FORMING else (room.sum, room.items)
            if np.isfinite(held) and np.isfinite(other) and 0.0 <= room.left < other:
                narrower[one.keys[place]] = room.target(held) / 2
        if narrower:
            self._keep()
            self._coordinator.change(at, alter=narrower)

    def _swap(self, one: FormSet, at: int) -> None:
        """Exchange items and sums, in one transaction."""
        parts = [one.parts[place] for place in one.alive()]
        if one.phase == FORMING:
            self._exchange(at, fold=parts, drop=self._hidden(one))
            one.phase = FORMED
            self._busy.pop(one.name)
        else:
            self._exchange(at, unfold=parts, drop=self._hidden(one))
            self._retire(one)

    def _hidden(self, one: FormSet) -> list[str]:
        return [one.keys[place] for place in one.alive()] if one.phase in (FORMING, PARTING) else []

    def _stands(self, one: FormSet) -> bool:
        """Whether items, sums, weights and owners are what they were when the set was offered."""
        own = np.append(one.items, one.sums)
        here = self._roll.present[own] & (self._roll.owner[own] == one.source)
        return bool(here.all()) and all(self._coordinator.stands(part) for part in one.parts)

    def _end(self, one: FormSet) -> None:
        """End a set where it stands; widths follow with the caller's next change."""
        unfold = [one.parts[place] for place in one.alive()] if one.phase in (FORMED, PARTING) else []
        self._edit(unfold=unfold, drop=self._hidden(one))
        self._retire(one)

    def _dissolve(self, one: FormSet, at: int) -> None:
        self._end(one)
        self._coordinator.exchange(at)

    def _retire(self, one: FormSet) -> None:
        """Forget a set; what it was about may be offered again, under other keys."""
        del self.sets[one.name]
        self._busy.pop(one.name, None)
        for key in one.keys:
            del self._of_key[key]
        for item in [*one.items.tolist(), *one.sums.tolist()]:
            if self._of.get(item) == one.name:
                del self._of[item]
        self.changed = True

    def _having(self, items: Integers) -> list[FormSet]:
        names = dict.fromkeys(self._of[item] for item in items.tolist() if item in self._of)
        return [self.sets[name] for name in names]

    def _edit(self, *, unfold: Iterable[Part] = (), drop: Iterable[str] = ()) -> None:
        self._keep()
        self._coordinator.edit(unfold=unfold, drop=drop)

    def _exchange(
        self,
        at: int,
        *,
        fold: Iterable[Part] = (),
        unfold: Iterable[Part] = (),
        add: Iterable[Aggregate] = (),
        drop: Iterable[str] = (),
    ) -> None:
        self._keep()
        self._coordinator.exchange(at, fold=fold, unfold=unfold, add=add, drop=drop)

    # -- offers ----------------------------------------------------------------------------------------------------

    def _boundary(self, at: int) -> Integers:
        for one in [one for one in self.sets.values() if one.phase != OFFERED]:
            # A source that has started again without these sums does not know of them.
            if self._coordinator.stale(one.sums).any() and not self._coordinator.stale(one.items).any():
                self._dissolve(one, at)
        looks = self._coordinator.ledger.passed // EVERY > self._looked
        if self._epoch != self._coordinator.ledger.epoch:
            self._epoch = self._coordinator.ledger.epoch
            self._said = {name: [] for name in self._said}  # a rival may have said something else in between
            self.changed = True
        if looks:
            self._looked = self._coordinator.ledger.passed // EVERY
            self._renew()
        lost = self._strays()
        if self.changed or looks:
            self._offer(lost, looks)
        self.changed = False
        return lost

    def _renew(self) -> None:
        """Let sets go back to items in whose place better ones could be made."""
        found = self._coordinator.overlaps(self._roll.owner, self._everything(), self.hidden_queries())
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
        """Sums that are in no set and that no source sends any more."""
        sums = self._alien()
        return sums[self._coordinator.stale(sums)]

    def _alien(self) -> Integers:
        """Sums that are in no set: of earlier ones, or another pipeline's."""
        names = self._coordinator.item_names()
        sums = np.flatnonzero(self._roll.present[: len(names)] & self._coordinator.compounds())
        return np.array([item for item in sums.tolist() if str(names[item]) not in self._of_key], np.int64)

    def _everything(self) -> NDArray[np.bool_]:
        return self._roll.present[: len(self._coordinator.item_names())].copy()

    def hidden_queries(self) -> NDArray[np.bool_]:
        """Which query indices are no user's."""
        return np.array([name is None or is_sum(name) for name in self._coordinator.query_names()], np.bool_)

    def _offer(self, lost: Integers, looks: bool) -> None:
        """Bring offers in line with queries and items, and say what has changed, to whom it concerns."""
        free = self._everything()
        free[np.array(list(self._of), np.int64)] = False
        found = self._coordinator.overlaps(self._roll.owner, free, self.hidden_queries())
        held = {one.signature(): one for one in self.sets.values() if one.phase == OFFERED}
        offers = [FormSet(int(self._roll.owner[parts[0].items[0]]), [], parts) for parts in found.sets]
        wanted = [(one.signature(), one) for one in offers]
        for old in [old for signature, old in held.items() if signature not in dict(wanted)]:
            self._retire(old)
        for signature, one in wanted:
            if signature not in held:
                self._number(one)
        self._say(found.alone, lost, looks)

    def _number(self, one: FormSet) -> None:
        """Give a new set its keys."""
        for _ in one.parts:
            one.keys.append(sum_key(self._shard, self._next()))
        self.sets[one.name] = one
        self._of_key.update(dict.fromkeys(one.keys, one.name))

    def _next(self) -> int:
        self._count += 1
        return version(self._coordinator.ledger.epoch, self._count)

    def _say(self, alone: NDArray[np.float64], lost: Integers, looks: bool) -> None:
        """Say rows to the sources for which sets have changed, or, at a look, shares have moved."""
        names, sources = self._coordinator.item_names(), self._sources.names
        about: dict[str, list[Any]] = {name: [] for name in self._said}
        own: dict[str, list[FormSet]] = {}
        for one in self.sets.values():
            about.setdefault(sources[one.source], []).append([one.name, one.phase != OFFERED])
            own.setdefault(sources[one.source], []).append(one)
        for item in np.setdiff1d(self._alien(), lost).tolist():
            about.setdefault(sources[self._roll.owner[item]], []).append(str(names[item]))
        shares = self._coordinator.shares()
        for source, what in about.items():
            news = what != self._said.get(source)
            if not (news or looks):
                continue
            now = [self._shares(one, shares) for one in own.get(source, [])]
            if news or any(_moved(one.shares, new) for one, new in zip(own.get(source, []), now, strict=True)):
                self._said[source] = what
                for one, new in zip(own.get(source, []), now, strict=True):
                    one.shares = new
                body = forms_body([self._told(one, alone) for one in own.get(source, [])])
                self._rows[source] = self._next(), body

    def _shares(self, one: FormSet, shares: Shares) -> list[float]:
        """How wide each part may be now; of one whose query is no more, as last said."""
        places = enumerate(one.parts)
        return [one.shares[place] if place in one.dropped else shares.of(part) for place, part in places]

    def _told(self, one: FormSet, alone: NDArray[np.float64]) -> Sums:
        """A set as its source is told of it."""
        names, items = self._coordinator.item_names(), one.items
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

    def formed(self) -> list[tuple[int, Part]]:
        """The sums that stand for items now, each with the index of its source."""
        found = [one for one in self.sets.values() if one.phase in (FORMED, PARTING)]
        return [(one.source, one.parts[place]) for one in found for place in one.alive()]

    def take(self) -> list[tuple[str, int, bytes]]:
        """Rows (key, version, body) for `forms.<stream>` since this was last asked, the newest of each source."""
        found, self._rows = self._rows, {}
        return [(forms_key(source, self._shard), number, body) for source, (number, body) in found.items()]

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> list[Any]:
        """Everything as plain values, after what was said has been taken."""
        sets = [
            [
                one.source, one.keys, one.phase, one.wanted, one.dropped, one.shares,
                [[part.query, part.items.tolist(), part.weights.tolist(), part.sum] for part in one.parts],
            ]
            for one in self.sets.values()
        ]  # fmt: skip
        return [sets, list(self._busy), self._said, self._count, self._epoch, self._looked, self.changed]

    def load(self, values: list[Any]) -> None:
        """Become what `state` said."""
        sets, busy, self._said, self._count, self._epoch, self._looked, self.changed = values
        self.sets, self._of, self._of_key, self._rows = {}, {}, {}, {}
        for source, keys, phase, wanted, dropped, shares, listed in sets:
            parts = [
                Part(query, np.array(items, np.int64), np.array(weights, np.float64), sum_)
                for query, items, weights, sum_ in listed
            ]
            one = FormSet(source, keys, parts, phase, wanted, dropped, shares)
            self.sets[one.name] = one
            self._of_key.update(dict.fromkeys(keys, one.name))
            if phase != OFFERED:
                self._of.update(dict.fromkeys([*one.items.tolist(), *one.sums.tolist()], one.name))
        self._busy = dict.fromkeys(busy)


def _moved(before: list[float], now: list[float]) -> bool:
    """Whether shares are far from what was said; always, where nothing was."""
    return len(before) != len(now) or any(
        not one / _MOVED <= other <= one * _MOVED for one, other in zip(before, now, strict=True)
    )
