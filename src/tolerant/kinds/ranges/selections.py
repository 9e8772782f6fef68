"""The range queries over one table: their subscriptions, the channels these share, and what a batch of changes is on
each (`docs/design/merging.md` §6).

Who subscribes has a channel of their own at once. At boundaries subscriptions are grouped (`Regrouping`), and the next
version of the channel table says who takes which channel from then on; in between a channel loses members but gains
none, and carries what it carried. So at any time each subscription is on one channel, on which every row in its range
is; or, with "pieces", on several whose regions are disjoint and make up its range.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.kinds.ranges.channel_explanation import Carried, explanation
from tolerant.kinds.ranges.channel_groups import LARGEST, Regrouping, renumbered
from tolerant.kinds.ranges.channel_table import ChannelTable
from tolerant.kinds.ranges.select import RangeSelect
from tolerant.relations import Changes, RangeSelection, Relation, SubscriptionTable
from tolerant.relations.order import INTEGERS, unordered
from tolerant.relations.range_selection import exact_ends, exact_places
from tolerant.sql import CreateQuery, CreateTable
from tolerant.sql.templates import column_ranges, parameter_types
from tolerant.streams import StreamOptions
from tolerant.transport.channels import ChannelChange, channel_rows, table_batch
from tolerant.transport.subscriptions import read_subscription_rows, subscription_ids
from tolerant.transport.topics import answers_topic, channels_topic

Integers = NDArray[np.int64]
Outputs = list[tuple[str, pa.RecordBatch]]

_GROUP = " group"  # beside the parameters of each subscription; a space that no parameter's name begins with
_COUNTED = ("received", "unheard", "versions", "moves")
_BOUNDARY = StreamOptions().boundary


class Selection:
    """One query for everything in a range: a template with its subscriptions, or without parameters one for all."""

    tally = "deliveries"

    def __init__(self, query: CreateQuery, table: CreateTable, state: State | None = None) -> None:
        self.query, self._table, self._sharing = query, table, RangeSelect.of(query).sharing
        self._types, self._ranges = parameter_types(query, table), column_ranges(query, table)
        self._plan = Regrouping(self._sharing, len(self._ranges))
        self._apart = RangeSelection(self._ranges)  # those with a channel of their own
        self._unsaid: list[ChannelChange] = []
        types = {**self._types, _GROUP: "BIGINT"}
        if state is None:
            self.subscriptions = SubscriptionTable(types)
            self._shared = ChannelTable.empty(len(self._ranges))
            self._version, self._free, self._counts = 0, 0, np.zeros(len(_COUNTED), np.int64)
            if not query.parameters:
                self._join(subscription_ids({}), {})
            return
        subscriptions, shared, plan, self._version, self._free, self._counts = state.exactly(
            "subscriptions", "shared", "plan", "version", "free", "counts"
        )
        self.subscriptions = SubscriptionTable.load(types, subscriptions)
        self._shared = ChannelTable.load(shared)
        self._plan.load(plan)
        ids, columns = self.subscriptions.ids(), self.subscriptions.columns()
        alone = columns[_GROUP] < 0
        self._apart.add_many(ids[alone], {name: column[alone] for name, column in columns.items()})

    @classmethod
    def over(cls, query: CreateQuery, table: CreateTable, rows: Relation, state: State | None) -> Selection:
        """A new selection, or the one whose state this was. What rows there are is of no account."""
        return cls(query, table, state)

    def __len__(self) -> int:
        return len(self.subscriptions)

    def figures(self) -> dict[str, int]:
        """Channels; rows that subscribers were sent, wanted or not; changes on no channel; versions of the channel
        table, and how many changed channel in all.
        """
        open_channels = int(np.count_nonzero(self._shared.members)) + len(self._apart)
        return {"channels": open_channels, **dict(zip(_COUNTED, self._counts.tolist(), strict=True))}

    def explanation(self) -> dict[str, Any]:
        """What sharing channels comes to now."""
        columns = self.subscriptions.columns()
        rectangles = self._rectangles(len(self), columns)
        half = len(self._ranges)
        rectangles[:, half:] = np.fmax(rectangles[:, half:], rectangles[:, :half])  # an empty range has no rows
        size, wider = self._plan.size(), self._wider()
        carried = {}
        for group, (ends, places) in self._shared.regions_by_group().items():
            regions = np.array(self._shown(ends))
            rows = np.zeros(len(regions)) if size is None else size(regions + wider)
            carried[group] = Carried(regions, rows, places, self._shared.members[places])
        names = tuple(part.column for part in self._ranges)
        return explanation(self._sharing, size, rectangles, columns[_GROUP], carried, names)

    def state(self) -> State:
        """Subscriptions with their channels, the table and the plan; a restore builds the indexes again from them."""
        return State(
            subscriptions=self.subscriptions.state(),
            shared=self._shared.state(),
            plan=self._plan.state(),
            version=self._version,
            free=self._free,
            counts=self._counts.copy(),
        )

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def take(self, batch: pa.RecordBatch) -> None:
        """Subscribe and unsubscribe, in the order of the rows; `announce` has what it changed in the channel table.

        Raises:
            ValueError: the rows are not those of this template.
        """
        joining, ids, columns = read_subscription_rows(batch, self._types)
        # A batch is of one kind as it is sent; where it is not, runs of a kind keep the order.
        edges = np.flatnonzero(np.diff(joining.astype(np.int8))) + 1
        for run in np.split(np.arange(len(ids)), edges):
            if len(run) and joining[run[0]]:
                self._join(ids[run], {name: column[run] for name, column in columns.items()})
            elif len(run):
                self._leave(ids[run])

    def announce(self, at: int, step: int) -> Outputs:
        """The version of the channel table that subscriptions which came or went have made, if they have.

        It holds from event time `at` on, for rows of steps after `step`.
        """
        changed, self._unsaid = self._unsaid, []
        if not changed:
            return []
        self._version += 1
        self._counts[_COUNTED.index("versions")] += 1
        return [(channels_topic(self.query.name), table_batch(self._version, at, step, changed))]

    def _join(self, ids: Integers, columns: Mapping[str, NDArray[Any]]) -> None:
        self.subscriptions.add_many(ids, {**columns, _GROUP: ~ids})
        now = self.subscriptions.of(ids)[_GROUP]
        fresh = now < 0  # who was there already stays where they are
        self._apart.add_many(ids[fresh], {name: column[fresh] for name, column in columns.items()})

    def _leave(self, ids: Integers) -> None:
        known = np.unique(ids[self.subscriptions.holds(ids)])
        columns = self.subscriptions.of(known)
        groups, ends = columns[_GROUP], exact_ends(self._ranges, len(known), columns)
        self.subscriptions.remove_many(known)
        shared = groups >= 0
        self._apart.remove_many(known[~shared])
        self._unsaid += [ChannelChange(~id, 0, None, [], [id]) for id in known[~shared].tolist()]
        who, channels = self._shared.takers(ends[shared], groups[shared])
        self._shared.leave(channels)
        for channel, gone in _lists(channels, known[shared][who]).items():
            members = int(self._shared.members_of(np.array([channel]))[0])
            self._unsaid.append(ChannelChange(channel, members, None, [], gone))

    # -- boundaries --------------------------------------------------------------------------------------------------

    def boundary(self, at: int, step: int) -> Outputs:
        """The next version of the channel table, if the boundary at this event time makes one."""
        ids, columns = self.subscriptions.ids(), self.subscriptions.columns()
        rectangles = self._rectangles(len(ids), columns)
        half = len(self._ranges)
        usable = (rectangles[:, :half] <= rectangles[:, half:]).all(axis=1)  # an empty range needs no company
        groups = self._plan.groups(at // _BOUNDARY, ids[usable], rectangles[usable])
        if groups is None:
            return []
        before, after = columns[_GROUP], columns[_GROUP].copy()
        after[usable], self._free = renumbered(before[usable], groups, ids[usable], self._free)
        return self._change_over(ids, columns, before, after, at, step)

    def _change_over(
        self, ids: Integers, columns: Mapping[str, NDArray[Any]], before: Integers, after: Integers, at: int, step: int
    ) -> Outputs:
        """Let the groups be those of `after`, int64[n], and say so; who moves leaves the one and joins the other."""
        old = self._shared
        shared, moved = after >= 0, before != after
        ends = exact_ends(self._ranges, len(ids), columns)
        if self._sharing.procedure == "pieces":
            self._shared, self._free = ChannelTable.pieces(ends[shared], after[shared], old, self._free)
            touched = moved | shared  # a group that stays may be cut otherwise
        else:
            self._shared, touched = ChannelTable.of(ends[shared], after[shared], self._sharing.procedure), moved
        self.subscriptions.put(_GROUP, ids[moved], after[moved])
        alone = moved & ~shared
        self._apart.remove_many(ids[moved & (before < 0)])
        self._apart.add_many(ids[alone], {name: column[alone] for name, column in columns.items()})
        took, takes = (
            _taken(table, ids[touched], ends[touched], groups[touched])
            for table, groups in ((old, before), (self._shared, after))
        )
        return self._changed_channels(old, takes - took, took - takes, at, step)

    def _changed_channels(
        self, old: ChannelTable, joined: set[tuple[int, int]], left: set[tuple[int, int]], at: int, step: int
    ) -> Outputs:
        """The version of the table in which (channel, id) joined and left."""
        regions, now = old.regions_by_channel(), self._shared.regions_by_channel()
        resized = {channel for channel, current in now.items() if not _same(current, regions.get(channel))}
        joining, leaving = _by_channel(joined), _by_channel(left)
        members = dict(zip(self._shared.numbers.tolist(), self._shared.members.tolist(), strict=True))
        closed = regions.keys() - now.keys()
        for channel in sorted(resized | closed | joining.keys() | leaving.keys()):
            carried = self._shown(now[channel]) if channel in resized else None
            come, gone = joining.get(channel, []), leaving.get(channel, [])
            count = members.get(channel, 0) if channel >= 0 else len(come)
            self._unsaid.append(ChannelChange(channel, count, carried, come, gone))
        self._counts[_COUNTED.index("moves")] += len({id for _, id in joined})
        return self.announce(at + 1, step)

    def _rectangles(self, size: int, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
        """The subscriptions as the plan sees them, float64[n, 2d]: an integer is as wide as one."""
        given = [part.low for part in self._ranges] + [part.high for part in self._ranges]
        ends = [np.asarray(columns[end] if isinstance(end, str) else np.full(size, end), np.float64) for end in given]
        return np.clip(np.stack(ends, axis=1) + self._wider(), -LARGEST, LARGEST)

    def _wider(self) -> NDArray[np.float64]:
        """What to add to the ends of ranges, float64[2d], so that rows fill them: an integer is as wide as one."""
        half = [0.5 * (part.type in INTEGERS) for part in self._ranges]
        return np.array([-side for side in half] + half)

    def _shown(self, ends: Integers) -> list[list[float]]:
        """Regions as numbers."""
        types = [part.type for part in self._ranges] * 2
        return np.stack([unordered(ends[:, at], name) for at, name in enumerate(types)], axis=1).tolist()

    # -- rows --------------------------------------------------------------------------------------------------------

    def outputs(self, changes: Changes, steps: Integers) -> Outputs:
        """The changes on the channels that carry them."""
        points = exact_places(self._ranges, changes.columns)
        seen = np.stack([changes.columns[part.column].astype(np.float64) for part in self._ranges], axis=1)
        self._plan.seen.add(np.clip(seen, -LARGEST, LARGEST))
        shared_rows, shared_channels = self._shared.route(points)
        own_rows, own = self._apart.matching(changes.columns)
        rows, channels = np.concatenate([shared_rows, own_rows]), np.concatenate([shared_channels, ~own])
        unheard = len(changes) - len(np.unique(rows))
        received = int(self._shared.members_of(shared_channels).sum()) + len(own)
        self._counts[:2] += (received, unheard)
        if not len(rows):
            return []
        order = np.lexsort((channels, rows))
        rows = rows[order]
        batch = channel_rows(self._table.columns, changes.take(rows), steps[rows], channels[order], self._version)
        return [(answers_topic(self.query.name), batch)]


def _same(first: Integers, second: Integers | None) -> bool:
    return second is not None and np.array_equal(first, second)


def _taken(table: ChannelTable, ids: Integers, ends: Integers, groups: Integers) -> set[tuple[int, int]]:
    """(channel, id) of subscriptions in these groups (below 0: on a channel of their own)."""
    shared = groups >= 0
    who, channels = table.takers(ends[shared], groups[shared])
    return {
        *zip(channels.tolist(), ids[shared][who].tolist(), strict=True),
        *zip(groups[~shared].tolist(), ids[~shared].tolist(), strict=True),
    }


def _lists(channels: Integers, ids: Integers) -> dict[int, list[int]]:
    """The ids on each channel, ascending."""
    return _by_channel(zip(channels.tolist(), ids.tolist(), strict=True))


def _by_channel(pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    ids: dict[int, list[int]] = {}
    for channel, id in sorted(pairs):
        ids.setdefault(channel, []).append(id)
    return ids
