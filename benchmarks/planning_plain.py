"""Planning in plain Python, line by line as `docs/design/planning.md` has it: the baseline of the benchmarks, and the
slow, obvious reference implementation that the tests check the compiled code against.
"""

from __future__ import annotations

import itertools
import math

from tolerant.planning import Network, Part, Plan
from tolerant.queries import Aggregate


def effective(query):
    n = len(query.weights) if query.fn == "avg" else 1
    return {item: weight / n for item, weight in query.weights.items() if weight != 0}


class Rates:
    """R and ρ of a query's items as dictionaries, with the care of §2.4 for items that hardly move."""

    def __init__(self, query, dynamics):
        places = {item: place for place, item in enumerate(dynamics.items)}
        self.weights = effective(query)
        self.extreme = query.fn in ("min", "max")
        moved = {item: float(dynamics.sumdiff[places[item]]) for item in self.weights}
        fastest = max(moved.values())
        cosine = dynamics.cosine.tolist()
        if fastest == 0:
            self.moved = dict.fromkeys(moved, 1.0)
            self.cosine = {i: {j: float(i == j) for j in moved} for i in moved}
        else:
            self.moved = {item: max(value, 1e-6 * fastest) for item, value in moved.items()}
            self.cosine = {i: {j: cosine[places[i]][places[j]] for j in moved} for i in moved}
        self.apart_all, self.weight_all = self.apart(self.weights), self.weight(self.weights)

    def apart(self, items):
        """D(P)."""
        return sum(abs(self.weights[i]) * self.moved[i] for i in items)

    def weight(self, items):
        """W(P)."""
        return sum(abs(self.weights[i]) for i in items)

    def together(self, items):
        """R(P) and N(P)."""
        if self.extreme:
            return max(abs(self.weights[i]) * self.moved[i] for i in items), max(abs(self.weights[i]) for i in items)
        num = den = 0.0
        for i in items:
            for j in items:
                mixing = self.weights[i] * self.weights[j] * self.cosine[i][j]
                num += mixing * self.moved[i] * self.moved[j]
                den += mixing
        return math.sqrt(max(num, 0)), math.sqrt(max(den, 0))

    def roughness(self, items):
        """A(P)."""
        moved, mixing = self.together(items)
        return max(moved * mixing, 1e-6 * self.apart(items) * self.weight(items))


def floor_of(rates, network, aggregator, items):
    """X and h of a part."""
    floors = [abs(rates.weights[i]) * network.bounds[aggregator][i] for i in items]
    if rates.extreme:
        return max(floors), 0.0
    return sum(floors), sum(floors) - math.sqrt(sum(floor * floor for floor in floors))


def allocated(roughness, floors, offsets, within):
    """Water-filling by the order of breakpoints (§2.5); None where the floors do not fit."""
    if sum(floors) > within * (1 + 1e-12):
        return None
    if sum(floors) >= within * (1 - 1e-12):
        return floors
    slopes = [rough ** (1 / 3) for rough in roughness]
    order = sorted(range(len(slopes)), key=lambda k: (floors[k] - offsets[k]) / slopes[k])
    level = 0.0
    for free in range(len(order), 0, -1):
        some, rest = order[:free], order[free:]
        left = within - sum(offsets[k] for k in some) - sum(floors[k] for k in rest)
        level = left / sum(slopes[k] for k in some)
        last = order[free - 1]
        if level >= (floors[last] - offsets[last]) / slopes[last]:
            break
    return [max(floors[k], offsets[k] + level * slopes[k]) for k in range(len(slopes))]


def divided(query, rates, network, owner):
    """(parts, cost) of items given to aggregators, {item: aggregator}; None where the floors do not fit."""
    members = {}
    for item, aggregator in owner.items():
        members.setdefault(aggregator, []).append(item)
    rough = [rates.roughness(items) for items in members.values()]
    ends = [floor_of(rates, network, aggregator, items) for aggregator, items in members.items()]
    floors, offsets = [x for x, _ in ends], [h for _, h in ends]
    if rates.extreme:
        bounds = [query.within] * len(rough)
        if max(floors) > query.within * (1 + 1e-12):
            return None
    else:
        bounds = allocated(rough, floors, offsets, query.within)
        if bounds is None:
            return None
    cost = sum(a / (c - h) ** 2 if c > h else math.inf for a, c, h in zip(rough, bounds, offsets, strict=True))
    parts = [
        Part(aggregator, {i: rates.weights[i] for i in rates.weights if i in items}, bound, floor)
        for (aggregator, items), bound, floor in zip(members.items(), bounds, floors, strict=True)
    ]
    return parts, cost


def scored(rates, network, query, rule, alpha, aggregator, items):
    moved, _ = rates.together(items)
    floor, _ = floor_of(rates, network, aggregator, items)
    if rates.extreme:
        alpha = 0.0
    if rule == "max-gain":
        tight = sum(abs(rates.weights[i]) * min(b[i] for b in network.bounds.values() if i in b) for i in items)
        return (rates.apart(items) - moved) / rates.apart_all - alpha * (floor - tight) / query.within
    if rule == "max-gain-relative":
        moved = max(moved, 1e-9 * rates.apart(items))
        strain = alpha * floor / (query.within * (moved / rates.apart_all) ** (1 / 3))
        return (rates.apart(items) / moved - 1 - strain) / len(items)
    if rates.extreme:
        whole = math.prod(rates.together(rates.weights))
    else:
        whole = rates.apart_all * rates.weight_all
    root = (rates.roughness(items) / whole) ** (1 / 3)
    return -(root + alpha * floor / (query.within * root)) / len(items)


def chosen(query, rates, network, rule, alpha):
    """{item: aggregator} by the greedy frame, every changed candidate scored again."""
    candidates = {}
    for aggregator, served in network.bounds.items():
        items = [i for i in rates.weights if i in served]
        if rates.extreme:
            items = [i for i in items if abs(rates.weights[i]) * served[i] <= query.within * (1 + 1e-12)]
        if items:
            candidates[aggregator] = items
    scores = {a: scored(rates, network, query, rule, alpha, a, items) for a, items in candidates.items()}
    owner = {}
    while candidates:
        top = max(scores.values())
        tied = [a for a in candidates if scores[a] >= top - 1e-9]
        floors = {a: floor_of(rates, network, a, candidates[a])[0] for a in tied}
        best = next(a for a in tied if floors[a] <= min(floors.values()) * (1 + 1e-12))
        taken = candidates[best]
        owner.update(dict.fromkeys(taken, best))
        for aggregator in list(candidates):
            left = [i for i in candidates[aggregator] if i not in owner]
            if len(left) < len(candidates[aggregator]):
                candidates[aggregator] = left
                if left:
                    scores[aggregator] = scored(rates, network, query, rule, alpha, aggregator, left)
                else:
                    del candidates[aggregator], scores[aggregator]
    return {item: owner[item] for item in rates.weights}


def repaired(query, rates, network, owner):
    """How many items moved; changes `owner`."""
    moved = 0
    if rates.extreme:
        return moved
    weights = rates.weights
    while sum(abs(weights[i]) * network.bounds[a][i] for i, a in owner.items()) > query.within * (1 + 1e-12):
        relief = {i: abs(weights[i]) * (network.bounds[a][i] - network.tightest(i)) for i, a in owner.items()}
        item = max(relief, key=relief.__getitem__)
        if relief[item] <= 0:
            break
        owner[item] = next(a for a, b in network.bounds.items() if b.get(item) == network.tightest(item))
        moved += 1
    return moved


def greedy(query, network, dynamics, rule="max-gain", alpha=0.0):
    """A plan by one of the greedy heuristics."""
    rates = Rates(query, dynamics)
    owner = chosen(query, rates, network, rule, alpha)
    repairs = repaired(query, rates, network, owner)
    parts, cost = divided(query, rates, network, owner)
    return Plan(query, network, parts, cost, repairs)


def cheapest(query, network, dynamics):
    """The least cost over every assignment of items to aggregators."""
    rates = Rates(query, dynamics)
    servers = [[a for a, served in network.bounds.items() if item in served] for item in rates.weights]
    best = math.inf
    for combination in itertools.product(*servers):
        found = divided(query, rates, network, dict(zip(rates.weights, combination, strict=True)))
        if found is not None:
            best = min(best, found[1])
    return best


def simulated(plan, trace):
    """(refreshes by part, violations, feeds) of the loop of §2.9."""
    weights = effective(plan.query)
    places = {item: place for place, item in enumerate(trace.items)}
    combine = {"min": min, "max": max}.get(plan.query.fn, sum)
    now, copies, sent = {}, {}, None
    refreshes, violations, feeds = [0] * len(plan.parts), 0, 0
    for row in trace.values.tolist():
        for item in weights:
            if not math.isnan(row[places[item]]):
                now[item] = row[places[item]]
        if len(now) < len(weights):
            continue
        if sent is None:
            for part in plan.parts:
                for item in part.weights:
                    for aggregator in plan.network.path(part.aggregator, item):
                        copies[aggregator, item] = now[item]
            sent = [combine([w * now[i] for i, w in part.weights.items()]) for part in plan.parts]
            continue
        for aggregator, item in copies:
            above = plan.network.source_of(aggregator, item)
            offered = now[item] if above is None else copies[above, item]
            step = plan.network.bounds[aggregator][item]
            if above is not None:
                step -= plan.network.bounds[above][item]
            if abs(offered - copies[aggregator, item]) > step + 1e-9 * step:
                copies[aggregator, item] = offered
                feeds += 1
        for k, part in enumerate(plan.parts):
            value = combine([w * copies[part.aggregator, i] for i, w in part.weights.items()])
            if abs(value - sent[k]) > max(0.0, part.within - part.floor) + 1e-9 * part.within:
                sent[k] = value
                refreshes[k] += 1
        truth = combine([w * now[i] for i, w in weights.items()])
        size = sum(abs(w * now[i]) for i, w in weights.items())
        if abs(combine(sent) - truth) > plan.query.within * (1 + 1e-6) + 1e-9 * size:
            violations += 1
    return refreshes, violations, feeds


def random_network(rng, aggregators, items, at_least, at_most, low, high):
    """Aggregators that each serve some of the items, at bounds from low to high; every item is served by someone."""
    bounds = {}
    for a in range(aggregators):
        served = rng.choice(len(items), rng.integers(at_least, at_most + 1), replace=False)
        bounds[f"D{a}"] = {items[k]: float(rng.uniform(low, high)) for k in sorted(served)}
    for k, item in enumerate(items):
        if not any(item in served for served in bounds.values()):
            bounds[f"D{k % aggregators}"][item] = float(rng.uniform(low, high))
    return Network(bounds)


def random_query(rng, items, size, within, low=2.0, high=10.0, name="q"):
    chosen_items = rng.choice(len(items), size, replace=False)
    return Aggregate(name, "sum", {items[k]: float(rng.uniform(low, high)) for k in chosen_items}, within)
