"""Applies rows of sources, in order, to the state of items and queries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tolerant.filters.beliefs import believed, confirm
from tolerant.filters.bounds import appear, emit, end_suppression, forget_reported_range, mark, move, pass_ticks
from tolerant.filters.state import (
    CURVES,
    AnswerBatch,
    Bytes,
    Flags,
    Floats,
    Integers,
    ItemArrays,
    LinkArrays,
    QueryArrays,
)
from tolerant.kernels.compiled import compiled, compiled_no_refcount
from tolerant.kernels.versions import COUNTER_BITS


class Filters(NamedTuple):
    """The filters in rows: level, slope and grant, the tick of the level, and the report."""

    level: Floats
    slope: Floats
    since: Integers
    grant: Integers
    curves: Bytes
    unit: Floats  # of the report; 0: none
    age: Integers


def report_columns(reports: NDArray[np.void] | None, rows: int) -> tuple[Bytes, Floats, Integers]:
    """The last three columns of `Filters`, from reports of type `REPORT`; None: no reports."""
    if reports is None:
        return np.zeros((rows, CURVES), np.uint8), np.zeros(rows), np.zeros(rows, np.int64)
    return reports["curves"].copy(), reports["unit"].astype(np.float64), reports["age"].astype(np.int64)


@compiled
def apply_rows(  # noqa: C901, PLR0913
    item: Integers,
    at: Integers,
    sequence: Integers,
    counts: Flags,
    filters: Filters,
    least_version: int,
    passed: int,
    powers: Floats,
    tick: int,
    length: int,
    items: ItemArrays,
    queries: QueryArrays,
    links: LinkArrays,
    batch: AnswerBatch,
) -> tuple[int, int, Integers]:
    """Apply rows in order: new filters, confirmations, and an answer for each query that an event time changed.

    A grant below `least_version` confirms nothing. `tick`: up to which centres have moved; `length`: of a tick.

    Returns the number of answers in `batch`, the number of duplicates skipped, and the rows whose grant is in no slot.
    """
    answers, duplicates, unknown = 0, 0, 0
    unknown_rows = np.empty(len(item), np.int64)
    touched = np.empty(len(queries.fn), np.int64)
    n = 0
    for row in range(len(item)):
        if row == 0 or at[row] != at[row - 1]:
            if row > 0:
                answers = emit(touched[:n], at[row - 1], tick, items, queries, links, batch, answers)
                n = 0
            if at[row] // length > tick:
                answers = pass_ticks(tick, at[row] // length, length, items, queries, links, batch, answers)
                tick = at[row] // length
        i = item[row]
        if sequence[row] <= items.sequence[i]:
            duplicates += 1
            continue
        items.sequence[i] = sequence[row]
        if items.suppress_side[i] != 0 and filters.grant[row] >= items.suppress_version[i]:
            end_suppression(i, items, queries, links)
        elif items.reported_low[i] > -np.inf:
            forget_reported_range(i, items, queries, links)
        if not items.seen[i]:
            appear(i, items, queries, links)
        if items.stale[i] and (sequence[row] >> COUNTER_BITS) >= items.epoch[i]:
            mark(i, False, items, queries, links)
        if not confirm(items, i, filters.grant[row]):
            unknown_rows[unknown] = row
            unknown += 1
        elif sequence[row] <= items.lost_sequence[i] or filters.grant[row] < least_version:
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
        answers = emit(touched[:n], at[len(item) - 1], tick, items, queries, links, batch, answers)
    return answers, duplicates, unknown_rows[:unknown]


@compiled_no_refcount
def _note(item: int, row: int, filters: Filters, items: ItemArrays) -> None:
    if filters.unit[row] > 0.0:
        for place in range(CURVES):
            items.curves[item, place] = filters.curves[row, place]
        items.unit[item], items.age[item] = filters.unit[row], filters.age[row]
        items.reported[item] = filters.since[row]
    elif items.unit[item] > 0.0:  # no report: the last one still holds
        items.age[item] += max(filters.since[row] - items.reported[item], 0)
        items.reported[item] = filters.since[row]
