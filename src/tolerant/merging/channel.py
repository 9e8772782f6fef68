"""Channels: the regions sent for each group, and the header by which clients select their rows ([CBGM] §3.1, §5.1)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Flags, Floats, Integers
from tolerant.merging.pieces import cut
from tolerant.merging.pricing import bounding
from tolerant.merging.validation import PROCEDURES, as_choice, as_groups, as_points, as_rectangles

Extractor: TypeAlias = tuple[float, ...] | None
"""The rectangle of the rows to keep, ends included; None: all rows of the channel."""

Header: TypeAlias = dict[Hashable, tuple[tuple[Extractor, int], ...]]
"""For each client the pairs (extractor, query), one per query of the client."""


@dataclass(frozen=True, eq=False)
class Channel:
    """One channel. `regions` float[k, 2d]: disjoint rectangles; a row in any of them is sent on the channel.

    `open` bool[k, 2d]: whether that edge does not belong to the region (with `pieces`, so that a row on an edge that
    two pieces share is sent once).
    """

    regions: Floats
    open: Flags
    header: Header

    @property
    def boxes(self) -> Floats:
        """The regions as closed rectangles float[k, 2d] that contain the same floating-point numbers, for `route`."""
        half = self.regions.shape[1] // 2
        inward = np.where(np.arange(2 * half) < half, np.inf, -np.inf)
        return np.where(self.open, np.nextafter(self.regions, inward), self.regions)

    def carries(self, points: ArrayLike) -> Flags:
        """Return which of the rows at these points, float[m, d], are sent on this channel."""
        half = self.regions.shape[1] // 2
        given = as_points(points, half)
        carried = np.zeros(len(given), np.bool_)
        for box in self.boxes:
            carried |= ((given >= box[:half]) & (given <= box[half:])).all(axis=1)
        return carried


def extracted(points: ArrayLike, extractor: Extractor) -> Flags:
    """Return which of the rows at these points, float[m, d], an extractor keeps."""
    if extractor is None:
        return np.ones(len(np.asarray(points)), np.bool_)
    half = len(extractor) // 2
    given, box = as_points(points, half), np.asarray(extractor)
    return np.all((given >= box[:half]) & (given <= box[half:]), axis=1)


def channels(
    rectangles: ArrayLike,
    groups: Iterable[Iterable[int]],
    *,
    owners: Sequence[Hashable] | None = None,
    procedure: str = "box",
) -> list[Channel]:
    """Return the channels of a plan: one per group, or, with `pieces`, one per piece.

    `owners`: the client of each query; without it every query is its own client. Each client gets exactly its answer:
    every row of a query is on exactly one channel from which its owner extracts it for that query.

    >>> [channel] = channels([[0, 0, 2, 2], [1, 1, 3, 3]], [[0, 1]], owners=["ann", "bob"])
    >>> channel.regions.tolist(), channel.header["bob"]
    ([[0.0, 0.0, 3.0, 3.0]], (((1.0, 1.0, 3.0, 3.0), 1),))
    """
    boxes = as_rectangles(rectangles)
    as_choice(procedure, "procedure", PROCEDURES)
    starts, members = as_groups(groups, len(boxes))
    if owners is None:
        owners = range(len(boxes))
    elif len(owners) != len(boxes):
        raise ValueError(f"owners must be one for each of the {len(boxes)} queries, got {len(owners)}")
    rows = [members[a:b] for a, b in pairwise(starts)]
    if procedure == "box":
        around = bounding(boxes, starts, members)
        closed = np.zeros((1, boxes.shape[1]), np.bool_)
        return [Channel(around[k : k + 1], closed, _header(group, owners, boxes)) for k, group in enumerate(rows)]
    if procedure == "union":
        return [_union(group, owners, boxes) for group in rows]
    return [channel for group in rows for channel in _pieces(group, owners, boxes)]


def regions_of(table: Sequence[Channel]) -> tuple[Floats, Integers]:
    """Return what to route rows against: closed boxes float[k, 2d] and the channel of each, int[k].

    The boxes of a channel are disjoint, so that `route(points, boxes)` pairs a row with a channel at most once.
    """
    if not table:
        return np.zeros((0, 4)), np.zeros(0, np.int64)
    of = np.repeat(np.arange(len(table)), [len(channel.regions) for channel in table])
    return np.concatenate([channel.boxes for channel in table]), of


def _union(group: Integers, owners: Sequence[Hashable], boxes: Floats) -> Channel:
    parts = cut(boxes[group], apart=False)
    return Channel(parts.edges, parts.open, _header(group, owners, boxes))


def _pieces(group: Integers, owners: Sequence[Hashable], boxes: Floats) -> list[Channel]:
    parts = cut(boxes[group])
    return [
        Channel(parts.edges[k : k + 1], parts.open[k : k + 1], _header(group[parts.members[k]], owners, None))
        for k in range(len(parts.edges))
    ]


def _header(group: Integers, owners: Sequence[Hashable], boxes: Floats | None) -> Header:
    header: Header = {}
    for query in group.tolist():
        extractor = None if boxes is None else tuple(boxes[query].tolist())
        header[owners[query]] = (*header.get(owners[query], ()), (extractor, query))
    return header
