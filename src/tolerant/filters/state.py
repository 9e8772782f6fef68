"""The coordinator's arrays: one entry per item, one per query, and the links between them.

Named tuples of arrays: compiled code accepts them as a whole, and a snapshot is exactly these arrays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.int8]
Bytes = NDArray[np.uint8]

SLOTS = 4
"""Number of grants stored per item; when there are more, the two oldest are merged (see `beliefs`)."""

CURVES = 36
"""Bytes of an item's two rate curves."""

SUM, AVG, MIN, MAX, COUNT = range(5)
CODES = {"sum": SUM, "avg": AVG, "min": MIN, "max": MAX, "count": COUNT}
"""The code of each aggregate function in compiled code."""

STALE, SETTLING, NOTHING = 1, 2, 4
"""Bits of an answer's flags; NOTHING: the query has no items."""


class ItemArrays(NamedTuple):
    """State of each item. Slots store grants, oldest first: versions low…high give at most `slot_width`, from
    `slot_since` on.
    """

    seen: Flags  # has a value
    level: Floats  # its centre is level + slope · (tick − since)
    slope: Floats  # per tick
    since: Integers  # the tick of the row that set it
    width: Floats  # the believed width now; infinite where unknown
    alive_until: Integers  # the tick up to which its source is known to be alive
    alive_periods: Integers  # the periods ended until then
    sequence: Integers  # of the newest row applied
    known: Flags  # the newest row carried a version that is in a slot
    lost_sequence: Integers  # of a row that could not be used: only later rows confirm a width
    stale: Flags
    epoch: Integers  # of its source's newest start: only its rows make the item fresh
    updates: Integers  # since the period began
    total: Integers  # since the item was added
    pace: Floats  # updates per period, smoothed
    granted_at: Integers  # when the newest grant comes into force
    cost: Floats
    pad: Floats  # how much wider its bound is than its filter, for updates in flight
    curves: Bytes  # the two rate curves of its newest report, as `rate_curves` encodes them
    unit: Floats  # the uniform width that the curves are relative to; 0: no report yet
    age: Integers  # ticks that the curves cover
    reported: Integers  # the tick of the report
    widened: Integers  # the tick of the last growth, and of the last tightening
    narrowed: Integers
    pending: Floats  # the width to grow to when there is room; 0: none
    suppress_side: Codes  # 1: it may stay silent above `suppress_beyond` until its next row, −1: below, 0: no
    suppress_beyond: Floats
    suppress_version: Integers  # of the grant with the suppression: a row under it, or a later one, ends it
    probed: Flags  # asked for a row, which ends the suppression
    reported_low: Floats  # its range while suppressed, by its reported history; infinite: not reported
    reported_high: Floats
    is_sum: Flags  # a sum that replaces other items: an average does not count it
    grant_count: Codes  # slots in use
    slot_low: Integers
    slot_high: Integers
    slot_width: Floats
    slot_shrinks: Flags
    slot_since: Integers  # periods that had ended when it came into force


class QueryArrays(NamedTuple):
    """State of each query, and its last answer. A sum is two floats: the value, and the rounding error it lost."""

    fn: Codes
    within: Floats
    members: Integers  # number of items; of a count: those with a value
    total: Floats  # Σ K·centre
    total_lost: Floats
    spread: Floats  # Σ |K|·width over finite widths
    spread_lost: Floats
    drift: Floats  # Σ K·slope: change of the total per tick
    moving: Integers  # members with a slope
    unknown: Integers  # members whose width is not known
    stale: Integers  # stale members
    low: Floats  # of a min or max
    high: Floats
    dirty: Flags  # total, spread, low and high must be recomputed
    touched: Flags  # changed since the last answer
    emitted_low: Floats
    emitted_value: Floats
    emitted_high: Floats
    emitted_flags: Codes  # −1: no answer emitted yet


class LinkArrays(NamedTuple):
    """Which items are in which query, with which weight: compressed rows by query and by item."""

    query_start: Integers
    query_items: Integers
    query_weights: Floats
    item_start: Integers
    item_queries: Integers
    item_weights: Floats


class IssuedGrants(NamedTuple):
    """Grants to send: item, width, whether it shrinks, time from which it is in force, version, whether to confirm it,
    unit of the item's ladder; suppression as in `ItemArrays`.
    """

    item: Integers
    width: Floats
    shrinks: Flags
    since: Integers
    version: Integers
    confirm: Flags
    unit: Floats
    suppress_side: Codes
    suppress_beyond: Floats


class AnswerBatch(NamedTuple):
    """Answers in the order in which they were emitted, as columns."""

    query: Integers
    at: Integers
    low: Floats
    value: Floats
    high: Floats
    flags: Codes


_TYPES: dict[str, type] = {
    "Floats": np.float64,
    "Integers": np.int64,
    "Flags": np.bool_,
    "Codes": np.int8,
    "Bytes": np.uint8,
}

ALWAYS = 2**62
"""`alive_until` of a source without a lease."""

_INITIAL: dict[str, float] = {
    "width": np.inf, "alive_until": ALWAYS, "alive_periods": ALWAYS, "cost": 1.0,
    "reported_low": -np.inf, "reported_high": np.inf, "emitted_flags": -1,
}  # fmt: skip

Arrays = TypeVar("Arrays", ItemArrays, QueryArrays)


def blank(kind: type[Arrays], size: int) -> Arrays:
    """Arrays for `size` items or queries, with initial values."""
    arrays: list[NDArray[Any]] = []
    for name, annotation in kind.__annotations__.items():
        word = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        columns = SLOTS if name.startswith("slot_") else CURVES if name == "curves" else 0
        arrays.append(np.full((size, columns) if columns else size, _INITIAL.get(name, 0), _TYPES[word]))
    return kind(*arrays)


def grown(arrays: Arrays, size: int) -> Arrays:
    """A copy of the arrays with capacity for `size` entries."""
    fresh = blank(type(arrays), size)
    pairs: Iterable[tuple[Any, Any]] = zip(arrays, fresh, strict=True)
    for old, new in pairs:
        new[: len(old)] = old
    return fresh


def reset(arrays: Arrays, index: int) -> None:
    """Reset one entry to its initial values."""
    named: Iterable[tuple[str, Any]] = zip(arrays._fields, arrays, strict=True)
    for name, array in named:
        array[index] = _INITIAL.get(name, 0)


def links_of(members: list[tuple[Integers, Floats]], items: int) -> LinkArrays:
    """Links for queries given as (item indices, weights), over `items` items."""
    sizes = np.array([len(indices) for indices, _ in members], np.int64)
    query_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    query_items = np.concatenate([np.zeros(0, np.int64), *(indices for indices, _ in members)])
    query_weights = np.concatenate([np.zeros(0), *(weights for _, weights in members)])
    order = np.argsort(query_items, kind="stable")
    owner = np.repeat(np.arange(len(members), dtype=np.int64), sizes)
    degree = np.bincount(query_items, minlength=items)
    item_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(degree)])
    return LinkArrays(query_start, query_items, query_weights, item_start, owner[order], query_weights[order])
