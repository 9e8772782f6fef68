"""What is known of items and queries, carried over when the set of queries changes (`docs/design/polling.md` §5.6)."""

from __future__ import annotations

import numpy as np

from tolerant.polling.arrangement import Arrangement
from tolerant.polling.choice.risk import LEARNED
from tolerant.polling.model.rescale import rescale
from tolerant.polling.poller_arrays import Integers

_OF_QUERIES = ("spacing", "reach", "always", "cost", "server")
"""Fields of an item that follow from the new queries and options, not from its past."""
_OF_FEEDBACK = ("safety", "gamma", "before", "good", "ticks", "missed", "feared", "recent", "since")
"""Fields of a query that were learned."""


def carry_over(old: Arrangement, new: Arrangement) -> None:
    """Write what `old` knows into `new`; items and queries that are only in one of them are left as they are."""
    names = [name for name in new.index if name in old.index]
    source, target = (np.array([index[name] for name in names], np.int64) for index in (old.index, new.index))
    for field in new.items.dtype.names or ():
        if field not in _OF_QUERIES:
            new.items[field][target] = old.items[field][source]
    for before, after in zip(old.chains, new.chains, strict=True):
        if after.size:
            after[target] = before[source]
    rescale(new.items, new.chains, old.items["spacing"][source], target)
    for before, after in zip(old.window[:-1], new.window[:-1], strict=True):
        if after.size and before.size:
            after[target] = before[source]
    _carry_correlations(old, new, source, target)
    _carry_queries(old, new)
    _carry_rows(old, new)


def _carry_correlations(old: Arrangement, new: Arrangement, source: Integers, target: Integers) -> None:
    before, after = old.correlations, new.correlations
    if after.points.size and before.points.size:
        after.points[:, target], after.stamps[:, target] = before.points[:, source], before.stamps[:, source]
        after.covariance[np.ix_(target, target)] = before.covariance[np.ix_(source, source)]
        after.correlation[np.ix_(target, target)] = before.correlation[np.ix_(source, source)]
        after.changes[:] = before.changes


def _carry_queries(old: Arrangement, new: Arrangement) -> None:
    if len(old.table):
        new.table["haste"] = old.table["haste"][0]  # the same for all, new ones too
    excused = old.window.excused.size and new.window.excused.size  # by query, as nothing else of a window is
    for name, place in new.places.items():
        if name in old.places:
            for field in _OF_FEEDBACK:
                new.table[field][place] = old.table[field][old.places[name]]
            if excused:
                new.window.excused[place] = old.window.excused[old.places[name]]


def _row_names(arrangement: Arrangement) -> list[tuple[str, int]]:
    """Return query and place in it of each row; a linear query has one row."""
    table, starts = arrangement.table, arrangement.rows.table["start"]
    owner = np.searchsorted(table["start"], starts, side="right") - 1
    queries = list(arrangement.queries)
    return [
        (queries[q], int(start - table["start"][q])) for q, start in zip(owner.tolist(), starts.tolist(), strict=True)
    ]


def _carry_rows(old: Arrangement, new: Arrangement) -> None:
    known = {name: k for k, name in enumerate(_row_names(old))}
    for k, name in enumerate(_row_names(new)):
        if name in known:
            for field in LEARNED:
                new.rows.table[field][k] = old.rows.table[field][known[name]]
