"""What a search finds: for each affected query the run of stored rows it gains; and the pairs these stand for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.joins.arrays import Integers
from tolerant.kernels.compiled import borrowing


class Found(NamedTuple):
    """A buffer of runs: `query` gains the rows at places start … stop − 1 of the order."""

    query: Integers
    start: Integers
    stop: Integers


def room_for(size: int) -> Found:
    """An empty buffer."""
    return Found(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))


@borrowing
def put(found: Found, used: int, query: int, start: int, stop: int) -> int:
    """Write a run if there is room; counts on when there is none, so that the caller learns how much is needed."""
    if used < len(found.query):
        found.query[used] = query
        found.start[used] = start
        found.stop[used] = stop
    return used + 1


@borrowing
def pairs_in(found: Found, used: int) -> int:
    """How many pairs the runs stand for."""
    total = 0
    for k in range(used):
        total += found.stop[k] - found.start[k]
    return total


@borrowing
def expand(
    found: Found, ends: Integers, first: int, last: int, rows: Integers,
    events: Integers, queries: Integers, partners: Integers, at: int,
) -> int:  # fmt: skip
    """Write the pairs of events first … last − 1 from place `at` on; an event's runs end where `ends` says."""
    k = 0
    for event in range(first, last):
        while k < ends[event]:
            query = found.query[k]
            for place in range(found.start[k], found.stop[k]):
                events[at] = event
                queries[at] = query
                partners[at] = rows[place]
                at += 1
            k += 1
    return at
