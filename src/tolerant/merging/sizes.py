"""The size of an answer: the area of its box, or the rows that the data seen so far would put into it.

A size is a function from boxes float[k, 2d] to float[k], not negative, and never smaller for a box that contains
another. Compiled code knows `area` and what `rows` returns; any other function is called with arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tolerant.kernels.array_types import Floats
from tolerant.kernels.compiled import compiled, compiled_no_refcount

Size: TypeAlias = Callable[[Floats], Floats]


class SizeTable(NamedTuple):
    """What compiled code needs for a size: empty `sums` for area, else the rows below and left of each corner.

    `frame`: the corner x, y of the table, and cells per unit along x and y.
    """

    sums: Floats
    frame: Floats


AREA = SizeTable(np.zeros((0, 0)), np.zeros(4))


def area(rectangles: Floats) -> Floats:
    """Return the areas of boxes float[k, 2d] (lengths for d = 1), float[k]: one row per unit of area.

    >>> area(np.array([[0.0, 0.0, 2.0, 3.0]])).tolist()
    [6.0]
    """
    boxes = np.asarray(rectangles, np.float64)
    half = boxes.shape[1] // 2
    product: Floats = np.prod(boxes[:, half:] - boxes[:, :half], axis=1)
    return product


class RowCounts:
    """A size that counts rows: a table of counts over a frame, rows spread evenly inside a cell.

    Additive over disjoint boxes, monotone, O(1) per box. A box without width has no rows in this sense, whatever lies
    on it.
    """

    def __init__(self, counts: ArrayLike, low: ArrayLike, high: ArrayLike) -> None:
        """`counts` float[cells] or float[cells, cells]: rows in each cell of the frame from `low` to `high`."""
        table = np.asarray(counts, np.float64)
        first, last = np.atleast_1d(np.asarray(low, np.float64)), np.atleast_1d(np.asarray(high, np.float64))
        if table.ndim not in (1, 2) or 0 in table.shape:
            raise ValueError(f"counts must have one or two axes and at least a cell, got shape {table.shape}")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise ValueError("counts must be finite and not negative")
        if first.shape != (table.ndim,) or last.shape != (table.ndim,) or not (first < last).all():
            raise ValueError(f"low and high must be {table.ndim} numbers each, low first, got {low!r}, {high!r}")
        self.dimensions = table.ndim
        if self.dimensions == 1:  # as a table of one cell along y, from 0 to 1
            table, first, last = table[:, None], np.append(first, 0.0), np.append(last, 1.0)
        sums = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
        sums[1:, 1:] = table.cumsum(axis=0).cumsum(axis=1)
        self.table = SizeTable(sums, np.concatenate([first, np.array(table.shape) / (last - first)]))

    def __call__(self, rectangles: Floats) -> Floats:
        """Return the rows in boxes float[k, 2d], float[k]."""
        boxes = np.asarray(rectangles, np.float64)
        if boxes.ndim != 2 or boxes.shape[1] != 2 * self.dimensions:
            raise ValueError(f"rectangles must be float[k, {2 * self.dimensions}] for this size, got {boxes.shape}")
        return sizes_of(planar(boxes), self.table)


def rows(points: ArrayLike, cells: int = 256) -> RowCounts:
    """Return the size that counts these rows: `points` float[m, d] for one or two columns, in cells × cells cells.

    >>> size = rows(np.array([[1.0, 1.0], [2.0, 2.0], [9.0, 9.0]]), cells=8)
    >>> size(np.array([[0.0, 0.0, 5.0, 5.0], [0.0, 0.0, 9.0, 9.0]])).tolist()
    [2.0, 3.0]
    """
    given = np.asarray(points, np.float64)
    if given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[1] not in (1, 2) or len(given) == 0:
        raise ValueError(f"points must be float[m, 1] or float[m, 2] with m ≥ 1, got shape {np.shape(points)}")
    if not np.isfinite(given).all():
        raise ValueError(f"points must be finite, row {int(np.argmax(~np.isfinite(given).all(axis=1)))} is not")
    if cells < 1:
        raise ValueError(f"cells must be at least 1, got {cells}")
    low, high = given.min(axis=0), given.max(axis=0)
    flat = high <= low
    low, high = np.where(flat, low - 0.5, low), np.where(flat, high + 0.5, high)
    counts, _ = np.histogramdd(given, bins=cells, range=list(zip(low, high, strict=True)))
    return RowCounts(counts, low, high)


def table_of(size: Size, dimensions: int) -> SizeTable | None:
    """Return the table that compiled code uses for this size; None: the function must be called."""
    if dimensions > 2:
        return None
    if size is area:
        return AREA
    if isinstance(size, RowCounts) and size.dimensions == dimensions:
        return size.table
    return None


def measured(size: Size, boxes: Floats) -> Floats:
    """Return the sizes of these boxes, checked.

    Raises:
        ValueError: the function returned something that cannot be sizes.
    """
    values: NDArray[Any] = np.asarray(size(boxes), np.float64)
    if values.shape != (len(boxes),):
        raise ValueError(f"size must return one number per box: {len(boxes)} boxes, got shape {values.shape}")
    if len(values) and not values.min() >= 0:
        bad = int(np.argmax(~(values >= 0)))
        raise ValueError(f"size must not be negative or NaN, got {values[bad]} for box {boxes[bad].tolist()}")
    return values


def planar(boxes: Floats) -> Floats:
    """Return boxes of one or two dimensions as `x1 y1 x2 y2`: an interval becomes a box from 0 to 1 along y."""
    if boxes.shape[1] == 4:
        return np.ascontiguousarray(boxes)
    flat = np.zeros((len(boxes), 4))
    flat[:, 0], flat[:, 2], flat[:, 3] = boxes[:, 0], boxes[:, 1], 1.0
    return flat


@compiled_no_refcount
def _below(x: float, y: float, table: SizeTable) -> float:
    """Return the rows of the table below y and left of x."""
    sums, frame = table
    last_x, last_y = sums.shape[0] - 1, sums.shape[1] - 1
    u = min(max((x - frame[0]) * frame[2], 0.0), float(last_x))
    v = min(max((y - frame[1]) * frame[3], 0.0), float(last_y))
    i, j = min(int(u), last_x - 1), min(int(v), last_y - 1)
    a, b = u - i, v - j
    below = sums[i, j] * (1.0 - a) + sums[i + 1, j] * a
    above = sums[i, j + 1] * (1.0 - a) + sums[i + 1, j + 1] * a
    return float(below * (1.0 - b) + above * b)


@compiled_no_refcount
def measure(x1: float, y1: float, x2: float, y2: float, table: SizeTable) -> float:
    """Return the size of one box, for compiled code."""
    if table.sums.shape[0] == 0:
        return (x2 - x1) * (y2 - y1)
    count = _below(x2, y2, table) - _below(x1, y2, table) - _below(x2, y1, table) + _below(x1, y1, table)
    return max(count, 0.0)


@compiled
def sizes_of(boxes: Floats, table: SizeTable) -> Floats:
    """Return the size of each box, float[k]."""
    values = np.empty(len(boxes))
    for k in range(len(boxes)):
        values[k] = measure(boxes[k, 0], boxes[k, 1], boxes[k, 2], boxes[k, 3], table)
    return values


@compiled_no_refcount
def _strip_end(low: float, high: float, start: float, axis: int, up: bool, content: float, table: SizeTable) -> float:
    """Return how far along `axis`, up or down from `start`, the strip from `low` to `high` of the other axis extends
    before it contains `content` rows; rounded outwards to the edge of a cell, infinite if it never does.
    """
    last = table.sums.shape[axis] - 1
    near, far = (-1, last + 1) if up else (last + 1, -1)  # too little up to edge `near`, enough up to `far`
    while abs(far - near) > 1:
        middle = (near + far) // 2
        edge = table.frame[axis] + middle / table.frame[2 + axis]
        first, second = (start, max(start, edge)) if up else (min(start, edge), start)
        if axis == 0:
            count = measure(first, low, second, high, table)
        else:
            count = measure(low, first, high, second, table)
        if count >= content:
            far = middle
        else:
            near = middle
    edge = table.frame[axis] + far / table.frame[2 + axis]
    if up:
        return np.inf if far > last else max(start, edge)
    return -np.inf if far < 0 else min(start, edge)


@compiled_no_refcount
def reach(
    x1: float, y1: float, x2: float, y2: float, content: float, table: SizeTable
) -> tuple[float, float, float, float]:
    """Return the box grown on each side until the strip beside it contains `content`, plus a margin for rounding."""
    left, below, right, above = x1, y1, x2, y2
    if content > 0.0:
        if table.sums.shape[0] == 0:
            left, right = x1 - content / (y2 - y1), x2 + content / (y2 - y1)
            below, above = y1 - content / (x2 - x1), y2 + content / (x2 - x1)
        else:
            for up in (False, True):
                across = _strip_end(y1, y2, x2 if up else x1, 0, up, content, table)
                along = _strip_end(x1, x2, y2 if up else y1, 1, up, content, table)
                if up:
                    right, above = across, along
                else:
                    left, below = across, along
    hair_x = 1e-9 * (max(abs(x1), abs(x2)) + (right - left))
    hair_y = 1e-9 * (max(abs(y1), abs(y2)) + (above - below))
    return left - hair_x, below - hair_y, right + hair_x, above + hair_y
