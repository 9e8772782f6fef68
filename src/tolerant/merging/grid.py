"""Boxes that change, found by location: a stack of ever coarser grids, one for each class of sizes.

A box is listed once, under the cell of its low corner, in the finest grid whose cells are larger than it; so every box
that meets a window has its low corner in the window or less than a cell before it. Listing and unlisting is O(1).

Here and in the callers, arrays that belong together are columns of one array: each array argument makes a compiled
function slower to compile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Floats, Integers
from tolerant.kernels.compiled import compiled, compiled_no_refcount

_ROOM = 0.999
"""The share of a cell that a box may fill: below 1, so that rounding cannot move it to the next cell."""

AFTER, BEFORE, CELL, LEVEL = range(4)
"""Columns of `Grid.places`: the next and the previous box of the same list, the cell (−1: not listed), and its grid."""


class Grid(NamedTuple):
    """The arrays of the grids. `boxes` is the entries' own array, which is only read; entries are numbered as
    its rows.
    """

    boxes: Floats  # [capacity, ≥ 4]: x1 y1 x2 y2
    frame: Floats  # low x, low y, cells per unit along x and y of the finest grid
    levels: Integers  # [levels, 4]: cells along x, along y, number of the first cell, boxes listed
    heads: Integers  # [cells]: first box of the list, −1: none
    places: Integers  # [capacity, 4]


def grid_over(boxes: Floats, sample: Floats) -> Grid:
    """Return an empty grid for entries whose boxes are, or will be, rows of `boxes`; `sample` float[n, 4] sets the
    cells.
    """
    low, cells, scale = np.zeros(2), np.ones(2, np.int64), np.ones(2)
    if len(sample):
        low = sample[:, :2].min(axis=0)
        extent = sample[:, 2:4].max(axis=0) - low
        side = np.maximum(np.median(sample[:, 2:4] - sample[:, :2], axis=0), extent / np.sqrt(len(sample)))
        side = np.where(side > 0, side, 1.0)
        cells = np.maximum(1, np.ceil(extent / side)).astype(np.int64)
        scale = 1.0 / side
    levels, first = [], 0
    while True:
        levels.append((cells[0], cells[1], first, 0))
        first += int(cells[0] * cells[1])
        if cells.max() == 1:
            break
        cells = (cells + 1) // 2
    frame, places = np.concatenate([low, scale]), np.full((len(boxes), 4), -1, np.int64)
    return Grid(boxes, frame, np.array(levels, np.int64), np.full(first, -1, np.int64), places)


@compiled
def _place(value: float, low: float, scale: float, cells: int) -> int:
    """The cell along one axis; a value outside the frame belongs to the cell at its border."""
    return int(min(max(np.floor((value - low) * scale), 0.0), cells - 1.0))


@compiled_no_refcount
def list_box(grid: Grid, entry: int) -> None:
    """List the entry at the location of its box."""
    frame, places = grid.frame, grid.places
    x, y = grid.boxes[entry, 0], grid.boxes[entry, 1]
    across, up = grid.boxes[entry, 2] - x, grid.boxes[entry, 3] - y
    level, scale_x, scale_y = 0, frame[2], frame[3]
    while level < len(grid.levels) - 1 and (across * scale_x > _ROOM or up * scale_y > _ROOM):
        level += 1
        scale_x *= 0.5
        scale_y *= 0.5
    column = _place(x, frame[0], scale_x, grid.levels[level, 0])
    cell = grid.levels[level, 2] + column * grid.levels[level, 1]
    cell += _place(y, frame[1], scale_y, grid.levels[level, 1])
    grid.levels[level, 3] += 1
    head = grid.heads[cell]
    places[entry, AFTER] = head
    places[entry, BEFORE] = -1
    places[entry, CELL] = cell
    places[entry, LEVEL] = level
    if head >= 0:
        places[head, BEFORE] = entry
    grid.heads[cell] = entry


@compiled_no_refcount
def unlist_box(grid: Grid, entry: int) -> None:
    """Remove the entry from its list; its box may have changed since."""
    places = grid.places
    if places[entry, CELL] < 0:
        return
    grid.levels[places[entry, LEVEL], 3] -= 1
    before, after = places[entry, BEFORE], places[entry, AFTER]
    if before >= 0:
        places[before, AFTER] = after
    else:
        grid.heads[places[entry, CELL]] = after
    if after >= 0:
        places[after, BEFORE] = before
    places[entry, CELL] = -1


@compiled_no_refcount
def near(grid: Grid, x1: float, y1: float, x2: float, y2: float, nearby: Integers) -> int:
    """Write the entries whose box meets the window into `nearby`; returns their number."""
    boxes, frame, levels = grid.boxes, grid.frame, grid.levels
    count, scale_x, scale_y = 0, frame[2], frame[3]
    for level in range(len(levels)):
        if levels[level, 3] > 0:
            up = levels[level, 1]
            i1 = max(_place(x1, frame[0], scale_x, levels[level, 0]) - 1, 0)
            i2 = _place(x2, frame[0], scale_x, levels[level, 0])
            j1 = max(_place(y1, frame[1], scale_y, up) - 1, 0)
            j2 = _place(y2, frame[1], scale_y, up)
            for i in range(i1, i2 + 1):
                for j in range(j1, j2 + 1):
                    entry = grid.heads[levels[level, 2] + i * up + j]
                    while entry >= 0:
                        across = boxes[entry, 0] <= x2 and boxes[entry, 2] >= x1
                        if across and boxes[entry, 1] <= y2 and boxes[entry, 3] >= y1:
                            nearby[count] = entry
                            count += 1
                        entry = grid.places[entry, AFTER]
        scale_x *= 0.5
        scale_y *= 0.5
    return count
