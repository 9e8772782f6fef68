"""The seed's choosers: which items to ask for when a query is thought to be off (`specs/2-polling.md` §2.7).

All mark items in `marked` and set their `changes` to 0: an item that is asked for contributes nothing any more.
"""

from __future__ import annotations

from tolerant.kernels.compiled import borrowing
from tolerant.polling.arrays import Flags, Floats, Integers, Links, Record, Records, Room
from tolerant.polling.incoherency import extreme, incoherency
from tolerant.polling.lanes import Lanes, group_over


@borrowing
def choose_all(queries: Records, links: Links, values: Floats, changes: Floats, marked: Flags) -> None:
    """Mark every item of each query that is over."""
    items = links.items
    for q in range(len(queries)):
        query = queries[q]
        off = incoherency(query, links, values, changes)
        if abs(off) > query.safety * query.bound:
            for k in range(query.start, query.stop):
                marked[items[k]] = True
                changes[items[k]] = 0.0


@borrowing
def choose_per_item(queries: Records, links: Links, changes: Floats, marked: Flags) -> None:
    """Mark every item that has used up its own share of a query."""
    for q in range(len(queries)):
        query = queries[q]
        factor = query.safety * (1.0 + 1e-9)
        for k in range(query.start, query.stop):
            i = links.items[k]
            if abs(changes[i]) > factor * links.shares[k]:
                marked[i] = True
                changes[i] = 0.0


@borrowing
def choose_positive_negative(queries: Records, links: Links, room: Room) -> None:
    """For each query that is over, mark the largest contribution that does not turn it round, until it is within."""
    values, changes = room.values, room.changes
    for q in range(len(queries)):
        query = queries[q]
        off = incoherency(query, links, values, changes)
        while abs(off) > query.safety * query.bound:
            if query.kind != 0:
                room.scores[:] = 0.0
                _score_ordered(query, links, values, changes, room.scores)
                _mark_best(room, 1.0)
            else:
                _mark_towards(query, links, changes, off, room.marked)
            off = incoherency(query, links, values, changes)


@borrowing
def _mark_towards(query: Record, links: Links, changes: Floats, off: float, marked: Flags) -> None:
    """Figure 3: the largest contribution below what the query is off; without one, all of that sign."""
    sign = 1.0 if off > 0.0 else -1.0
    best, found = 0.0, -1
    for k in range(query.start, query.stop):
        part = sign * links.weights[k] * changes[links.items[k]]
        if best < part < abs(off):
            best, found = part, links.items[k]
    for k in range(query.start, query.stop):
        i = links.items[k]
        if i == found or (found < 0 and sign * links.weights[k] * changes[i] > 0.0):
            marked[i] = True
            changes[i] = 0.0


@borrowing
def _score_ordered(query: Record, links: Links, values: Floats, changes: Floats, scores: Floats) -> None:
    """Add each item's effect on a min or max to its score; where none has any, the size of its change."""
    held = extreme(query, links, values, changes, -2)
    any_effect = False
    for k in range(query.start, query.stop):
        i = links.items[k]
        if changes[i] != 0.0:
            effect = abs(extreme(query, links, values, changes, i) - held)
            scores[i] += effect
            any_effect = any_effect or effect > 0.0
    if not any_effect:
        for k in range(query.start, query.stop):
            scores[links.items[k]] += abs(changes[links.items[k]])


@borrowing
def any_over(queries: Records, links: Links, lanes: Lanes, room: Room, hint: Integers) -> bool:
    """Whether some query is over; those of `lanes` and every min and max are looked at."""
    if group_over(lanes, room.changes, hint) >= 0:
        return True
    for k in range(len(links.ordered)):
        query = queries[links.ordered[k]]
        if abs(incoherency(query, links, room.values, room.changes)) > query.safety * query.bound:
            return True
    return False


@borrowing
def choose_max(queries: Records, links: Links, lanes: Lanes, room: Room, ratio: float, hint: Integers) -> bool:
    """If any query is over, mark the items whose score is at least `ratio` of the best one (12); whether it was so."""
    if not any_over(queries, links, lanes, room, hint):
        return False
    for i in range(len(room.scores)):
        room.scores[i] = abs(room.changes[i]) * room.reach[i]
    for k in range(len(links.ordered)):
        _score_ordered(queries[links.ordered[k]], links, room.values, room.changes, room.scores)
    _mark_best(room, ratio)
    return True


@borrowing
def choose_max_of_over(queries: Records, links: Links, room: Room, ratio: float) -> None:
    """Equation 12 with the sum over the queries that are over, instead of all."""
    values, changes, scores = room.values, room.changes, room.scores
    scores[:] = 0.0
    for q in range(len(queries)):
        query = queries[q]
        if abs(incoherency(query, links, values, changes)) <= query.safety * query.bound:
            continue
        if query.kind == 1 or query.kind == 2:
            _score_ordered(query, links, values, changes, scores)
            continue
        for k in range(query.start, query.stop):
            scores[links.items[k]] += abs(links.weights[k] * changes[links.items[k]])
    _mark_best(room, ratio)


@borrowing
def _mark_best(room: Room, ratio: float) -> None:
    scores, best = room.scores, 0.0
    for i in range(len(scores)):
        best = max(best, scores[i])
    for i in range(len(scores)):
        if scores[i] > 0.0 and scores[i] >= ratio * best:
            room.marked[i] = True
            room.changes[i] = 0.0
