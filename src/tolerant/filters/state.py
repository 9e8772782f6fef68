"""The coordinator's arrays: one entry an item, one entry a query, and the links between them.

Named tuples of arrays, so that compiled code takes them whole and a snapshot is the arrays and nothing else.
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
"""How many grants of an item are told apart; when there are more the two oldest are held as one (see `beliefs`)."""

CURVES = 36
"""Bytes of an item's two rate curves."""

SUM, AVG, MIN, MAX, COUNT = range(5)
CODES = {"sum": SUM, "avg": AVG, "min": MIN, "max": MAX, "count": COUNT}
"""The code of each aggregate function in compiled code."""

STALE, SETTLING, NOTHING = 1, 2, 4
"""Bits of an answer's flags; NOTHING: there is nothing to aggregate."""


class Items(NamedTuple):
    """What is known of each item. Slots hold grants, oldest first: versions low…high give at most `slot_width`, from
    `slot_since`.
    """

    seen: Flags  # has a value
    level: Floats  # its centre is level + slope · (tick − since)
    slope: Floats  # a tick
    since: Integers  # the tick of the row that said so
    width: Floats  # believed now; infinite where unknown
    lived: Integers  # the tick up to which its source is known to have lived
    lived_passed: Integers  # the boundaries up to then
    sequence: Integers  # of the newest row applied
    known: Flags  # the newest row carried a version that is held
    doubt: Integers  # the sequence of a row that could not be used: only later ones confirm a width
    stale: Flags
    epoch: Integers  # of its source's newest start: a row of it makes the item fresh again
    updates: Integers  # since the last boundary
    total: Integers  # since birth
    pace: Floats  # updates a period, smoothed
    granted_at: Integers  # when the newest grant begins
    cost: Floats
    pad: Floats  # how much wider its bound is than its filter, for what may be under way
    curves: Bytes  # the two rate curves that its newest report gave, as `curves` codes them
    unit: Floats  # the width that they are relative to; 0: no report yet
    age: Integers  # ticks that they cover
    reported: Integers  # the tick of the report
    widened: Integers  # the tick of the last growth, and of the last tightening
    narrowed: Integers
    pending: Floats  # the width that it is to grow to when there is room; 0: none
    far: Codes  # 1: it may be anything above `leave` unheard until its next row, −1: below; 0: its filter is all
    leave: Floats
    leave_version: Integers  # of the grant that gives the leave: a row under it, or a later one, ends it
    asked: Flags  # for a row that ends the leave
    least: Floats  # where it is while on leave, as it has told itself; infinite: it has not
    most: Floats
    compound: Flags  # a sum that stands for other items: an average does not count it
    held: Codes
    slot_low: Integers
    slot_high: Integers
    slot_width: Floats
    slot_shrinks: Flags
    slot_since: Integers  # boundaries that had passed when it began


class Queries(NamedTuple):
    """What is known of each query, and the answer last given. A sum is kept in two floats (value and what it lost)."""

    fn: Codes
    within: Floats
    members: Integers  # of a count: those that have a value
    total: Floats  # Σ K·centre
    total_lost: Floats
    spread: Floats  # Σ |K|·width over finite widths
    spread_lost: Floats
    drift: Floats  # Σ K·slope: what a tick adds to the total
    moving: Integers  # members with a slope
    unknown: Integers  # members whose width is not known
    stale: Integers  # stale members
    low: Floats  # of a min or max
    high: Floats
    dirty: Flags  # total, spread, low and high have to be made anew
    touched: Flags  # changed since the last answer
    said_low: Floats
    said_value: Floats
    said_high: Floats
    said_flags: Codes  # −1: nothing said yet


class Links(NamedTuple):
    """Which items are in which query, with which weight: compressed rows by query and by item."""

    query_start: Integers
    query_items: Integers
    query_weights: Floats
    item_start: Integers
    item_queries: Integers
    item_weights: Floats


class Decided(NamedTuple):
    """Grants as decided: for which item, how wide, whether it shrinks, from when, its version, whether to confirm it,
    and the unit of the item's ladder; far and leave as in `Items`.
    """

    item: Integers
    width: Floats
    shrinks: Flags
    since: Integers
    version: Integers
    confirm: Flags
    unit: Floats
    far: Codes
    leave: Floats


class Said(NamedTuple):
    """Answers in the order in which they were given."""

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
"""Of a source that cannot die."""

_INITIAL: dict[str, float] = {
    "width": np.inf, "lived": ALWAYS, "lived_passed": ALWAYS, "cost": 1.0, "least": -np.inf, "most": np.inf,
    "said_flags": -1,
}  # fmt: skip

Arrays = TypeVar("Arrays", Items, Queries)


def blank(kind: type[Arrays], size: int) -> Arrays:
    """Arrays for `size` items or queries, as they are at birth."""
    arrays: list[NDArray[Any]] = []
    for name, annotation in kind.__annotations__.items():
        word = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        columns = SLOTS if name.startswith("slot_") else CURVES if name == "curves" else 0
        arrays.append(np.full((size, columns) if columns else size, _INITIAL.get(name, 0), _TYPES[word]))
    return kind(*arrays)


def grown(arrays: Arrays, size: int) -> Arrays:
    """The same arrays with room for `size` entries."""
    fresh = blank(type(arrays), size)
    pairs: Iterable[tuple[Any, Any]] = zip(arrays, fresh, strict=True)
    for old, new in pairs:
        new[: len(old)] = old
    return fresh


def reset(arrays: Arrays, index: int) -> None:
    """Make one entry what it is at birth."""
    named: Iterable[tuple[str, Any]] = zip(arrays._fields, arrays, strict=True)
    for name, array in named:
        array[index] = _INITIAL.get(name, 0)


def links_of(members: list[tuple[Integers, Floats]], items: int) -> Links:
    """Links for queries given as (item indices, weights), over `items` items."""
    sizes = np.array([len(indices) for indices, _ in members], np.int64)
    query_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    query_items = np.concatenate([np.zeros(0, np.int64), *(indices for indices, _ in members)])
    query_weights = np.concatenate([np.zeros(0), *(weights for _, weights in members)])
    order = np.argsort(query_items, kind="stable")
    owner = np.repeat(np.arange(len(members), dtype=np.int64), sizes)
    degree = np.bincount(query_items, minlength=items)
    item_start = np.concatenate([np.zeros(1, np.int64), np.cumsum(degree)])
    return Links(query_start, query_items, query_weights, item_start, owner[order], query_weights[order])
