"""The result of a search: for each affected query the run of stored rows that it gains; and the pairs that
these mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tolerant.kernels.array_types import Integers
from tolerant.kernels.compiled import compiled_no_refcount


class RunBuffer(NamedTuple):
    """A buffer of runs: `query` gains the rows at places start … stop − 1 of the order."""

    query: Integers
    start: Integers
    stop: Integers


def empty_buffer(size: int) -> RunBuffer:
    """Return a buffer with room for `size` runs."""
    return RunBuffer(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64))


@compiled_no_refcount
def append_run(buffer: RunBuffer, used: int, query: int, start: int, stop: int) -> int:
    """Write a run if there is room, and return the count with it either way: so the caller learns the room that is
    needed.
    """
    if used < len(buffer.query):
        buffer.query[used] = query
        buffer.start[used] = start
        buffer.stop[used] = stop
    return used + 1


@compiled_no_refcount
def count_pairs(buffer: RunBuffer, used: int) -> int:
    """Return the number of pairs in the first `used` runs."""
    total = 0
    for k in range(used):
        total += buffer.stop[k] - buffer.start[k]
    return total


@compiled_no_refcount
def write_pairs(  # noqa: PLR0913
    buffer: RunBuffer, ends: Integers, first: int, last: int, rows: Integers,
    events: Integers, queries: Integers, partners: Integers, at: int,
) -> int:  # fmt: skip
    """Write the pairs of events first … last − 1 from place `at` on and return where they end; `ends` has the end of
    each event's runs.
    """
    k = 0
    for event in range(first, last):
        while k < ends[event]:
            query = buffer.query[k]
            for place in range(buffer.start[k], buffer.stop[k]):
                events[at] = event
                queries[at] = query
                partners[at] = rows[place]
                at += 1
            k += 1
    return at
