"""The believed width of a filter: an upper bound of the width at the source (`docs/design/pipeline.md` §4).

The believed width is the largest of the confirmed grant and all later ones: growth counts as soon as it is decided, a
tightening when the source has confirmed it. After a row with a version that is in no slot, the width is unknown
(infinite).

An item keeps its grants in a few slots. When they are full, the two oldest become one slot that covers both versions
with the wider of the two widths: possibly wider than necessary, never narrower.
"""

from __future__ import annotations

import numpy as np

from tolerant.filters.state import SLOTS, Flags, Floats, Integers, ItemArrays
from tolerant.kernels.compiled import compiled, compiled_no_refcount


@compiled_no_refcount
def slot_width(items: ItemArrays, item: int, slot: int, passed: int, powers: Floats) -> float:
    """The width of a slot after `passed` periods in all; `powers` is the table of `kernels.decay.powers`."""
    width = items.slot_width[item, slot]
    if not items.slot_shrinks[item, slot] or np.isinf(width):
        return width
    steps = max(passed - items.slot_since[item, slot], 0)
    return width * powers[min(steps, len(powers) - 1)]


@compiled_no_refcount
def believed(items: ItemArrays, item: int, passed: int, powers: Floats) -> float:
    """The largest width that the filter of an item may have at its source; infinite where unknown."""
    if not (items.known[item] and items.seen[item]):
        return np.inf
    widest, shrunk = 0.0, min(passed, items.alive_periods[item])  # a dead source stops shrinking
    for slot in range(items.grant_count[item]):
        widest = max(widest, slot_width(items, item, slot, shrunk, powers))
    return widest


@compiled_no_refcount
def granted(items: ItemArrays, item: int, passed: int, powers: Floats) -> float:
    """The width of the newest grant; infinite without one."""
    count = items.grant_count[item]
    return slot_width(items, item, count - 1, passed, powers) if count > 0 else np.inf


@compiled_no_refcount
def confirm(items: ItemArrays, item: int, version: int) -> bool:
    """Confirm the version that a row of the item carried, and drop older grants; False if no slot has this version."""
    for slot in range(items.grant_count[item]):
        if items.slot_low[item, slot] <= version <= items.slot_high[item, slot]:
            items.slot_low[item, slot] = version
            _drop(items, item, slot)
            items.known[item] = True
            return True
    items.known[item] = False
    return False


@compiled_no_refcount
def issue(
    items: ItemArrays, item: int, version: int, width: float, shrinks: bool, since: int, passed: int, powers: Floats
) -> None:
    """Store a grant whose version is newer than all stored ones."""
    if items.grant_count[item] == SLOTS:
        _merge_oldest(items, item, passed, powers)
    slot = items.grant_count[item]
    items.slot_low[item, slot] = version
    items.slot_high[item, slot] = version
    items.slot_width[item, slot] = width
    items.slot_shrinks[item, slot] = shrinks
    items.slot_since[item, slot] = since
    items.grant_count[item] = slot + 1


@compiled
def issue_many(  # noqa: PLR0913
    which: Integers,
    widths: Floats,
    shrinks: Flags,
    first: int,
    since: int,
    begun: int,
    passed: int,
    powers: Floats,
    items: ItemArrays,
) -> tuple[Integers, Flags]:
    """Issue a grant to each of these items, numbered from `first`; returns the versions, and which grants are narrower
    than the believed width.
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


@compiled_no_refcount
def _drop(items: ItemArrays, item: int, count: int) -> None:
    if count == 0:
        return
    for slot in range(items.grant_count[item] - count):
        _move(items, item, slot + count, slot)
    items.grant_count[item] -= count


@compiled_no_refcount
def _merge_oldest(items: ItemArrays, item: int, passed: int, powers: Floats) -> None:
    wider = max(slot_width(items, item, 0, passed, powers), slot_width(items, item, 1, passed, powers))
    items.slot_low[item, 1] = items.slot_low[item, 0]
    items.slot_width[item, 1] = wider
    items.slot_shrinks[item, 1] = items.slot_shrinks[item, 0] and items.slot_shrinks[item, 1]
    # Starts when the later one does, so that the merged width is never below either of them.
    items.slot_since[item, 1] = max(passed, items.slot_since[item, 0], items.slot_since[item, 1])
    _drop(items, item, 1)


@compiled_no_refcount
def _move(items: ItemArrays, item: int, source: int, target: int) -> None:
    items.slot_low[item, target] = items.slot_low[item, source]
    items.slot_high[item, target] = items.slot_high[item, source]
    items.slot_width[item, target] = items.slot_width[item, source]
    items.slot_shrinks[item, target] = items.slot_shrinks[item, source]
    items.slot_since[item, target] = items.slot_since[item, source]


@compiled_no_refcount
def refresh_widths(items: ItemArrays, count: int, passed: int, powers: Floats) -> None:
    """Recompute `width` of the first `count` items."""
    for item in range(count):
        items.width[item] = believed(items, item, passed, powers)


@compiled
def granted_many(items: ItemArrays, count: int, passed: int, powers: Floats) -> Floats:
    """`granted` of the first `count` items."""
    out = np.empty(count)
    for item in range(count):
        out[item] = granted(items, item, passed, powers)
    return out


@compiled
def unconfirmed(items: ItemArrays, count: int, passed: int, powers: Floats) -> Integers:
    """The items among the first `count` that owe a confirmation.

    Their newest grant is narrower than the believed width, or the width is unknown; or they have been probed; or no row
    of theirs has come, at all or since their source's restart: its hello may have been lost, and a source sends nothing
    unprompted about an item without a filter.
    """
    owing = np.empty(count, np.int64)
    n = 0
    for item in range(count):
        if items.grant_count[item] == 0:
            continue
        narrower = granted(items, item, passed, powers) < believed(items, item, passed, powers)
        if narrower or items.probed[item] or items.stale[item] or not items.seen[item]:
            owing[n] = item
            n += 1
    return owing[:n]
