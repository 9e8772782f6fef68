"""Batches of changes of one relation: joined, and in the order in which they apply (`docs/design/pipeline.md` §3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tolerant.relations.row_changes import Changes, empty_columns
from tolerant.streams import Column


def no_changes(columns: tuple[Column, ...]) -> Changes:
    """Return an empty batch of changes."""
    none = np.zeros(0, np.int64)
    return Changes(
        none.astype(np.bool_), np.empty(0, object), none, none.astype(np.int32), (), none, empty_columns(columns)
    )


def joined(batches: Sequence[Changes]) -> Changes:
    """Concatenate changes of one relation."""
    batches = [batch for batch in batches if len(batch)] or list(batches[:1])
    if len(batches) == 1:
        return batches[0]
    names = tuple(dict.fromkeys(name for batch in batches for name in batch.sources))
    place = {name: index for index, name in enumerate(names)}
    sources = [np.array([place[name] for name in batch.sources], np.int32)[batch.source] for batch in batches]
    return Changes(
        np.concatenate([batch.insert for batch in batches]),
        np.concatenate([batch.keys for batch in batches]),
        np.concatenate([batch.at for batch in batches]),
        np.concatenate(sources),
        names,
        np.concatenate([batch.sequence for batch in batches]),
        {name: np.concatenate([batch.columns[name] for batch in batches]) for name in batches[0].columns},
    )


def in_order(changes: Changes) -> Changes:
    """Return the changes in the order (at, key, sequence) in which they apply."""
    if not len(changes):
        return changes
    _, rank = np.unique(changes.keys, return_inverse=True)
    return changes.take(np.lexsort((changes.sequence, rank, changes.at)))
