"""A slow and obvious `simulate`: one `Filter` object per item, dictionaries for rows, exact fractions for the audit."""

import math
from fractions import Fraction

import numpy as np

from tolerant.filters.constraints import constraints_of
from tolerant.filters.filter import Filter
from tolerant.filters.targets import solve
from tolerant.kernels.random import bits, key_of


def rows_by_hand(queries):
    """The rows as ({item: coefficient}, β) pairs."""
    rows = []
    for query in queries:
        row = {item: abs(weight) for item, weight in query.weights.items() if weight != 0}
        if query.fn in ("min", "max"):
            rows += [({item: 1.0}, 2 * query.within) for item in row]
        elif query.fn != "count" and row:
            rows.append((row, 2 * query.within * (len(query.weights) if query.fn == "avg" else 1)))
    return rows


def cap(rows, item):
    return min((beta / row[item] for row, beta in rows if item in row), default=math.inf)


def uniform(rows, item):
    return min((beta / sum(row.values()) for row, beta in rows if item in row), default=math.inf)


def adaptable(rows, item):
    return cap(rows, item) > 0 and any(item in row and len(row) > 1 for row, _ in rows)


def target_of_rows(trace, queries, rows, burdens):
    """One row: the formula. Several: the solver under test elsewhere, so that ties come out the same."""
    if len(rows) == 1:
        row = {item: a for item, a in rows[0][0].items() if adaptable(rows, item)}
        return [sum(a * burdens[item] for item, a in row.items()) / sum(a * a for a in row.values()) if row else 0.0]
    place = {item: k for k, item in enumerate(trace.items)}
    terms = [
        (q.fn, np.array([place[i] for i in q.weights], int), np.array(list(q.weights.values())), q.within)
        for q in queries
    ]
    return solve(constraints_of(terms, len(place)), np.array([burdens[item] for item in trace.items]))


def end_period(trace, queries, rows, widths, counts, period, shrink, key):
    """Steps 1 to 5 of a period's end: the widths afterwards and which items are granted."""
    moving = [item for item in trace.items if adaptable(rows, item)]
    burdens = dict.fromkeys(trace.items, 0.0)
    for item in moving:
        burdens[item] = counts[item] / (period * max(widths[item], 1e-9 * cap(rows, item)))
    targets = target_of_rows(trace, queries, rows, burdens)
    deviation = {}
    for item in moving:
        asked = sum(row[item] * target for (row, _), target in zip(rows, targets, strict=True) if item in row)
        deviation[item] = max(burdens[item] - asked, 0.0)
    widths = {item: width * (1 - shrink) if item in moving else width for item, width in widths.items()}
    order = dict(zip(trace.items, bits(key, np.arange(len(trace.items))).tolist(), strict=True))
    tie = 1e-10 * max(deviation.values(), default=0.0)
    granted, left = set(), set(moving)
    while left:
        leader = max(deviation[item] for item in left)
        group = {i for i in left if leader <= tie or (leader - deviation[i] <= tie and deviation[i] > tie)}
        left -= group
        for item in sorted(group, key=order.__getitem__):
            more = min(
                (beta - sum(a * widths[k] for k, a in row.items())) / row[item] for row, beta in rows if item in row
            )
            if more > 1e-9 * cap(rows, item):
                widths[item] += more
                granted.add(item)
    return widths, granted


def breaks_promise(query, values, filters):
    """Whether the truth is outside the answer, or the answer too wide, in exact arithmetic."""
    if any(item not in filters for item in query.weights) or query.fn == "count":
        return False
    used = {item: Fraction(weight) for item, weight in query.weights.items() if weight != 0}
    if not used:
        return False
    low = {i: Fraction(filters[i].centre) - Fraction(filters[i].width) / 2 for i in used}
    high = {i: Fraction(filters[i].centre) + Fraction(filters[i].width) / 2 for i in used}
    if query.fn in ("min", "max"):
        pick = min if query.fn == "min" else max
        truth, bottom, top = (pick(side.values()) for side in ({i: Fraction(values[i]) for i in used}, low, high))
    else:
        n = len(query.weights) if query.fn == "avg" else 1
        truth = sum((k * Fraction(values[i]) for i, k in used.items()), Fraction()) / n
        ends = [(k * low[i], k * high[i]) for i, k in used.items()]
        bottom = sum((min(end) for end in ends), Fraction()) / n
        top = sum((max(end) for end in ends), Fraction()) / n
    slack = Fraction(1e-9) * Fraction(query.within) + Fraction(1e-11) * max(abs(truth), abs(bottom), abs(top))
    return not (bottom - slack <= truth <= top + slack and top - bottom <= 2 * Fraction(query.within) + slack)


def twin(trace, queries, policy, *, period=10, shrink=0.05, seed=0):
    """(updates, grants, violations, widths) of unit costs and no warm-up, by the design §2.5."""
    rows = rows_by_hand(queries)
    widths = {item: uniform(rows, item) for item in trace.items}
    if policy == "exact":
        widths = {item: width if math.isinf(width) else 0.0 for item, width in widths.items()}
    filters, values, counts = {}, {}, dict.fromkeys(trace.items, 0)
    updates = grants = violations = 0
    for tick, readings in enumerate(trace.values.tolist()):
        for item, value in zip(trace.items, readings, strict=True):
            values[item] = values.get(item, math.nan) if math.isnan(value) else value
            if item not in filters and not math.isnan(values[item]):
                filters[item] = Filter(widths[item], values[item], shrink)
            elif item in filters and filters[item].offer(values[item]):
                updates += 1
                counts[item] += 1
        if tick == 0:
            continue
        if policy == "adaptive" and tick % period == 0:
            key = key_of(seed, 0, tick // period)
            widths, granted = end_period(trace, queries, rows, widths, counts, period, shrink, key)
            grants += len(granted)
            counts = dict.fromkeys(trace.items, 0)
            for item, filter in filters.items():
                filter.width = widths[item]
                if filter.offer(values[item]):
                    updates += 1
                    counts[item] += 1
        violations += sum(breaks_promise(query, values, filters) for query in queries)
    return updates, grants, violations, [widths[item] for item in trace.items]
