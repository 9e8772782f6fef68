"""Boxes that come and go, found by where they are: a stack of ever coarser grids, one for each class of sizes.

A box is listed once, under the cell of its low corner, in the finest grid whose cells are larger than it; so whatever
meets a window has its low corner in the window or less than a cell before it. Listing and taking out is O(1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.compiled import compiled
from tolerant.merging.arrays import Floats, Integers

_ROOM = 0.999
"""The share of a cell that a box may fill: less than a whole one, so that rounding cannot push it a cell further."""


class Grid(NamedTuple):
    """Arrays of the grids. `boxes` are the entries' own array, read here; entries are numbered as its rows."""

    boxes: Floats  # [capacity, 4]
    frame: Floats  # low x, low y, cells per unit along x and y of the finest grid
    levels: Integers  # [levels, 3]: cells along x, along y, number of the first cell
    filled: Integers  # [levels]: boxes listed
    head: Integers  # [cells]: first box of the list, −1: none
    after: Integers  # [capacity]
    before: Integers  # [capacity]; −1: the first of its list
    cell: Integers  # [capacity]; −1: not listed
    level: Integers  # [capacity]


def grid_over(boxes: Floats, sample: Floats) -> Grid:
    """An empty grid for entries whose boxes are, or will be, rows of `boxes`; shaped by `sample` float[n, 4]."""
    capacity = len(boxes)
    low, cells, scale = np.zeros(2), np.ones(2, np.int64), np.ones(2)
    if len(sample):
        low = sample[:, :2].min(axis=0)
        extent = sample[:, 2:].max(axis=0) - low
        side = np.maximum(np.median(sample[:, 2:] - sample[:, :2], axis=0), extent / np.sqrt(len(sample)))
        side = np.where(side > 0, side, 1.0)
        cells = np.maximum(1, np.ceil(extent / side)).astype(np.int64)
        scale = 1.0 / side
    levels, first = [], 0
    while True:
        levels.append((cells[0], cells[1], first))
        first += int(cells[0] * cells[1])
        if cells.max() == 1:
            break
        cells = (cells + 1) // 2
    return Grid(
        boxes=boxes,
        frame=np.concatenate([low, scale]),
        levels=np.array(levels, np.int64),
        filled=np.zeros(len(levels), np.int64),
        head=np.full(first, -1, np.int64),
        after=np.full(capacity, -1, np.int64),
        before=np.full(capacity, -1, np.int64),
        cell=np.full(capacity, -1, np.int64),
        level=np.zeros(capacity, np.int64),
    )


@compiled
def _place(value: float, low: float, scale: float, cells: int) -> int:
    """The cell along one axis; what lies outside the frame counts to the cell at its border."""
    return int(min(max(np.floor((value - low) * scale), 0.0), cells - 1.0))


@compiled
def list_box(grid: Grid, entry: int) -> None:
    """List the entry where its box is."""
    box, frame = grid.boxes[entry], grid.frame
    top = len(grid.levels) - 1
    level, scale_x, scale_y = 0, frame[2], frame[3]
    while level < top and ((box[2] - box[0]) * scale_x > _ROOM or (box[3] - box[1]) * scale_y > _ROOM):
        level += 1
        scale_x *= 0.5
        scale_y *= 0.5
    across, up, first = grid.levels[level]
    cell = first + _place(box[0], frame[0], scale_x, across) * up + _place(box[1], frame[1], scale_y, up)
    grid.cell[entry] = cell
    grid.level[entry] = level
    grid.filled[level] += 1
    grid.before[entry] = -1
    grid.after[entry] = grid.head[cell]
    if grid.head[cell] >= 0:
        grid.before[grid.head[cell]] = entry
    grid.head[cell] = entry


@compiled
def unlist_box(grid: Grid, entry: int) -> None:
    """Take the entry out of its list; its box may have changed since."""
    if grid.cell[entry] < 0:
        return
    grid.filled[grid.level[entry]] -= 1
    before, after = grid.before[entry], grid.after[entry]
    if before >= 0:
        grid.after[before] = after
    else:
        grid.head[grid.cell[entry]] = after
    if after >= 0:
        grid.before[after] = before
    grid.cell[entry] = -1


@compiled
def near(grid: Grid, x1: float, y1: float, x2: float, y2: float, found: Integers) -> int:
    """Write the entries whose box meets the window into `found`; how many there are."""
    boxes, frame = grid.boxes, grid.frame
    count, scale_x, scale_y = 0, frame[2], frame[3]
    for level in range(len(grid.levels)):
        if grid.filled[level] > 0:
            across, up, first = grid.levels[level]
            i1 = max(_place(x1, frame[0], scale_x, across) - 1, 0)
            i2 = _place(x2, frame[0], scale_x, across)
            j1 = max(_place(y1, frame[1], scale_y, up) - 1, 0)
            j2 = _place(y2, frame[1], scale_y, up)
            for i in range(i1, i2 + 1):
                for j in range(j1, j2 + 1):
                    entry = grid.head[first + i * up + j]
                    while entry >= 0:
                        if (
                            boxes[entry, 0] <= x2
                            and boxes[entry, 2] >= x1
                            and boxes[entry, 1] <= y2
                            and boxes[entry, 3] >= y1
                        ):
                            found[count] = entry
                            count += 1
                        entry = grid.after[entry]
        scale_x *= 0.5
        scale_y *= 0.5
    return count
