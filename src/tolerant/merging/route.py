"""Finds the boxes that contain a row, in time that hardly depends on the number of boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled
from tolerant.merging.sizes import planar
from tolerant.merging.validation import as_points, as_rectangles

_CELLS = 8
"""Cells per box of the grid, about: more cells test fewer boxes for nothing, but take longer to build."""


def route(points: ArrayLike, boxes: ArrayLike) -> tuple[Integers, Integers]:
    """Return the pairs of a row and a box that contains it, ends included: two arrays int[k], by row, then by box.

    `points` float[m, d], `boxes` float[n, 2d]. A point that is NaN is in no box.

    >>> rows, matched = route([[1, 1], [5, 5], [2, 2]], [[0, 0, 2, 2], [2, 2, 3, 3]])
    >>> rows.tolist(), matched.tolist()
    ([0, 2, 2], [0, 0, 1])
    """
    regions = as_rectangles(boxes, "boxes")
    half = regions.shape[1] // 2
    given = as_points(points, half)
    if len(regions) == 0 or len(given) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    if half > 2:  # by the first two columns, then by the others
        rows, matched = _routed(
            np.ascontiguousarray(given[:, :2]), np.ascontiguousarray(regions[:, [0, 1, half, half + 1]])
        )
        kept = (given[rows] >= regions[matched, :half]) & (given[rows] <= regions[matched, half:])
        return rows[kept.all(axis=1)], matched[kept.all(axis=1)]
    if half == 1:
        given = np.column_stack([given[:, 0], np.zeros(len(given))])
    return _routed(given, planar(regions))


def _routed(points: Floats, boxes: Floats) -> tuple[Integers, Integers]:
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    cells = int(np.clip(np.sqrt(_CELLS * len(boxes)), 1, 1024))
    extent = high - low
    scale = np.where(extent > 0, cells / np.where(extent > 0, extent, 1.0), 0.0)
    starts, listed = _laid_out(boxes, low, scale, cells)
    room = 2 * len(points)
    while True:
        rows, matched = np.empty(room, np.int64), np.empty(room, np.int64)
        count = int(_find(points, boxes, low, scale, cells, starts, listed, rows, matched))
        if count <= room:
            return rows[:count].copy(), matched[:count].copy()
        room = count


@compiled
def _cell(value: float, low: float, scale: float, cells: int) -> int:
    return int(min(max((value - low) * scale, 0.0), cells - 1.0))


@compiled
def _laid_out(boxes: Floats, low: Floats, scale: Floats, cells: int) -> tuple[Integers, Integers]:
    """For each cell the boxes that meet it, ascending, as compressed rows."""
    starts = np.zeros(cells * cells + 1, np.int64)
    spans = np.empty((len(boxes), 4), np.int64)
    for k in range(len(boxes)):
        for c in range(4):
            spans[k, c] = _cell(boxes[k, c], low[c % 2], scale[c % 2], cells)
        for i in range(spans[k, 0], spans[k, 2] + 1):
            for j in range(spans[k, 1], spans[k, 3] + 1):
                starts[i * cells + j + 1] += 1
    starts = np.cumsum(starts)
    free, listed = starts[:-1].copy(), np.empty(starts[-1], np.int64)
    for k in range(len(boxes)):
        for i in range(spans[k, 0], spans[k, 2] + 1):
            for j in range(spans[k, 1], spans[k, 3] + 1):
                listed[free[i * cells + j]] = k
                free[i * cells + j] += 1
    return starts, listed


@compiled
def _find(  # noqa: PLR0913
    points: Floats,
    boxes: Floats,
    low: Floats,
    scale: Floats,
    cells: int,
    starts: Integers,
    listed: Integers,
    rows: Integers,
    matched: Integers,
) -> int:
    """Write the pairs into `rows` and `matched` as far as they have room; returns the number of pairs."""
    count = 0
    for row in range(len(points)):
        x, y = points[row, 0], points[row, 1]
        if not (abs(x) < np.inf and abs(y) < np.inf):
            continue
        cell = _cell(x, low[0], scale[0], cells) * cells + _cell(y, low[1], scale[1], cells)
        for at in range(starts[cell], starts[cell + 1]):
            k = listed[at]
            if boxes[k, 0] <= x and x <= boxes[k, 2] and boxes[k, 1] <= y and y <= boxes[k, 3]:
                if count < len(rows):
                    rows[count] = row
                    matched[count] = k
                count += 1
    return count
