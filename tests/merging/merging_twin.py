"""Slow, obvious versions of what `tolerant.merging` does, straight from the definitions."""

from itertools import combinations, pairwise

import numpy as np
from hypothesis import strategies as st

from tolerant.merging import Costs


def box_of(rectangles, members):
    chosen = [rectangles[m] for m in members]
    half = len(chosen[0]) // 2
    return [min(r[c] for r in chosen) for c in range(half)] + [max(r[c] for r in chosen) for c in range(half, 2 * half)]


def area_of(box):
    half, product = len(box) // 2, 1.0
    for c in range(half):
        product *= box[half + c] - box[c]
    return product


def union_area(rectangles, members):
    """Two dimensions: cell by cell between all edges."""
    xs = sorted({v for m in members for v in (rectangles[m][0], rectangles[m][2])})
    ys = sorted({v for m in members for v in (rectangles[m][1], rectangles[m][3])})
    total = 0.0
    for x1, x2 in pairwise(xs):
        for y1, y2 in pairwise(ys):
            x, y = (x1 + x2) / 2, (y1 + y2) / 2
            if any(r[0] <= x <= r[2] and r[1] <= y <= r[3] for r in (rectangles[m] for m in members)):
                total += (x2 - x1) * (y2 - y1)
    return total


def cost(rectangles, groups, costs, size=lambda rectangles, members: area_of(box_of(rectangles, members))):
    """K_M·|𝓜| + K_T·Σ S(M) + K_U·Σ_q (what q hears − what it needs once)."""
    heard = sum(len(group) * size(rectangles, group) for group in groups)
    needed = sum(area_of(rectangle) for rectangle in rectangles)
    sent = sum(size(rectangles, group) for group in groups)
    return costs.channel * len(groups) + costs.transfer * sent + costs.waste * (heard - needed)


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for smaller in partitions(rest):
        yield [[first], *smaller]
        for k in range(len(smaller)):
            yield [*smaller[:k], [first, *smaller[k]], *smaller[k + 1 :]]


def covers(n):
    """Every collection of non-empty subsets that covers 0 … n − 1."""
    subsets = [tuple(m for m in range(n) if bits >> m & 1) for bits in range(1, 1 << n)]
    for chosen in range(1, 1 << len(subsets)):
        collection = [subsets[k] for k in range(len(subsets)) if chosen >> k & 1]
        if len({m for group in collection for m in group}) == n:
            yield collection


def greedy(rectangles, costs):
    """Pair Merging with the profit table of [CBGM]; ties by first members. Returns groups, and evaluations."""
    groups = []
    for q, rectangle in enumerate(rectangles):
        for group in groups:
            if list(rectangles[group[0]]) == list(rectangle):
                group.append(q)
                break
        else:
            groups.append([q])
    table, evaluations = {}, 0
    while True:
        for a, b in combinations(map(tuple, groups), 2):
            if (a, b) not in table:
                sizes = [area_of(box_of(rectangles, members)) for members in (a, b, a + b)]
                table[a, b] = (
                    costs.channel
                    + costs.transfer * (sizes[0] + sizes[1] - sizes[2])
                    + costs.waste * (len(a) * sizes[0] + len(b) * sizes[1] - (len(a) + len(b)) * sizes[2])
                )
                evaluations += 1
        live = {pair: table[pair] for pair in combinations(map(tuple, groups), 2)}
        if not live:
            break
        best = min(live, key=lambda pair: (-live[pair], pair[0][0], pair[1][0]))
        if live[best] <= 0:
            break
        groups = sorted([g for g in groups if tuple(g) not in best] + [sorted(best[0] + best[1])])
    return tuple(tuple(group) for group in groups), evaluations


def closure(n, belong):
    """Labels by transitive closure over all pairs, numbered by first member."""
    labels = list(range(n))
    for a, b in combinations(range(n), 2):
        if belong(a, b):
            old, new = max(labels[a], labels[b]), min(labels[a], labels[b])
            labels = [new if label == old else label for label in labels]
    numbers = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    return [numbers[label] for label in labels]


prices = st.builds(
    Costs,
    channel=st.sampled_from([0, 1, 4, 10, 50]),
    transfer=st.sampled_from([0, 0.5, 2, 9]),
    waste=st.sampled_from([0, 0.25, 1, 4]),
)


@st.composite
def rectangle_sets(draw, most=7, least=0, side=8):
    """Small whole coordinates: touching, nested, identical and flat ones are common, and arithmetic is exact."""
    n = draw(st.integers(least, most))
    ends = st.integers(0, side)
    rows = []
    for _ in range(n):
        x, y = sorted([draw(ends), draw(ends)]), sorted([draw(ends), draw(ends)])
        rows.append([x[0], y[0], x[1], y[1]])
    return np.array(rows, float).reshape(-1, 4)
