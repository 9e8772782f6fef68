"""Which sums sources may send: offers over the items that queries share, published as rows of `sums.<stream>`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.form_choice import EVERY
from tolerant.filters.overlaps import Overlaps, PartialSumShares, overlaps
from tolerant.filters.state import Flags, Floats, Integers
from tolerant.kernels.snapshots import Fields, Restorable
from tolerant.kernels.versions import version
from tolerant.kinds.bounded.answer_buffer import hidden_queries
from tolerant.kinds.bounded.shard_state import ShardState
from tolerant.kinds.bounded.sum_group import SumGroup, SumGroups
from tolerant.kinds.bounded.sum_phases import Event, Phase, next_phase
from tolerant.streams import sum_key
from tolerant.transport.sums import Sums, sums_body, sums_key

_MOVED = 1.5
"""Factor by which a share must have grown or shrunk to be published again."""
_BESIDE = 0.25
"""A sum is replaced when its source has this share of its items more in the same query outside it."""


class SumOffers(Restorable):
    """Offers sums of free items at the ends of periods, and publishes to each source the groups that concern it.

    Its rows must have been taken before its state is.
    """

    FIELDS = Fields("_published", "_count", "_epoch", "_looked")

    def __init__(self, state: ShardState, groups: SumGroups, shard: int) -> None:
        self._state, self._groups, self._shard = state, groups, shard
        self._registry, self._membership = state.registry, state.coordinator.membership
        self._grant_log = state.coordinator.grant_log
        self._published: dict[str, list[Any]] = {}  # source → the content of its last row
        self._rows: dict[str, tuple[int, bytes]] = {}
        self._count = 0
        self._epoch = self._grant_log.epoch
        self._looked = 0

    def end_period(self) -> Integers:
        """Renews the offers if items, queries or groups have changed, or it is time to look for better sums. Returns
        the sums that are in no group and that no source sends.
        """
        looks = self._grant_log.passed // EVERY > self._looked
        if self._epoch != self._grant_log.epoch:
            self._epoch = self._grant_log.epoch
            self._published = {source: [] for source in self._published}  # a foreign epoch may have published others
            self._groups.changed = True
        if looks:
            self._looked = self._grant_log.passed // EVERY
            self._unwant_outdone()
        lost = self._foreign_sums()
        lost = lost[self._membership.stale(lost)]
        if self._groups.changed or looks:
            self._publish(self._offer(), lost, looks)
        self._groups.changed = False
        return lost

    # -- which sums ------------------------------------------------------------------------------------------------

    def _overlaps(self, free: Flags) -> Overlaps:
        hidden, granted = hidden_queries(self._membership), self._grant_log.granted()
        return overlaps(self._membership, self._registry.owner, free, hidden, granted)

    def _present(self) -> NDArray[np.bool_]:
        return self._registry.present[: len(self._membership.item_names)].copy()

    def _unwant_outdone(self) -> None:
        """Returns groups to items where better ones could replace them."""
        owner = self._registry.owner
        better = self._overlaps(self._present()).sets
        beside = {(part.query, int(owner[part.items[0]])): part for parts in better for part in parts}
        taken = {item for part in beside.values() for item in part.items.tolist()}
        for group in self._groups:
            if group.phase is not Phase.FORMED:
                continue
            crowded = any(
                len(more.items) >= max(2.0, _BESIDE * len(part.items))
                for part in group.parts
                if (more := beside.get((part.query, group.source))) is not None
            )
            if crowded or not taken.isdisjoint(group.items.tolist()):
                group.wanted = False
                self._groups.wake(group)

    def _offer(self) -> Floats:
        """Updates the offers to the current queries and items; returns the width that each item may have alone."""
        free = self._present()
        free[self._groups.active_items()] = False
        found = self._overlaps(free)
        held = {group.signature(): group for group in self._groups if group.phase is Phase.OFFERED}
        offers = [SumGroup(int(self._registry.owner[parts[0].items[0]]), [], parts) for parts in found.sets]
        offered = {group.signature(): group for group in offers}
        for signature, group in held.items():
            if signature not in offered:
                group.phase = next_phase(group.phase, Event.SUPERSEDED)
                self._groups.remove(group)
        for signature, group in offered.items():
            if signature not in held:
                group.keys.extend(sum_key(self._shard, self._next_version()) for _ in group.parts)
                self._groups.add(group)
        return found.alone

    def _foreign_sums(self) -> Integers:
        """Sums that are in no group: they belong to earlier groups or to another pipeline."""
        names = self._membership.item_names
        sums = np.flatnonzero(self._registry.present[: len(names)] & self._membership.sums())
        return np.array([item for item in sums.tolist() if not self._groups.has_key(str(names[item]))], np.int64)

    # -- rows ------------------------------------------------------------------------------------------------------

    def _publish(self, alone: Floats, lost: Integers, looks: bool) -> None:
        """Publishes rows for the sources whose groups have changed or, if `looks`, whose shares have moved."""
        names, sources = self._membership.item_names, self._state.sources.names
        contents: dict[str, list[Any]] = {source: [] for source in self._published}
        groups: dict[str, list[SumGroup]] = {}
        for group in self._groups:
            contents.setdefault(sources[group.source], []).append([group.name, group.phase is not Phase.OFFERED])
            groups.setdefault(sources[group.source], []).append(group)
        for item in np.setdiff1d(self._foreign_sums(), lost).tolist():
            contents.setdefault(sources[self._registry.owner[item]], []).append(str(names[item]))
        widths = PartialSumShares(self._membership, self._grant_log.granted())
        for source, content in contents.items():
            changed = content != self._published.get(source)
            if not (changed or looks):
                continue
            own = groups.get(source, [])
            shares = [_shares(group, widths) for group in own]
            if changed or any(_moved(group.shares, new) for group, new in zip(own, shares, strict=True)):
                self._published[source] = content
                for group, new in zip(own, shares, strict=True):
                    group.shares = new
                body = sums_body([self._offer_row(group, alone) for group in own])
                self._rows[source] = self._next_version(), body

    def _offer_row(self, group: SumGroup, alone: Floats) -> Sums:
        """A group as it is published for its source."""
        items = group.items
        return Sums(
            tuple(group.keys),
            tuple(self._state.keys(items)),
            tuple(tuple(np.searchsorted(items, part.items).tolist()) for part in group.parts),
            tuple(tuple(part.weights.tolist()) for part in group.parts),
            tuple(group.shares),
            tuple(float(width) if np.isfinite(width) else None for width in alone[items]),
            group.phase is not Phase.OFFERED,
        )

    def _next_version(self) -> int:
        self._count += 1
        return version(self._grant_log.epoch, self._count)

    def take(self) -> list[tuple[str, int, bytes]]:
        """Returns rows (key, version, body) for `sums.<stream>` since the last call, the newest of each source."""
        rows, self._rows = self._rows, {}
        return [(sums_key(source, self._shard), number, body) for source, (number, body) in rows.items()]


def _shares(group: SumGroup, widths: PartialSumShares) -> list[float]:
    """The current width of each part; for a part whose query was dropped, as last published."""
    places = enumerate(group.parts)
    return [group.shares[place] if place in group.dropped else widths.width_of(part) for place, part in places]


def _moved(before: list[float], now: list[float]) -> bool:
    """Whether shares differ much from those last published, or none were."""
    return len(before) != len(now) or any(
        not old / _MOVED <= new <= old * _MOVED for old, new in zip(before, now, strict=True)
    )
