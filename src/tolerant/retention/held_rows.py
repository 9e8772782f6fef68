"""Stores held rows in arrays: rows of one stream and one value form a group, oldest first.

Rows of a group have the same score, or the older one the lower, so that only the oldest row of a group can be the next
to be discarded. Each stream k (0: r, 1: s) has a hash table of groups, and trees that yield the next one to discard.

Three arrays hold everything, because compiled code counts references and copies descriptors of each array at each
call: `small` (int32: links), `wide` (int64: marks, values, ticks), `real` (float64: scores). Their sections:

    small  for each stream: tail[slots] count[slots, if kept] table[mask + 1] trees[trees][2 · slots];
           next[room], then, if they are kept: owner[room] older[room] newer[room] before[room]
    wide   marks (below); for each stream: value[slots]; arrival[room] id[room, if kept] until[2][2 · slots, if kept]
    real   for each stream: key[slots, if kept]; for each stream: numbers[numbers]

tail: the newest row of a group, whose `next` is the oldest; −2 − (the next free slot) of a free slot. owner: slot · 2 +
stream of a row; −1: free. older, newer: the list by arrival. before: `next` backwards. key: the score, where rows carry
scores. numbers: growth of the score with the remaining life; or slope, offset and bound of a trend.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tolerant.kernels.compiled import inlined_no_refcount
from tolerant.kernels.random import mixed
from tolerant.retention.value_arrays import Floats, Integers, i64

Small: TypeAlias = NDArray[np.int32]

FRESH, FREE, GROUPS, ROWS, DEAD_BELOW, SIGN, FIRST_ORDER, SECOND_ORDER = range(8)
"""Marks of a stream, at 8·k: slots ever used, first slot to use again (−1: none), number of groups and of rows, see
`scorer.dead_below`, the sign of the trend (0: there is none), and how its two trees compare.
"""
STREAM = 8

ROW_FRESH, ROW_FREE, LIVE, OLDEST, NEWEST = range(16, 21)
"""Marks of the rows: as above, the number of rows held, and the ends of the list by arrival."""

SLOTS, MASK, SPAN, LISTS, ROOM, KEYED, TREES, NUMBERS, IDS, SHRINKS, TABLE = range(24, 35)
"""The layout. SPAN: the part of `small` of one stream, in which the hash table begins at TABLE. LISTS: 0, 3 (owner,
older, newer) or 4 (and before). Counts are kept where ids are not.
"""
HEADER = 40


class HeldRows(NamedTuple):
    """The three arrays."""

    small: Small
    wide: Integers
    real: Floats


@inlined_no_refcount
def find(small: Small, wide: Integers, k: int, value: int) -> int:
    """Return the slot of a value's group; −1 if there is none."""
    mask = wide[MASK]
    table = k * wide[SPAN] + wide[TABLE]
    values = HEADER + k * wide[SLOTS]
    place = i64(mixed(np.uint64(value))) & mask
    while True:
        slot = i64(small[table + place])
        if slot < 0 or wide[values + slot] == value:
            return slot
        place = (place + 1) & mask


@inlined_no_refcount
def add_group(small: Small, wide: Integers, k: int, value: int) -> int:
    """Return a slot for a value that has no group yet."""
    marks, base, slots, mask = STREAM * k, k * wide[SPAN], wide[SLOTS], wide[MASK]
    slot = wide[marks + FREE]
    if slot >= 0:
        wide[marks + FREE] = -2 - i64(small[base + slot])
    else:
        slot = wide[marks + FRESH]
        wide[marks + FRESH] += 1
    wide[HEADER + k * slots + slot] = value
    small[base + slot] = -1
    if not wide[IDS]:
        small[base + slots + slot] = 0
    wide[marks + GROUPS] += 1
    table = base + wide[TABLE]
    place = i64(mixed(np.uint64(value))) & mask
    while small[table + place] >= 0:
        place = (place + 1) & mask
    small[table + place] = slot
    return slot


@inlined_no_refcount
def remove_group(small: Small, wide: Integers, k: int, slot: int) -> None:
    """Free the slot of an empty group; entries displaced by it in the hash table move up."""
    marks, base, slots, mask = STREAM * k, k * wide[SPAN], wide[SLOTS], wide[MASK]
    values, table = HEADER + k * slots, base + wide[TABLE]
    gap = i64(mixed(np.uint64(wide[values + slot]))) & mask
    while small[table + gap] != slot:
        gap = (gap + 1) & mask
    other = (gap + 1) & mask
    while small[table + other] >= 0:
        home = i64(mixed(np.uint64(wide[values + small[table + other]]))) & mask
        if ((other - home) & mask) >= ((other - gap) & mask):
            small[table + gap] = small[table + other]
            gap = other
        other = (other + 1) & mask
    small[table + gap] = -1
    small[base + slot] = -2 - wide[marks + FREE]
    wide[marks + FREE] = slot
    wide[marks + GROUPS] -= 1


@inlined_no_refcount
def oldest(small: Small, wide: Integers, k: int, slot: int) -> int:
    """Return the oldest row of a group."""
    return i64(small[2 * wide[SPAN] + small[k * wide[SPAN] + slot]])


@inlined_no_refcount
def arrival_of(wide: Integers, row: int) -> int:
    """Return the tick at which a row arrived (of a cache: was last referenced)."""
    return wide[HEADER + 2 * wide[SLOTS] + row]


@inlined_no_refcount
def put_row(small: Small, wide: Integers, k: int, slot: int, arrival: int, identity: int) -> None:
    """Add a row as the newest of its group."""
    base, slots, room, lists = k * wide[SPAN], wide[SLOTS], wide[ROOM], wide[LISTS]
    following = 2 * wide[SPAN]
    row = wide[ROW_FREE]
    if row >= 0:
        wide[ROW_FREE] = small[following + row]
    else:
        row = wide[ROW_FRESH]
        wide[ROW_FRESH] += 1
    wide[HEADER + 2 * slots + row] = arrival
    if wide[IDS]:
        wide[HEADER + 2 * slots + room + row] = identity
    else:
        small[base + slots + slot] += 1
    tail = i64(small[base + slot])
    if tail < 0:
        tail = row
    else:
        small[following + row] = small[following + tail]
    small[following + tail] = row
    if lists:
        owner, older, newer = following + room, following + 2 * room, following + 3 * room
        small[owner + row] = 2 * slot + k
        newest = wide[NEWEST]
        small[older + row], small[newer + row] = newest, -1
        if newest >= 0:
            small[newer + newest] = row
        else:
            wide[OLDEST] = row
        wide[NEWEST] = row
        if lists > 3:
            before = following + 4 * room
            small[before + small[following + row]] = row
            small[before + row] = tail
    small[base + slot] = row
    wide[LIVE] += 1
    wide[STREAM * k + ROWS] += 1


@inlined_no_refcount
def take_row(small: Small, wide: Integers, k: int, slot: int, row: int) -> None:
    """Remove a row from its group: the oldest, or any if `before` is kept. An empty group's tail becomes −1."""
    base, room, lists = k * wide[SPAN], wide[ROOM], wide[LISTS]
    following = 2 * wide[SPAN]
    tail = i64(small[base + slot])
    if small[following + row] == row:
        small[base + slot] = -1
    else:
        before = i64(small[following + 4 * room + row]) if lists > 3 else tail
        small[following + before] = small[following + row]
        if lists > 3:
            small[following + 4 * room + small[following + row]] = before
        if tail == row:
            small[base + slot] = before
    if lists:
        owner, older, newer = following + room, following + 2 * room, following + 3 * room
        elder, younger = i64(small[older + row]), i64(small[newer + row])
        if elder >= 0:
            small[newer + elder] = younger
        else:
            wide[OLDEST] = younger
        if younger >= 0:
            small[older + younger] = elder
        else:
            wide[NEWEST] = elder
        small[owner + row] = -1
    small[following + row] = wide[ROW_FREE]
    wide[ROW_FREE] = row
    if not wide[IDS]:
        small[base + wide[SLOTS] + slot] -= 1
    wide[LIVE] -= 1
    wide[STREAM * k + ROWS] -= 1
