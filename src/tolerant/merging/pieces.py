"""Cuts overlapping boxes into disjoint ones ([CBGM] §5.1, Figure 4; `docs/design/merging.md` §2.3).

An edge is a cut below its value (a low edge) or above it (a high one), so that a row on a shared edge is on one side
only: boxes are half-open where they must be, and two boxes that touch share a piece without width.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from tolerant.kernels.array_types import Flags, Floats, Integers
from tolerant.kernels.compiled import compiled
from tolerant.kernels.random import mixed
from tolerant.merging.sizes import SizeTable, measure


@dataclass(frozen=True, eq=False)
class Pieces:
    """Disjoint boxes: `edges` float[k, 2d], lows first; `open` bool[k, 2d]: whether that edge does not belong to the
    box; `members` bool[k, m]: which of the boxes that were cut contain it.
    """

    edges: Floats
    open: Flags
    members: Flags

    def closed(self) -> Floats:
        """Return the same sets of floating-point numbers as closed boxes float[k, 2d]."""
        half = self.edges.shape[1] // 2
        inward = np.where(np.arange(2 * half) < half, np.inf, -np.inf)
        return np.where(self.open, np.nextafter(self.edges, inward), self.edges)


def cut(boxes: Floats, *, apart: bool = True) -> Pieces:
    """Cut boxes float[m, 2d]. `apart`: each piece is inside or outside every box; else the pieces cover their union.

    >>> cut(np.array([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]])).edges[:3].tolist()
    [[0.0, 0.0, 1.0, 2.0], [1.0, 0.0, 2.0, 1.0], [1.0, 1.0, 2.0, 2.0]]
    """
    half = boxes.shape[1] // 2
    cuts, spans = [], np.empty((len(boxes), half, 2), np.int64)
    for axis in range(half):
        lows, highs = boxes[:, axis].tolist(), boxes[:, half + axis].tolist()
        edges = sorted({(v, 0) for v in lows} | {(v, 1) for v in highs})
        place = {edge: k for k, edge in enumerate(edges)}
        spans[:, axis, 0] = [place[v, 0] for v in lows]
        spans[:, axis, 1] = [place[v, 1] for v in highs]
        cuts.append(np.array(edges))
    joined = _joined(_labelled(spans, [len(edges) - 1 for edges in cuts], apart))
    ends = np.stack([cuts[axis][joined[:, axis]] for axis in range(half)], axis=1)  # [k, axis, low or high, (v, s)]
    edges_of = np.concatenate([ends[:, :, 0, 0], ends[:, :, 1, 0]], axis=1)
    opened = np.concatenate([ends[:, :, 0, 1] == 1, ends[:, :, 1, 1] == 0], axis=1)
    inside = (spans[None, :, :, 0] <= joined[:, None, :, 0]) & (joined[:, None, :, 1] <= spans[None, :, :, 1])
    return Pieces(edges_of, opened, np.all(inside, axis=2))


def _labelled(spans: Integers, shape: list[int], apart: bool) -> np.ndarray:
    """A word for each cell that identifies the set of boxes that cover it; 0: none does."""
    labels = np.zeros(shape, np.uint64)
    for number, span in enumerate(spans):
        cells = tuple(slice(low, high) for low, high in span.tolist())
        if apart:
            labels[cells] ^= mixed(np.uint64(number + 1))
        else:
            labels[cells] = 1
    return labels


def _joined(labels: np.ndarray) -> Integers:
    """Boxes of cells of equal label, int[k, axis, 2]: runs along the last axis, equal runs joined along the others."""
    runs: dict[tuple[tuple[int, ...], int], list[tuple[int, int]]] = {}
    for column in product(*(range(length) for length in labels.shape[:-1])):
        cells = labels[column]
        starts = np.flatnonzero(np.diff(cells, prepend=~cells[:1]))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(cells)], strict=True):
            if cells[start]:
                runs[(*column, start), int(cells[start])] = [*((at, at + 1) for at in column), (start, end)]
    boxes = {key: tuple(spans) for key, spans in runs.items()}
    for axis in reversed(range(labels.ndim - 1)):
        boxes = _along(boxes, axis)
    return np.array(sorted(boxes.values()), np.int64).reshape(-1, labels.ndim, 2)


Boxes = dict[tuple[tuple[int, ...], int], tuple[tuple[int, int], ...]]


def _along(boxes: Boxes, axis: int) -> Boxes:
    """Join boxes of one label that are equal except along `axis`, where they touch."""
    grown: Boxes = {}
    open_ends: dict[object, tuple[tuple[int, ...], int]] = {}
    for key, spans in sorted(boxes.items(), key=lambda item: item[1][axis]):
        rest = (key[1], *(span for other, span in enumerate(spans) if other != axis))
        last = open_ends.get((rest, spans[axis][0]))
        if last is None:
            last = key
            grown[key] = spans
        else:
            grown[last] = (*grown[last][:axis], (grown[last][axis][0], spans[axis][1]), *spans[axis + 1 :])
        open_ends[rest, spans[axis][1]] = last
    return grown


@compiled
def _ranked(boxes: Floats, members: Integers, low: int) -> tuple[Floats, Integers]:
    """Return the distinct cuts of an axis in order, as values, and the places of each box's low and high cut among
    them.

    `low`: the column of the low ends. By insertion: groups are small, and their cells take n² steps anyway.
    """
    n = len(members)
    order, places, cuts = np.empty(2 * n, np.int64), np.empty((n, 2), np.int64), np.empty(2 * n)
    for k in range(2 * n):  # end k is the low (even) or high (odd) end of box k // 2
        value, at = boxes[members[k // 2], low + 2 * (k % 2)], k
        while at > 0:
            other = order[at - 1]
            sorted_value = boxes[members[other // 2], low + 2 * (other % 2)]
            if sorted_value < value or (sorted_value == value and other % 2 <= k % 2):
                break
            order[at] = other
            at -= 1
        order[at] = k
    used, side = 0, -1
    for at in range(2 * n):
        k = order[at]
        value = boxes[members[k // 2], low + 2 * (k % 2)]
        if used == 0 or cuts[used - 1] != value or side != k % 2:
            cuts[used] = value
            used += 1
            side = k % 2
        places[k // 2, k % 2] = used - 1
    return cuts[:used], places


@compiled
def _region(boxes: Floats, members: Integers, table: SizeTable) -> tuple[float, int]:
    """Return the size of the union of these boxes and the number of pieces; two dimensions, additive sizes."""
    xs, across = _ranked(boxes, members, 0)
    ys, up = _ranked(boxes, members, 1)
    labels = np.zeros((len(xs) - 1, len(ys) - 1), np.uint64)
    for k in range(len(members)):
        word = mixed(np.uint64(k + 1))
        for i in range(across[k, 0], across[k, 1]):
            for j in range(up[k, 0], up[k, 1]):
                labels[i, j] ^= word
    size, pieces = 0.0, 0
    until = np.zeros((2, len(ys)), np.int64)  # where the run that starts here ends, in this column and the last one
    for i in range(labels.shape[0]):
        now, last, start = i % 2, 1 - i % 2, 0
        for j in range(1, len(ys)):
            until[now, j - 1] = 0
            if j < labels.shape[1] and labels[i, j] == labels[i, start]:
                continue
            if labels[i, start] != 0:
                size += measure(xs[i], ys[start], xs[i + 1], ys[j], table)
                if not (i > 0 and until[last, start] == j and labels[i - 1, start] == labels[i, start]):
                    pieces += 1
                until[now, start] = j
            start = j
    return size, pieces


@compiled
def regions(boxes: Floats, starts: Integers, members: Integers, table: SizeTable) -> tuple[Floats, Integers]:
    """For groups of boxes (compressed rows), return the size of each union, and its number of pieces."""
    sizes, pieces = np.empty(len(starts) - 1), np.empty(len(starts) - 1, np.int64)
    for k in range(len(starts) - 1):
        sizes[k], pieces[k] = _region(boxes, members[starts[k] : starts[k + 1]], table)
    return sizes, pieces
