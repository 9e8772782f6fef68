"""The choosers of [GPR05]: which items to pull when a query is predicted to exceed its bound
(`docs/design/polling.md` §2.7).

All mark items in `marked` and set their `changes` to 0: an item that is pulled contributes nothing any more. A query is
*over* when its predicted incoherency exceeds safety·bound.
"""

from __future__ import annotations

from tolerant.kernels.compiled import compiled_no_refcount
from tolerant.polling.choice.incoherency import extreme, incoherency
from tolerant.polling.choice.lanes import Lanes, group_over
from tolerant.polling.poller_arrays import Flags, Floats, Integers, Links, Record, Records, Workspace


@compiled_no_refcount
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


@compiled_no_refcount
def choose_per_item(queries: Records, links: Links, changes: Floats, marked: Flags) -> None:
    """Mark every item that has exceeded its own share of a query."""
    for q in range(len(queries)):
        query = queries[q]
        factor = query.safety * (1.0 + 1e-9)
        for k in range(query.start, query.stop):
            i = links.items[k]
            if abs(changes[i]) > factor * links.shares[k]:
                marked[i] = True
                changes[i] = 0.0


@compiled_no_refcount
def choose_positive_negative(queries: Records, links: Links, workspace: Workspace) -> None:
    """For each query that is over, mark the largest contribution that does not change its sign, until it is within."""
    values, changes = workspace.values, workspace.changes
    for q in range(len(queries)):
        query = queries[q]
        off = incoherency(query, links, values, changes)
        while abs(off) > query.safety * query.bound:
            if query.kind != 0:
                workspace.scores[:] = 0.0
                _score_ordered(query, links, values, changes, workspace.scores)
                _mark_best(workspace, 1.0)
            else:
                _mark_towards(query, links, changes, off, workspace.marked)
            off = incoherency(query, links, values, changes)


@compiled_no_refcount
def _mark_towards(query: Record, links: Links, changes: Floats, off: float, marked: Flags) -> None:
    """Mark the largest contribution below the incoherency `off`; without one, all of its sign (figure 3 of [GPR05])."""
    sign = 1.0 if off > 0.0 else -1.0
    best, largest = 0.0, -1
    for k in range(query.start, query.stop):
        part = sign * links.weights[k] * changes[links.items[k]]
        if best < part < abs(off):
            best, largest = part, links.items[k]
    for k in range(query.start, query.stop):
        i = links.items[k]
        if i == largest or (largest < 0 and sign * links.weights[k] * changes[i] > 0.0):
            marked[i] = True
            changes[i] = 0.0


@compiled_no_refcount
def _score_ordered(query: Record, links: Links, values: Floats, changes: Floats, scores: Floats) -> None:
    """Add each item's effect on a min or max to its score; where none has any, the size of its change."""
    unmoved = extreme(query, links, values, changes, -2)
    any_effect = False
    for k in range(query.start, query.stop):
        i = links.items[k]
        if changes[i] != 0.0:
            effect = abs(extreme(query, links, values, changes, i) - unmoved)
            scores[i] += effect
            any_effect = any_effect or effect > 0.0
    if not any_effect:
        for k in range(query.start, query.stop):
            scores[links.items[k]] += abs(changes[links.items[k]])


@compiled_no_refcount
def any_over(queries: Records, links: Links, lanes: Lanes, workspace: Workspace, hint: Integers) -> bool:
    """Return whether some query is over, among those of `lanes` and every min and max."""
    if group_over(lanes, workspace.changes, hint) >= 0:
        return True
    for k in range(len(links.ordered)):
        query = queries[links.ordered[k]]
        if abs(incoherency(query, links, workspace.values, workspace.changes)) > query.safety * query.bound:
            return True
    return False


@compiled_no_refcount
def choose_max(
    queries: Records, links: Links, lanes: Lanes, workspace: Workspace, ratio: float, hint: Integers
) -> bool:
    """If any query is over, mark the items whose score is at least `ratio` of the best one (12); return whether."""
    if not any_over(queries, links, lanes, workspace, hint):
        return False
    for i in range(len(workspace.scores)):
        workspace.scores[i] = abs(workspace.changes[i]) * workspace.reach[i]
    for k in range(len(links.ordered)):
        _score_ordered(queries[links.ordered[k]], links, workspace.values, workspace.changes, workspace.scores)
    _mark_best(workspace, ratio)
    return True


@compiled_no_refcount
def choose_max_of_over(queries: Records, links: Links, workspace: Workspace, ratio: float) -> None:
    """Mark by equation 12 with the sum over the queries that are over, instead of all."""
    values, changes, scores = workspace.values, workspace.changes, workspace.scores
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
    _mark_best(workspace, ratio)


@compiled_no_refcount
def _mark_best(workspace: Workspace, ratio: float) -> None:
    scores, best = workspace.scores, 0.0
    for i in range(len(scores)):
        best = max(best, scores[i])
    for i in range(len(scores)):
        if scores[i] > 0.0 and scores[i] >= ratio * best:
            workspace.marked[i] = True
            workspace.changes[i] = 0.0
