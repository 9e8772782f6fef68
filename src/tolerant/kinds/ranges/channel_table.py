"""Which rows go to which channel: the channels that subscriptions share, as arrays.

Ends are exact integers (`tolerant.relations.range_selection.exact_ends`), so that a row on an edge is judged as the
subscription itself would judge it, whatever the type of its columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.snapshots import State
from tolerant.merging.pieces import cut
from tolerant.relations.box_tree import BoxTree

Integers = NDArray[np.int64]

LARGEST_CUT = 64
"""Different ranges of a group, at most, that are cut into disjoint ones: that takes the square of them."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of channels: `ends` int64[r, 2d], lows before highs, ends included; `of` int64[r]: the channel of each.

    A channel's regions are disjoint.
    """

    ends: Integers
    of: Integers


class ChannelTable:
    """Channels with their regions and how many take each. `numbers` int64[k] ascending, `members` int64[k].

    `groups` int64[k]: those who share the channel. A group has one, with its own number; or with "pieces" one for each
    of its regions, which those take in whose ranges it lies.
    """

    def __init__(self, regions: Regions, numbers: Integers, members: Integers, groups: Integers) -> None:
        self.regions, self.numbers, self.members, self.groups = regions, numbers, members, groups
        self._place = np.searchsorted(numbers, regions.of)
        entries = np.arange(len(regions.of))
        self._tree = BoxTree.of(regions.ends.copy(), entries) if len(entries) else None

    @classmethod
    def empty(cls, dimensions: int) -> ChannelTable:
        """No channels."""
        none = np.zeros(0, np.int64)
        return cls(Regions(np.zeros((0, 2 * dimensions), np.int64), none), none, none, none)

    @classmethod
    def of(cls, ends: Integers, groups: Integers, procedure: str) -> ChannelTable:
        """The channels of subscriptions with these ends, int64[n, 2d], in these groups, int64[n]; one a group."""
        numbers, members = np.unique(groups, return_counts=True)
        return cls(regions_of(ends, groups, procedure), numbers, members.astype(np.int64), numbers)

    @classmethod
    def pieces(cls, ends: Integers, groups: Integers, before: ChannelTable, free: int) -> tuple[ChannelTable, int]:
        """The same with a channel for each piece of a group, and the next number that is free.

        A piece that the group had before keeps its number.
        """
        cut = regions_of(ends, groups, "pieces")
        known = before.groups[before._place]
        numbers = {(group, *box): number for group, box, number in _rows(known, before.regions.ends, before.regions.of)}
        of = np.empty(len(cut.of), np.int64)
        for place, (group, box, _) in enumerate(_rows(cut.of, cut.ends, cut.of)):
            number = numbers.get((group, *box))
            of[place] = free if number is None else number
            free += number is None
        order = np.argsort(of)
        table = cls(Regions(cut.ends[order], of[order]), of[order], np.zeros(len(of), np.int64), cut.of[order])
        table.members += np.bincount(table._places(table.takers(ends, groups)[1]), minlength=len(of))
        return table, free

    def takers(self, ends: Integers, groups: Integers) -> tuple[Integers, Integers]:
        """Pairs (subscription, channel): who of these, with ends int64[n, 2d] in groups int64[n], takes which."""
        if np.array_equal(self.groups, self.numbers):
            return np.arange(len(groups)), groups
        of = self.groups[self._place]
        order = np.argsort(of, kind="stable")
        first, last = (np.searchsorted(of[order], groups, side) for side in ("left", "right"))
        counts = last - first
        who = np.repeat(np.arange(len(groups)), counts)
        which = order[np.arange(len(who)) + np.repeat(first - (np.cumsum(counts) - counts), counts)]
        half = ends.shape[1] // 2
        boxes = self.regions.ends[which]
        # A piece is inside a range or outside; the box of a group that is too large to be cut meets all of them.
        meet = ((ends[who, :half] <= boxes[:, half:]) & (boxes[:, :half] <= ends[who, half:])).all(axis=1)
        return who[meet], self.regions.of[which[meet]]

    def route(self, points: Integers) -> tuple[Integers, Integers]:
        """Pairs (row, channel) for rows at these points, int64[m, d]."""
        if self._tree is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows, entries = self._tree.containing(points, self.members[self._place] > 0)
        return rows, self.regions.of[entries]

    def leave(self, channels: Integers) -> None:
        """One who takes it goes from each of these channels; one that nobody takes carries nothing."""
        np.subtract.at(self.members, self._places(channels), 1)

    def members_of(self, channels: Integers) -> Integers:
        """How many take each of these channels."""
        return self.members[self._places(channels)]

    def _places(self, channels: Integers) -> Integers:
        return np.searchsorted(self.numbers, channels)

    def regions_by_channel(self) -> dict[int, Integers]:
        """The regions of each channel."""
        return {number: self.regions.ends[places] for number, places in _together(self.regions.of).items()}

    def regions_by_group(self) -> dict[int, tuple[Integers, Integers]]:
        """The regions of each group's channels, and the place of the channel of each of them among `numbers`."""
        by_group = _together(self.groups[self._place])
        return {group: (self.regions.ends[places], self._place[places]) for group, places in by_group.items()}

    def state(self) -> State:
        """Regions and channels, for a snapshot."""
        return State(
            ends=self.regions.ends, of=self.regions.of, numbers=self.numbers, members=self.members, groups=self.groups
        )

    @classmethod
    def load(cls, state: State) -> ChannelTable:
        """What `state` was taken of."""
        ends, of, numbers, members, groups = state.exactly("ends", "of", "numbers", "members", "groups")
        return cls(Regions(ends, of), numbers, members.copy(), groups)


def _rows(*arrays: Integers) -> Iterator[tuple[Any, ...]]:
    return zip(*(array.tolist() for array in arrays), strict=True)


def _together(labels: Integers) -> dict[int, Integers]:
    """The places of each label, ascending."""
    order = np.argsort(labels, kind="stable")
    names, starts = np.unique(labels[order], return_index=True)
    return dict(zip(names.tolist(), np.split(order, starts[1:]) if len(order) else [], strict=True))


def regions_of(ends: Integers, groups: Integers, procedure: str) -> Regions:
    """What groups are sent, for members with these ends: their bounding box, or with "union" and "pieces" the union of
    their ranges in disjoint boxes, with "pieces" each inside or outside every member's; `of`: the group.
    """
    if not len(ends):
        return Regions(ends, groups)
    half = ends.shape[1] // 2
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    if procedure == "box":
        lows = np.minimum.reduceat(ends[order, :half], starts)
        highs = np.maximum.reduceat(ends[order, half:], starts)
        return Regions(np.concatenate([lows, highs], axis=1), numbers)
    boxes, of = [], []
    for number, members in zip(numbers.tolist(), np.split(ends[order], starts[1:]), strict=True):
        distinct = np.unique(members, axis=0)
        if len(distinct) > LARGEST_CUT:
            boxes_of_group = np.concatenate([distinct[:, :half].min(axis=0), distinct[:, half:].max(axis=0)])[None]
        else:
            boxes_of_group = cut_exactly(distinct, apart=procedure == "pieces")
        boxes.append(boxes_of_group)
        of.append(np.full(len(boxes_of_group), number))
    return Regions(np.concatenate(boxes), np.concatenate(of))


def cut_exactly(ends: Integers, apart: bool) -> Integers:
    """Boxes int64[m, 2d] cut into disjoint ones int64[k, 2d] that hold the same integers (`tolerant.merging.pieces`).

    They are cut among their ranks, where an even number is an end itself and an odd one what lies between two: small
    numbers, which the cutting of floats keeps exact.
    """
    half = ends.shape[1] // 2
    values = [np.unique(ends[:, [axis, half + axis]]) for axis in range(half)] * 2
    ranks = np.stack(
        [2 * np.searchsorted(coordinates, ends[:, column]) for column, coordinates in enumerate(values)], axis=1
    )
    pieces = cut(ranks.astype(np.float64), apart=apart)
    inward = np.where(np.arange(2 * half) < half, 1, -1)
    places = (pieces.edges + pieces.open * inward).astype(np.int64)
    places = places[(places[:, :half] <= places[:, half:]).all(axis=1)]
    regions = np.empty_like(places)
    for column, coordinates in enumerate(values):
        # Between two ends: from the one behind the first, up to the one before the second.
        back = places[:, column] % 2 * (1 if column >= half else -1)
        regions[:, column] = coordinates[(places[:, column] + back) // 2] - back
    return regions[(regions[:, :half] <= regions[:, half:]).all(axis=1)]
