"""Argument checks: errors name the argument, what was expected and what came."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from tolerant.kernels.array_types import Floats, Integers

PROCEDURES = ("box", "union", "pieces")


def as_rectangles(value: ArrayLike, name: str = "rectangles") -> Floats:
    """Return boxes float64[n, 2d], lows before highs; raises ValueError unless they are finite and no low is above its
    high.
    """
    try:
        boxes = np.ascontiguousarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be float[n, 4], x1 y1 x2 y2: {error}") from error
    if boxes.size == 0 and boxes.ndim < 2:
        return np.zeros((0, 4))
    if boxes.ndim != 2 or boxes.shape[1] < 2 or boxes.shape[1] % 2:
        raise ValueError(f"{name} must be float[n, 2d] (x1 y1 x2 y2 for d = 2), got shape {boxes.shape}")
    half = boxes.shape[1] // 2
    finite = np.isfinite(boxes).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(f"{name} must be finite, row {row} is {boxes[row].tolist()}")
    ordered = (boxes[:, :half] <= boxes[:, half:]).all(axis=1)
    if not ordered.all():
        row = int(np.argmin(ordered))
        raise ValueError(f"{name}: a low end is above its high end in row {row}: {boxes[row].tolist()}")
    return boxes + 0.0  # −0 becomes 0


def as_points(value: ArrayLike, dimensions: int, name: str = "points") -> Floats:
    """Return points float64[m, d]."""
    points = np.ascontiguousarray(value, np.float64)
    if points.size == 0:
        return np.zeros((0, dimensions))
    if points.ndim == 1 and dimensions == 1:
        points = np.ascontiguousarray(points[:, None])
    if points.ndim != 2 or points.shape[1] != dimensions:
        raise ValueError(f"{name} must be float[m, {dimensions}], got shape {points.shape}")
    return points


def as_groups(groups: Iterable[Iterable[int]], queries: int) -> tuple[Integers, Integers]:
    """Return the groups as compressed rows (starts, members), members ascending and distinct; empty groups are omitted.

    Raises:
        ValueError: a group names a query that does not exist, or a query is in no group.
    """
    given = [tuple(group) for group in groups]
    flat = np.array(list(chain.from_iterable(given)))
    of = np.repeat(np.arange(len(given)), [len(group) for group in given])
    if len(flat) and not (flat.ndim == 1 and np.issubdtype(flat.dtype, np.integer)):
        raise ValueError(f"groups must hold query numbers, got {next(iter(given))}")
    members = flat.astype(np.int64)
    wrong = np.flatnonzero((members < 0) | (members >= queries))
    if len(wrong):
        first = wrong[0]
        raise ValueError(f"groups: group {of[first]} names query {members[first]}, there are 0 to {queries - 1}")
    covered = np.zeros(queries, np.bool_)
    covered[members] = True
    if not covered.all():
        raise ValueError(f"groups must cover every query, query {int(np.argmin(covered))} is in none")
    distinct = np.unique(of * max(queries, 1) + members)
    of, members = distinct // max(queries, 1), distinct % max(queries, 1)
    lengths = np.bincount(of, minlength=0)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths[lengths > 0])]), members


def as_choice(value: str, name: str, choices: Collection[str]) -> str:
    """Return the value if it is one of the choices, else raise ValueError."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value
