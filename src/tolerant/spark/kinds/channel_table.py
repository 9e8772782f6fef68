"""Which rows go to which channel: the channels that subscriptions share, as arrays.

Ends are exact integers (`tolerant.relations.ranges.exact_ends`), so that a row on an edge is judged as the
subscription itself would judge it, whatever the type of its columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tolerant.merging.pieces import cut
from tolerant.relations.boxes import BoxTree

Integers = NDArray[np.int64]

LARGEST_CUT = 64
"""Members of a channel, at most, whose ranges are cut into disjoint ones: that takes the square of them."""


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of channels: `ends` int64[r, 2d], lows before highs, ends included; `of` int64[r]: the channel of each.

    A channel's regions are disjoint.
    """

    ends: Integers
    of: Integers


class ChannelTable:
    """Channels with their regions and how many take each. `numbers` int64[k] ascending, `members` int64[k]."""

    def __init__(self, regions: Regions, numbers: Integers, members: Integers) -> None:
        self.regions, self.numbers, self.members = regions, numbers, members
        self._place = np.searchsorted(numbers, regions.of)
        entries = np.arange(len(regions.of))
        self._tree = BoxTree.of(regions.ends.copy(), entries) if len(entries) else None

    @classmethod
    def empty(cls, dimensions: int) -> ChannelTable:
        """No channels."""
        none = np.zeros(0, np.int64)
        return cls(Regions(np.zeros((0, 2 * dimensions), np.int64), none), none, none)

    @classmethod
    def of(cls, ends: Integers, channels: Integers, procedure: str) -> ChannelTable:
        """The channels of subscriptions with these ends, int64[n, 2d], on these channels, int64[n]."""
        numbers, members = np.unique(channels, return_counts=True)
        return cls(regions_of(ends, channels, procedure), numbers, members.astype(np.int64))

    def route(self, points: Integers) -> tuple[Integers, Integers]:
        """Pairs (row, channel) for rows at these points, int64[m, d]."""
        if self._tree is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        rows, entries = self._tree.holding(points, self.members[self._place] > 0)
        return rows, self.regions.of[entries]

    def leave(self, channels: Integers) -> None:
        """One member of each of these channels goes; one without members carries nothing."""
        np.subtract.at(self.members, np.searchsorted(self.numbers, channels), 1)

    def members_of(self, channels: Integers) -> Integers:
        """How many take each of these channels."""
        return self.members[np.searchsorted(self.numbers, channels)]

    def regions_by_channel(self) -> dict[int, Integers]:
        """The regions of each channel."""
        order = np.argsort(self.regions.of, kind="stable")
        sizes = np.unique(self.regions.of[order], return_counts=True)[1]
        parts = np.split(self.regions.ends[order], np.cumsum(sizes)[:-1]) if len(order) else []
        return dict(zip(np.unique(self.regions.of).tolist(), parts, strict=True))

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything as arrays."""
        return {"ends": self.regions.ends, "of": self.regions.of, "numbers": self.numbers, "members": self.members}

    @classmethod
    def load(cls, arrays: Mapping[str, NDArray[Any]]) -> ChannelTable:
        """What `state` was taken of."""
        return cls(Regions(arrays["ends"], arrays["of"]), arrays["numbers"], arrays["members"].copy())


def regions_of(ends: Integers, channels: Integers, procedure: str) -> Regions:
    """What channels carry for members with these ends: their bounding box, or with "union" and "pieces" the union of
    their ranges in disjoint boxes, with "pieces" each inside or outside every member's.
    """
    if not len(ends):
        return Regions(ends, channels)
    half = ends.shape[1] // 2
    order = np.argsort(channels, kind="stable")
    numbers, starts = np.unique(channels[order], return_index=True)
    if procedure == "box":
        lows = np.minimum.reduceat(ends[order, :half], starts)
        highs = np.maximum.reduceat(ends[order, half:], starts)
        return Regions(np.concatenate([lows, highs], axis=1), numbers)
    boxes, of = [], []
    for number, group in zip(numbers.tolist(), np.split(ends[order], starts[1:]), strict=True):
        if len(group) > LARGEST_CUT:
            found = np.concatenate([group[:, :half].min(axis=0), group[:, half:].max(axis=0)])[None]
        else:
            found = cut_exactly(group, apart=procedure == "pieces")
        boxes.append(found)
        of.append(np.full(len(found), number))
    return Regions(np.concatenate(boxes), np.concatenate(of))


def cut_exactly(ends: Integers, apart: bool) -> Integers:
    """Boxes int64[m, 2d] cut into disjoint ones int64[k, 2d] that hold the same integers (`tolerant.merging.pieces`).

    They are cut among their ranks, where an even number is an end itself and an odd one what lies between two: small
    numbers, which the cutting of floats keeps exact.
    """
    half = ends.shape[1] // 2
    values = [np.unique(ends[:, [axis, half + axis]]) for axis in range(half)] * 2
    ranks = np.stack([2 * np.searchsorted(held, ends[:, column]) for column, held in enumerate(values)], axis=1)
    pieces = cut(ranks.astype(np.float64), apart=apart)
    inward = np.where(np.arange(2 * half) < half, 1, -1)
    places = (pieces.edges + pieces.open * inward).astype(np.int64)
    places = places[(places[:, :half] <= places[:, half:]).all(axis=1)]
    found = np.empty_like(places)
    for column, held in enumerate(values):
        # Between two ends: from the one behind the first, up to the one before the second.
        back = places[:, column] % 2 * (1 if column >= half else -1)
        found[:, column] = held[(places[:, column] + back) // 2] - back
    return found[(found[:, :half] <= found[:, half:]).all(axis=1)]
