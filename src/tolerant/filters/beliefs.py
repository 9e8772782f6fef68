"""What the pipeline may believe about a filter's width (`specs/0-pipeline.md` §4).

The believed width is the largest that any grant gives from the confirmed version on: so growth is believed when it
is decided, a tightening when the source has confirmed it. A version that is not held makes the width unknown
(infinite).

An item holds its grants in a few slots. When they are full, the two oldest become one slot that covers both versions
with the wider of the two widths: wider than need be, never narrower.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import SLOTS, Flags, Floats, Integers, Items
from tolerant.kernels.compiled import borrowing, compiled


@borrowing
def slot_width(items: Items, item: int, slot: int, passed: int, powers: Floats) -> float:
    """The width that one slot gives after `passed` boundaries in all; `powers` as `kernels.decay.powers` makes them."""
    width = items.slot_width[item, slot]
    if not items.slot_shrinks[item, slot] or np.isinf(width):
        return width
    steps = max(passed - items.slot_since[item, slot], 0)
    return width * powers[min(steps, len(powers) - 1)]


@borrowing
def believed(items: Items, item: int, passed: int, powers: Floats) -> float:
    """The width that must be counted for an item."""
    if not (items.known[item] and items.seen[item]):
        return np.inf
    widest, shrunk = 0.0, min(passed, items.lived_passed[item])  # a source that has died shrinks nothing
    for slot in range(items.held[item]):
        widest = max(widest, slot_width(items, item, slot, shrunk, powers))
    return widest


@borrowing
def granted(items: Items, item: int, passed: int, powers: Floats) -> float:
    """The width of the newest grant; infinite where there is none."""
    held = items.held[item]
    return slot_width(items, item, held - 1, passed, powers) if held > 0 else np.inf


@borrowing
def confirm(items: Items, item: int, version: int) -> bool:
    """A row of the item carried this version: forget the older ones. True if the version is one that is held."""
    held = items.held[item]
    for slot in range(held):
        if items.slot_low[item, slot] <= version <= items.slot_high[item, slot]:
            items.slot_low[item, slot] = version
            _drop(items, item, slot)
            items.known[item] = True
            return True
    items.known[item] = False
    return False


@borrowing
def issue(
    items: Items, item: int, version: int, width: float, shrinks: bool, since: int, passed: int, powers: Floats
) -> None:
    """Hold a new grant, of a version newer than all held."""
    if items.held[item] == SLOTS:
        _merge_oldest(items, item, passed, powers)
    slot = items.held[item]
    items.slot_low[item, slot] = version
    items.slot_high[item, slot] = version
    items.slot_width[item, slot] = width
    items.slot_shrinks[item, slot] = shrinks
    items.slot_since[item, slot] = since
    items.held[item] = slot + 1


@compiled
def issue_many(
    which: Integers,
    widths: Floats,
    shrinks: Flags,
    first: int,
    since: int,
    begun: int,
    passed: int,
    powers: Floats,
    items: Items,
) -> tuple[Integers, Flags]:
    """Issue a grant to each of these items, numbered from `first` on; their versions, and which are narrower than
    believed.
    """
    versions = np.empty(len(which), np.int64)
    narrower = np.empty(len(which), np.bool_)
    for position in range(len(which)):
        item = which[position]
        narrower[position] = widths[position] < believed(items, item, passed, powers)
        items.granted_at[item] = since
        versions[position] = first + position
        issue(items, item, versions[position], widths[position], shrinks[position], begun, passed, powers)
    return versions, narrower


@borrowing
def _drop(items: Items, item: int, count: int) -> None:
    if count == 0:
        return
    for slot in range(items.held[item] - count):
        _move(items, item, slot + count, slot)
    items.held[item] -= count


@borrowing
def _merge_oldest(items: Items, item: int, passed: int, powers: Floats) -> None:
    wider = max(slot_width(items, item, 0, passed, powers), slot_width(items, item, 1, passed, powers))
    items.slot_low[item, 1] = items.slot_low[item, 0]
    items.slot_width[item, 1] = wider
    items.slot_shrinks[item, 1] = items.slot_shrinks[item, 0] and items.slot_shrinks[item, 1]
    # Not earlier than either began, so that the merged width is at no time below one of them.
    items.slot_since[item, 1] = max(passed, items.slot_since[item, 0], items.slot_since[item, 1])
    _drop(items, item, 1)


@borrowing
def _move(items: Items, item: int, source: int, target: int) -> None:
    items.slot_low[item, target] = items.slot_low[item, source]
    items.slot_high[item, target] = items.slot_high[item, source]
    items.slot_width[item, target] = items.slot_width[item, source]
    items.slot_shrinks[item, target] = items.slot_shrinks[item, source]
    items.slot_since[item, target] = items.slot_since[item, source]


@borrowing
def refresh_widths(items: Items, count: int, passed: int, powers: Floats) -> None:
    """Bring `width` of the first `count` items up to date."""
    for item in range(count):
        items.width[item] = believed(items, item, passed, powers)


@compiled
def granted_many(items: Items, count: int, passed: int, powers: Floats) -> Floats:
    """`granted` of the first `count` items."""
    out = np.empty(count)
    for item in range(count):
        out[item] = granted(items, item, passed, powers)
    return out


@compiled
def unconfirmed(items: Items, count: int, passed: int, powers: Floats) -> Integers:
    """The items among the first `count` that hold a grant narrower than what is believed, or whose width is unknown, or
    that have been asked, or of which nothing has been heard at all, or not since their source started again: its hello
    may have been lost, and one that no filter bounds says nothing by itself.
    """
    found = np.empty(count, np.int64)
    n = 0
    for item in range(count):
        if items.held[item] == 0:
            continue
        narrower = granted(items, item, passed, powers) < believed(items, item, passed, powers)
        if narrower or items.asked[item] or items.stale[item] or not items.seen[item]:
            found[n] = item
            n += 1
    return found[:n]
