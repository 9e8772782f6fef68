from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.filters.constraints import Terms, constraints_of
from tolerant.filters.ladder import RUNGS
from tolerant.filters.prices import find_targets, initial_rates, price_workspace
from tolerant.filters.rate_curves import decoded, rate_at
from tolerant.filters.width_plans import SPARE, best_plan

TICK = 1000


def tell(known, item, rates):
    """The item reported just now that it sends so much on each rung, ever and now, as well as bytes can say it."""
    known.curves[item] = np.tile(np.minimum(np.rint(-8 * np.log2(rates)), 255), 2)
    known.has_report[item] = True
    known.reported[item] = known.age[item] = TICK


def told(known, item):
    return decoded(known.curves[item, :RUNGS])


def known_with(rows, costs, rng, *, steepness=(0.3, 1.5)):
    """Items that reported just now, each with falling curves of its own: the same now as ever."""
    known = initial_rates(rows.uniform, costs)
    for item in range(rows.n_items):
        falls = rng.uniform(*steepness) * np.r_[0, rng.uniform(0, 2, RUNGS - 1)]
        tell(known, item, rng.uniform(0.05, 1) * 2.0 ** -falls.cumsum())
    return known


def case(seed, n, queries):
    """(rows, known, costs) of sums over random items with random weights."""
    rng = np.random.default_rng(seed)
    terms = []
    for _ in range(queries):
        items = rng.choice(n, rng.integers(2, n + 1), replace=False)
        terms.append(Terms("sum", items, rng.choice([1.0, -1.0, 2.0], len(items)), rng.uniform(1, 5)))
    rows = constraints_of(terms, n)
    costs = rng.choice([1.0, 0.5, 3.0], n)
    return rows, known_with(rows, costs, rng), costs


def grid_of(unit, cap):
    """0, quarter octaves from u/16 to 16u, cap."""
    quarters = [unit / 16 * 2 ** (k / 4) for k in range(33)]
    return [0.0, *(width for width in quarters if width < cap), cap]


def spending(known, widths):
    """Cost a tick; the curves of `known_with` do not change with the horizon."""
    return sum(
        known.cost[i] * rate_at(told(known, i), known.unit[i], widths[i])
        for i in range(len(widths))
        if widths[i] < np.inf
    )


def targets_of(rows, known, widths, horizon=200.0):
    space = price_workspace(rows.n_items)
    find_targets(rows.arrays, known, widths, rows.adaptable, TICK, horizon, space)
    return np.where(rows.adaptable, space.target, widths), space


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_one_row_is_as_good_as_every_choice_from_the_grid_but_for_the_room_that_the_best_one_leaves(seed, n):
    rows, known, costs = case(seed, n, 1)
    target, space = targets_of(rows, known, rows.uniform)
    assert rows.used(np.where(rows.adaptable, target, 0))[0] <= rows.beta[0] * (1 + 1e-9)
    mine = np.flatnonzero(rows.adaptable)
    a = dict(zip(rows.items.tolist(), rows.coefficients.tolist(), strict=True))
    grids = {i: grid_of(known.unit[i], rows.caps[i]) for i in mine}
    rates = {i: [costs[i] * rate_at(told(known, i), known.unit[i], w) for w in grids[i]] for i in mine}
    # At the price found, each item's own best buy; by duality no choice from the grid is cheaper than these less
    # what the room left over would have been worth.
    price = next(space.price[i] / a[i] for i in mine)
    bought, dual = 0.0, -price * rows.beta[0]
    for i in mine:
        dearness = [rate + price * a[i] * w for rate, w in zip(rates[i], grids[i], strict=True)]
        dual += min(dearness)
        bought += rates[i][int(np.argmin(dearness))]
    cheapest = min(
        sum(rates[i][k] for i, k in zip(mine, choice, strict=True))
        for choice in product(*(range(len(grids[i])) for i in mine))
        if sum(a[i] * grids[i][k] for i, k in zip(mine, choice, strict=True)) <= rows.beta[0] * (1 + 1e-12)
    )
    assert dual <= cheapest * (1 + 1e-9)
    assert spending(known, np.where(rows.adaptable, target, np.inf)) <= bought * (1 + 1e-6)


def test_rows_that_share_items_come_near_to_every_choice_from_a_grid():
    over = []
    for seed in range(12):
        rows, known, _ = case(seed, 3, 3)
        target, _ = targets_of(rows, known, rows.uniform)
        assert (rows.used(np.where(rows.unqueried, 0, target)) <= rows.beta * (1 + 1e-9)).all()
        mine = np.flatnonzero(rows.adaptable)
        best = np.inf
        for choice in product(*(grid_of(known.unit[i], rows.caps[i])[::2] for i in mine)):
            widths = np.zeros(rows.n_items)
            widths[mine] = choice
            if (rows.used(widths) <= rows.beta * (1 + 1e-12)).all():
                best = min(best, spending(known, np.where(rows.adaptable, widths, np.inf)))
        over.append(spending(known, np.where(rows.adaptable, target, np.inf)) / best)
    assert np.exp(np.mean(np.log(over))) < 1.03
    assert max(over) < 1.25


def plan_of(rows, known, widths, *, last=0, spent=0.0, received=1e6):
    return best_plan(
        rows.arrays, known, widths, rows.adaptable, TICK, last, spent, received, price_workspace(rows.n_items)
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 4), st.floats(0, 60), st.floats(0, 5))
def test_a_plan_never_overfills_a_row_nor_costs_more_than_its_share(seed, n, queries, received, spent):
    rows, known, costs = case(seed, n, queries)
    rng = np.random.default_rng(seed)
    start = np.where(rows.adaptable, rows.uniform * rng.uniform(0, 1, n), rows.uniform)
    plan = plan_of(rows, known, start, spent=spent, received=received)
    moved = ~np.isnan(plan.width)
    after = np.where(moved, plan.width, start)
    assert (rows.used(np.where(rows.unqueried, 0, after)) <= rows.beta * (1 + 1e-9)).all()
    assert not (moved & ~rows.adaptable).any()
    narrower, wider = moved & (after < start), moved & (after > start)
    assert plan.cost == pytest.approx(2 * costs[narrower].sum() + costs[wider].sum())
    assert spent + plan.cost <= max(SPARE * received, spent) + 1e-9
    assert plan.worth >= 0
    assert (plan.worth > 0) == moved.any()
    if moved.any():
        # Over its horizon, 50 ticks or more, it saves what it costs: so it saves something at all.
        assert spending(known, after) < spending(known, start)


def test_a_plan_is_as_good_as_the_targets_where_messages_are_free():
    rows, known, _ = case(3, 4, 1)
    target, _ = targets_of(rows, known, rows.uniform)
    free = known._replace(cost=known.cost * 1e-9)
    after = plan_of(rows, free, rows.uniform).width
    gain = spending(known, rows.uniform) - spending(known, target)
    kept = spending(known, rows.uniform) - spending(known, np.where(np.isnan(after), rows.uniform, after))
    assert kept > 0.7 * gain > 0


def test_equal_items_stay_where_they_are():
    rows = constraints_of([Terms("avg", np.arange(5), np.ones(5), 2.0)], 5)
    known = initial_rates(rows.uniform, np.ones(5))
    for item in range(5):
        tell(known, item, 0.5 * 2.0 ** -np.arange(RUNGS))
    plan = plan_of(rows, known, rows.uniform)
    assert np.isnan(plan.width).all()
    assert (plan.worth, plan.cost) == (0, 0)


def test_silent_items_are_left_alone():
    rows = constraints_of([Terms("avg", np.arange(5), np.ones(5), 2.0)], 5)
    known = initial_rates(rows.uniform, np.ones(5))
    for item in range(5):
        tell(known, item, np.full(RUNGS, 1e-9))
    assert np.isnan(plan_of(rows, known, rows.uniform).width).all()


def test_a_move_is_not_taken_back_at_once():
    rows = constraints_of([Terms("sum", np.arange(2), np.ones(2), 4.0)], 2)
    known = initial_rates(rows.uniform, np.ones(2))
    tell(known, 0, 0.5 * 2.0 ** (-np.arange(RUNGS) / 2))
    tell(known, 1, 0.005 * 2.0 ** (-np.arange(RUNGS) / 2))
    assert plan_of(rows, known, rows.uniform).width[0] > rows.uniform[0]
    known.narrowed[0] = known.widened[1] = TICK - 10
    assert np.isnan(plan_of(rows, known, rows.uniform, last=TICK - 10).width).all()
