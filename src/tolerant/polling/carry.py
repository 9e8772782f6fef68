"""What is known of items and queries, brought over into the arrays of other queries (`specs/2-polling.md` §5.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from tolerant.polling.arrays import Chains, Floats, Integers, Records, Window
from tolerant.polling.risk import LEARNED, Rows
from tolerant.polling.together import Together
from tolerant.queries import Aggregate

Parts: TypeAlias = tuple[dict[str, int], Sequence[Aggregate], Records, Rows, Records, Chains, Window, Together]

_OF_QUERIES = ("spacing", "reach", "always", "cost", "server")
"""What the new queries and options say of an item, not its past."""


def carried(old: Parts, new: Parts) -> None:
    """Write what `old` knows into `new`; items and queries that are only in one of them are left alone."""
    old_index, old_queries, old_table, old_rows, old_items, old_chains, old_window, old_together = old
    index, queries, table, rows, items, chains, window, together = new
    names = [name for name in index if name in old_index]
    of, to = (np.array([where[name] for name in names], np.int64) for where in (old_index, index))
    for field in items.dtype.names or ():
        if field not in _OF_QUERIES:
            items[field][to] = old_items[field][of]
    for before, after in zip(old_chains, chains, strict=True):
        if after.size:
            after[to] = before[of]
    rescale(items, chains, old_items["spacing"][of], to)
    for before, after in zip(old_window[:-1], window[:-1], strict=True):
        if after.size and before.size:
            after[to] = before[of]
    _carry_excuses(old_queries, old_window, queries, window)
    if together.points.size and old_together.points.size:
        together.points[:, to], together.stamps[:, to] = old_together.points[:, of], old_together.stamps[:, of]
        together.covariance[np.ix_(to, to)] = old_together.covariance[np.ix_(of, of)]
        together.correlation[np.ix_(to, to)] = old_together.correlation[np.ix_(of, of)]
        together.changes[:] = old_together.changes
    _carry_queries(old_queries, old_table, queries, table)
    _carry_rows(_row_names(old_queries, old_table, old_rows), old_rows, _row_names(queries, table, rows), rows)


def _carry_queries(
    old_queries: Sequence[Aggregate], old_table: Records, queries: Sequence[Aggregate], table: Records
) -> None:
    known = {query.name: k for k, query in enumerate(old_queries)}
    if len(old_table):
        table["haste"] = old_table["haste"][0]  # the same for all, new ones too
    for k, query in enumerate(queries):
        if query.name in known:
            for field in ("safety", "gamma", "before", "good", "ticks", "missed", "feared", "recent", "since"):
                table[field][k] = old_table[field][known[query.name]]


def _carry_excuses(
    old_queries: Sequence[Aggregate], old_window: Window, queries: Sequence[Aggregate], window: Window
) -> None:
    """`excused` is by query, where everything else of a window is by item."""
    if old_window.excused.size and window.excused.size:
        known = {query.name: k for k, query in enumerate(old_queries)}
        for k, query in enumerate(queries):
            if query.name in known:
                window.excused[k] = old_window.excused[known[query.name]]


def _row_names(queries: Sequence[Aggregate], table: Records, rows: Rows) -> list[tuple[str, int]]:
    """Query and place in it, for each row; a linear query has one."""
    owner = np.searchsorted(table["start"], rows.table["start"], side="right") - 1
    return [
        (queries[q].name, int(start - table["start"][q]))
        for q, start in zip(owner.tolist(), rows.table["start"].tolist(), strict=True)
    ]


def _carry_rows(old_names: Sequence[tuple[str, int]], old: Rows, names: Sequence[tuple[str, int]], new: Rows) -> None:
    known = {name: k for k, name in enumerate(old_names)}
    for k, name in enumerate(names):
        if name in known:
            for field in LEARNED:
                new.table[field][k] = old.table[field][known[name]]


def rescale(items: Records, chains: Chains, before: Floats, which: Integers) -> None:
    """Read every state of a chain whose spacing changed as the nearest one of the new spacing."""
    size = chains.sums.shape[1]
    half = size // 2
    steps = np.arange(size) - half
    for spacing, i in zip(before.tolist(), which.tolist(), strict=True):
        after = float(items["spacing"][i])
        if spacing == after:
            continue
        ratio = spacing / after if after > 0 else 0.0
        place = np.clip(np.floor(steps * ratio + 0.5), -half, half).astype(np.int64) + half
        counts = np.zeros((size, size))
        np.add.at(counts, (place[:, None], place[None, :]), chains.counts[i])
        chains.counts[i], chains.sums[i] = counts, counts.sum(axis=1)
        items["learned"][i], items["running"][i] = place[items["learned"][i]], place[items["running"][i]]
        if chains.spread.size:
            moved = np.zeros(size)
            np.add.at(moved, place, chains.spread[i])
            chains.spread[i] = moved
