"""The choice between items and sums, and where there is one."""

import numpy as np
import pytest

from tolerant.filters import Coordinator, aggregation_costs
from tolerant.filters.form_costs import ITEMS, QUERIES, ChangeRates, SumShape, _widths, better_form, form_costs
from tolerant.filters.overlaps import PartialSumShares, overlaps
from tolerant.queries import Aggregate

SUMS = {"a": {"v0": 1.0, "v1": 1.0}, "b": {"v0": 1.0, "v2": 1.0}}


def shape_of(shares, alone=None):
    alone = np.full(3, np.inf) if alone is None else np.array(alone)
    return SumShape(np.array([0, 2, 4]), np.array([0, 1, 0, 2]), np.ones(4), np.array(shares, float), alone)


@pytest.mark.parametrize("steps", [(1, 1, 1), (1, 0.1, 0.1), (1, 1e-6, 1e-6)])
@pytest.mark.parametrize("shares", [(1000, 20), (20, 20), (20, 60)])
def test_independent_walks_cost_what_the_worked_example_says(steps, shares):
    squares = np.array(steps, float) ** 2
    sums = np.array([squares[0] + squares[1], squares[0] + squares[2]])
    found = form_costs(shape_of(shares), ChangeRates(squares, np.ones(3)), ChangeRates(sums, np.ones(2)))
    within = {"a": shares[0] / 2, "b": shares[1] / 2}
    assert found == pytest.approx(aggregation_costs(dict(zip(["v0", "v1", "v2"], steps, strict=True)), SUMS, within))


def test_nothing_sends_more_often_than_it_changes():
    items, sums = (
        ChangeRates(np.ones(3), np.array([0.5, 0.25, 1.0])),
        ChangeRates(np.full(2, 2.0), np.array([0.75, 1.0])),
    )
    assert form_costs(shape_of((0, 0)), items, sums) == (1.75, 1.75)


def test_sums_of_what_moves_against_each_other_are_cheap_and_of_what_moves_together_dear():
    items = ChangeRates(np.ones(3), np.ones(3))
    against = form_costs(shape_of((20, 20)), items, ChangeRates(np.zeros(2), np.zeros(2)))
    together = form_costs(shape_of((20, 20)), items, ChangeRates(np.full(2, 4.0), np.ones(2)))
    assert against[1] == 0.0
    assert together[1] == pytest.approx(2 * 4 * 4 / 400)


def test_what_other_queries_need_of_an_item_counts_in_both_forms():
    items, sums = ChangeRates(np.ones(3), np.ones(3)), ChangeRates(np.full(2, 2.0), np.ones(2))
    free = form_costs(shape_of((60, 60)), items, sums)
    bound = form_costs(shape_of((60, 60), [4.0, np.inf, np.inf]), items, sums)
    assert bound[1] == free[1] + 0.25
    assert bound[0] > 0.25


def test_a_change_must_save_a_fifth_and_what_it_takes():
    items, sums = ChangeRates(np.ones(3), np.ones(3)), ChangeRates(np.full(2, 2.0), np.ones(2))
    assert better_form(ITEMS, shape_of((20, 20)), items, sums, 500) == QUERIES
    assert better_form(ITEMS, shape_of((20, 20)), items, sums, 50) == ITEMS
    still = ChangeRates(np.zeros(3), np.zeros(3))
    assert better_form(QUERIES, shape_of((20, 20)), still, ChangeRates(np.zeros(2), np.zeros(2)), 500) == QUERIES


def test_of_very_many_items_the_widths_are_good_and_keep_to_the_rows():
    rng = np.random.default_rng(1)
    n, queries, size = 8_000, 300, 100
    items = np.concatenate([rng.choice(n, size, replace=False) for _ in range(queries)])
    shape = SumShape(
        np.arange(0, queries * size + 1, size), items, rng.choice([1.0, -2.0], len(items)),
        rng.uniform(10, 20, queries), np.where(rng.random(n) < 0.5, np.inf, 0.3),
    )  # fmt: skip
    widths = _widths(shape, rng.uniform(0, 1, n))
    used = np.add.reduceat(np.abs(shape.weights) * widths[items], shape.indptr[:-1])
    assert (used <= shape.shares * (1 + 1e-9)).all()
    assert (widths <= shape.alone).all()


# -- where there is a choice ------------------------------------------------------------------------------------------


def sets_and_alone(c, owners):
    index = c.membership.find(list(owners))
    owner = np.zeros(len(c.membership.item_names), np.int64)
    owner[index] = list(owners.values())
    free = np.zeros(len(owner), bool)
    free[index] = True
    names = c.membership.item_names
    hidden = np.zeros(len(c.membership.query_names()), bool)
    found = overlaps(c.membership, owner, free, hidden, c.grant_log.granted())
    sets = [[(part.query, sorted(names[item] for item in part.items)) for part in own] for own in found.sets]
    return sorted(map(sorted, sets)), {name: float(found.alone[c.membership.find([name])[0]]) for name in owners}


def test_queries_that_share_items_of_a_source_belong_together():
    queries = [
        Aggregate.over("ab", "sum", ["a", "b", "x"], 1),
        Aggregate.over("bc", "avg", ["b", "c"], 1),
        Aggregate.over("xy", "sum", ["x", "y"], 1),
        Aggregate.over("ay", "sum", ["a", "y"], 1),
        Aggregate.over("low", "min", ["a", "b", "x", "y"], 3),
        Aggregate.over("n", "count", ["a", "b"], 0),
    ]
    c = Coordinator(queries, values=dict.fromkeys("abcxy", 0.0))
    sets, alone = sets_and_alone(c, {"a": 0, "b": 0, "c": 0, "x": 1, "y": 1})
    assert sets == [[("ab", ["a", "b"]), ("bc", ["b", "c"])], [("xy", ["x", "y"])]]
    assert alone["c"] == np.inf
    assert alone["b"] == 6.0
    assert alone["a"] == min(6.0, c.widths["a"])  # in `ay` it is the only one of its source


def test_shares_are_what_is_held_and_a_part_of_what_is_free():
    c = Coordinator([Aggregate.over("q", "sum", ["a", "b", "x", "y"], 4)], values=dict.fromkeys("abxy", 0.0))
    free = np.ones(4, bool)
    part = overlaps(c.membership, np.array([0, 0, 1, 1]), free, np.zeros(1, bool), c.grant_log.granted()).sets[0][0]
    assert PartialSumShares(c.membership, c.grant_log.granted()).width_of(part) == 4.0
    c.alter("q", 8, 1)  # nobody holds the other half yet
    assert PartialSumShares(c.membership, c.grant_log.granted()).width_of(part) == 8.0
