"""Rows of sources, applied one by one to what is known of items and queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.beliefs import believed, confirm
from tolerant.filters.bounds import appear, forget_told, mark, move, pass_ticks, return_from, say
from tolerant.filters.state import CURVES, Bytes, Flags, Floats, Integers, Items, Links, Queries, Said
from tolerant.kernels.compiled import borrowing, compiled
from tolerant.kernels.versions import COUNTER_BITS


class Filters(NamedTuple):
    """The filters that rows say: level, slope and grant of each, the tick of its centre, and its report."""

    level: Floats
    slope: Floats
    since: Integers
    grant: Integers
    curves: Bytes
    unit: Floats  # of the report; 0: there is none
    age: Integers


def report_columns(reports: NDArray[np.void] | None, rows: int) -> tuple[Bytes, Floats, Integers]:
    """The last three columns of `Filters`, from reports of type `REPORT`; None: there are none."""
    if reports is None:
        return np.zeros((rows, CURVES), np.uint8), np.zeros(rows), np.zeros(rows, np.int64)
    return reports["curves"].copy(), reports["unit"].astype(np.float64), reports["age"].astype(np.int64)


@compiled
def apply_rows(
    item: Integers,
    at: Integers,
    sequence: Integers,
    counts: Flags,
    filters: Filters,
    floor: int,
    passed: int,
    powers: Floats,
    tick: int,
    length: int,
    items: Items,
    queries: Queries,
    links: Links,
    said: Said,
) -> tuple[int, int, Integers]:
    """Apply rows in order: new filters, confirmations, and an answer for each query that an event time changed.

    A grant below `floor` confirms nothing. `tick`: up to which centres have moved; `length`: of a tick.

    Returns the number of answers written to `said`, of duplicates left out, and the rows whose grant is not held.
    """
    answers, duplicates, strange = 0, 0, 0
    stranger = np.empty(len(item), np.int64)
    touched = np.empty(len(queries.fn), np.int64)
    n = 0
    for row in range(len(item)):
        if row == 0 or at[row] != at[row - 1]:
            if row > 0:
                answers = say(touched[:n], at[row - 1], tick, items, queries, links, said, answers)
                n = 0
            if at[row] // length > tick:
                answers = pass_ticks(tick, at[row] // length, length, items, queries, links, said, answers)
                tick = at[row] // length
        i = item[row]
        if sequence[row] <= items.sequence[i]:
            duplicates += 1
            continue
        items.sequence[i] = sequence[row]
        if items.far[i] != 0 and filters.grant[row] >= items.leave_version[i]:
            return_from(i, items, queries, links)
        elif items.least[i] > -np.inf:
            forget_told(i, items, queries, links)
        if not items.seen[i]:
            appear(i, items, queries, links)
        if items.stale[i] and (sequence[row] >> COUNTER_BITS) >= items.epoch[i]:
            mark(i, False, items, queries, links)
        if not confirm(items, i, filters.grant[row]):
            stranger[strange] = row
            strange += 1
        elif sequence[row] <= items.doubt[i] or filters.grant[row] < floor:
            items.known[i] = False
        elif counts[row]:
            items.updates[i] += 1
        items.total[i] += int(counts[row])
        width = believed(items, i, passed, powers)
        move(i, filters.level[row], filters.slope[row], filters.since[row], width, tick, items, queries, links)
        _note(i, row, filters, items)
        for position in range(links.item_start[i], links.item_start[i + 1]):
            query = links.item_queries[position]
            if not queries.touched[query]:
                queries.touched[query] = True
                touched[n] = query
                n += 1
    if len(item) > 0:
        answers = say(touched[:n], at[len(item) - 1], tick, items, queries, links, said, answers)
    return answers, duplicates, stranger[:strange]


@borrowing
def _note(item: int, row: int, filters: Filters, items: Items) -> None:
    if filters.unit[row] > 0.0:
        for place in range(CURVES):
            items.curves[item, place] = filters.curves[row, place]
        items.unit[item], items.age[item] = filters.unit[row], filters.age[row]
        items.reported[item] = filters.since[row]
    elif items.unit[item] > 0.0:  # as it was told last
        items.age[item] += max(filters.since[row] - items.reported[item], 0)
        items.reported[item] = filters.since[row]
