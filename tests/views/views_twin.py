"""The slow and obvious side: plans by exhaustive search and by the letter of the definitions, in plain Python."""

import itertools
import math
from functools import cache


def bound_of(limit):
    return limit + 1e-9 * max(1, limit)


def best_of_all_plans(costs, arrivals, limit):
    """The cheapest valid plan of any kind, partial pushes included."""
    last, bound = len(arrivals) - 1, bound_of(limit)

    @cache
    def rest(tick, left):
        state = tuple(k + int(more) for k, more in zip(left, arrivals[tick], strict=True))
        if tick == last:
            return sum(f(k) for f, k in zip(costs, state, strict=True))
        found = math.inf
        for pushed in itertools.product(*(range(k + 1) for k in state)):
            after = tuple(k - p for k, p in zip(state, pushed, strict=True))
            if sum(f(k) for f, k in zip(costs, after, strict=True)) <= bound:
                paid = sum(f(p) for f, p in zip(costs, pushed, strict=True))
                found = min(found, paid + rest(tick + 1, after))
        return found

    return rest(0, (0,) * len(costs)) if last >= 0 else 0.0


def minimal_sets(costs, state, bound, extra=None):
    """By definition: sets of non-empty tables that mend the limit, and none of whose proper subsets does."""
    extra = extra or (0,) * len(state)

    def mends(chosen):
        return (
            sum(f(e + (0 if i in chosen else k)) for i, (f, k, e) in enumerate(zip(costs, state, extra, strict=True)))
            <= bound
        )

    tables = [i for i, k in enumerate(state) if k]
    subsets = [s for size in range(len(tables) + 1) for s in itertools.combinations(tables, size)]
    found = [s for s in subsets if s and mends(s) and not any(mends(set(s) - {i}) for i in s)]
    return found or ([tuple(tables)] if tables and not mends(()) else [])


def best_lazy_greedy_minimal(costs, arrivals, limit):
    """The cheapest plan of that kind: every path of the graph, tick by tick, without a heuristic or dominance."""
    last, bound = len(arrivals) - 1, bound_of(limit)

    @cache
    def rest(tick, left):
        state = tuple(k + int(more) for k, more in zip(left, arrivals[tick], strict=True))
        work = sum(f(k) for f, k in zip(costs, state, strict=True))
        if tick == last:
            return work
        if work <= bound:
            return rest(tick + 1, state)
        return min(
            sum(costs[i](state[i]) for i in chosen)
            + rest(tick + 1, tuple(0 if i in chosen else k for i, k in enumerate(state)))
            for chosen in minimal_sets(costs, state, bound)
        )

    return rest(0, (0,) * len(costs)) if last >= 0 else 0.0


def step_by_step(costs, arrivals, limit, score):
    """Actions of a rule: at each tick that breaks the limit the minimal set with the least score, price and tuple."""
    last, bound, n = len(arrivals) - 1, bound_of(limit), len(costs)
    state, arrived, spent, actions = [0] * n, [0] * n, 0.0, []
    for tick, more in enumerate(arrivals):
        state = [k + int(m) for k, m in zip(state, more, strict=True)]
        arrived = [k + int(m) for k, m in zip(arrived, more, strict=True)]
        if tick == last:
            chosen = tuple(i for i in range(n) if state[i])
        elif sum(f(k) for f, k in zip(costs, state, strict=True)) > bound:
            rates = [k / (tick + 1) for k in arrived]
            chosen = min(
                minimal_sets(costs, state, bound), key=lambda z: score(costs, state, rates, tick, spent, bound, z)
            )
        else:
            chosen = ()
        if chosen:
            actions.append((tick, chosen))
            spent += sum(costs[i](state[i]) for i in chosen)
            state = [0 if i in chosen else k for i, k in enumerate(state)]
    return actions, spent


def ticks_until_broken(costs, state, rates, bound, chosen, farthest=3000):
    """The predicted ticks until the limit breaks again, one by one; `farthest` stands for `FARTHEST` of the core."""
    left = [0 if i in chosen else k for i, k in enumerate(state)]
    for ticks in range(1, farthest):
        sizes = (math.floor(k + r * ticks + 1e-9) for k, r in zip(left, rates, strict=True))
        if sum(f(k) for f, k in zip(costs, sizes, strict=True)) > bound:
            return ticks
    return 100_000


def history(costs, state, rates, tick, spent, bound, chosen):
    """The seed's H."""
    price = sum(costs[i](state[i]) for i in chosen)
    return ((spent + price) / (tick + ticks_until_broken(costs, state, rates, bound, chosen)), price, chosen)


def per_tick(costs, state, rates, tick, spent, bound, chosen):
    """Cost for each tick until the limit breaks again."""
    price = sum(costs[i](state[i]) for i in chosen)
    return (price / ticks_until_broken(costs, state, rates, bound, chosen), price, chosen)
