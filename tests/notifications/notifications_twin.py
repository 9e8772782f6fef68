"""The slow, obvious twin: every subscription on a grid is answered from scratch before and after a change."""

import itertools
from math import inf

import numpy as np

STEPS = range(8)
ENDS = [-inf, *(step / 2 for step in range(-1, 16)), inf]
RANGES = [(x1, x2) for x1, x2 in itertools.combinations_with_replacement(ENDS, 2) if not x1 == x2 in (-inf, inf)]
LOWS, HIGHS = (np.array(ends) for ends in zip(*RANGES, strict=True))


def answers(rows, best=min):
    """The answer of each of RANGES over rows {id: (x, y)}."""
    empty = inf if best is min else -inf
    if not rows:
        return np.full(len(RANGES), empty)
    xs, ys = (np.array(part, float) for part in zip(*rows.values(), strict=True))
    inside = (LOWS[:, None] <= xs) & (xs <= HIGHS[:, None])
    seen = np.where(inside, ys, empty)
    return seen.min(axis=1) if best is min else seen.max(axis=1)


def told(messages):
    """For each of RANGES the list of answers that it is told."""
    return [[message.answer(*ends) for message in messages if message.affects(*ends)] for ends in RANGES]


def check(messages, before, after):
    """Exactly those whose answer changed are told, exactly once, their new answer."""
    for ends, heard, old, new in zip(RANGES, told(messages), before.tolist(), after.tolist(), strict=True):
        assert heard == ([new] if old != new else []), (ends, old, new, heard, messages)


def affected_cells(rows_before, rows_after):
    """{(i, j): new answer} over the cells of ranges that no place divides, where the answer changes."""
    places = sorted({x for x, _ in [*rows_before.values(), *rows_after.values()]})
    # x1 in (places[i − 1], places[i]] and x2 in [places[j], places[j + 1]) see the places i … j.
    cells = {}
    for i, j in itertools.combinations_with_replacement(range(len(places)), 2):
        old, new = (
            min((y for x, y in rows.values() if places[i] <= x <= places[j]), default=inf)
            for rows in (rows_before, rows_after)
        )
        if old != new:
            cells[i, j] = new
    return cells


def fewest_rectangles(cells):
    """The smallest number of disjoint rectangles of one value each that cover exactly these cells."""
    total = 0
    for value in set(cells.values()):
        total += _fewest(frozenset(cell for cell, found in cells.items() if found == value))
    return total


def _fewest(cells):
    if not cells:
        return 0
    i, j = min(cells)
    best, width, down = inf, inf, 0
    while (i + down, j) in cells:
        across = 0
        while across < width and (i + down, j + across) in cells:
            across += 1
        width = across
        for size in range(1, width + 1):
            taken = frozenset((a, b) for a in range(i, i + down + 1) for b in range(j, j + size))
            best = min(best, 1 + _fewest(cells - taken))
        down += 1
    return best
