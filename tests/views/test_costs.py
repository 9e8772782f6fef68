"""Linear and measured costs, the closure, and what is refused."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.views import Linear, Measured, schedule
from tolerant.views.cost_curves import Curves, cost_of
from tolerant.views.measured import isotonic
from tolerant.views.subadditive_closure import DENSE, Closure


def closed(values):
    """The subadditive closure by definition, f(1) … f(n)."""
    found = [0.0]
    for n, value in enumerate(values, 1):
        found.append(min([value, *(found[b] + found[n - b] for b in range(1, n))]))
    return found[1:]


rising = st.lists(st.integers(0, 20), min_size=1, max_size=40).map(lambda steps: np.cumsum(steps) / 4)


@settings(deadline=None)
@given(rising)
def test_the_closure_is_the_cheapest_split(values):
    closure = Closure(lambda rows: values[rows - 1] if rows else 0.0, "cost")
    closure.cover(len(values))
    np.testing.assert_allclose(closure.values, closed(values))
    assert closure.splits == (not np.allclose(closed(values), values))


def test_the_closure_is_exact_up_to_its_dense_part_and_nearly_beyond():
    closure = Closure(lambda rows: 3 * math.sqrt(rows), "cost")
    size = DENSE + 12_345
    assert closure.at(size) == pytest.approx(3 * math.sqrt(size), rel=1e-6)
    assert closure.at(1000) == 3 * math.sqrt(1000)
    assert not closure.splits


def test_the_closure_beyond_its_dense_part_still_splits():
    closure = Closure(lambda rows: rows * rows / 1e3, "cost")
    assert closure.at(DENSE + 50_000) == pytest.approx((DENSE + 50_000) / 1e3, rel=1e-3)


def test_what_was_glanced_at_is_looked_at_again():
    closure = Closure(lambda rows: math.ceil(rows / 7), "cost")
    closure.cover(200)
    for _ in range(300):
        closure.sample()
    assert closure.dense < 1000 < closure.top
    closure.cover(1000)
    assert closure.dense >= 1000
    assert closure.at(993) == math.ceil(993 / 7)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 40)), min_size=1, max_size=12))
def test_measured_costs_are_monotone_subadditive_and_never_above_the_timings_made_monotone(timings):
    sizes, seconds = zip(*timings, strict=True)
    cost = Measured(sizes, np.array(seconds) / 4)
    values = np.array([cost(rows) for rows in range(100)])
    assert values[0] == 0
    assert np.all(np.diff(values) >= -1e-12)
    for rows in range(1, 100):
        assert values[rows] <= (values[: rows + 1] + values[: rows + 1][::-1]).min() + 1e-9
    known, costs = cost.knots
    assert all(cost(int(size)) <= value + 1e-9 for size, value in zip(known, costs, strict=True))
    # Compiled code sees the same.
    curves = Curves([cost])
    curves.cover(math.inf, [99], [0])
    assert [cost_of(curves.packed(), 0, rows) for rows in range(100)] == pytest.approx(values)


def test_measured_takes_medians_pools_and_goes_on_with_the_last_slope():
    cost = Measured([10, 10, 10, 20, 30, 40], [2.0, 9.0, 1.0, 4.0, 3.0, 4.5])
    assert cost.knots[0].tolist() == [10, 20, 30, 40]
    assert cost.knots[1].tolist() == [2.0, 3.5, 3.5, 4.5]
    assert (cost(5), cost(15), cost(40), cost(50)) == (2.0, 2.75, 4.5, 5.5)


def test_isotonic_pools_backwards():
    assert isotonic(np.array([4.0, 3.0, 2.0, 5.0])).tolist() == [3.0, 3.0, 3.0, 5.0]


def test_measured_splits_where_it_pays():
    # 20 rows at once take 9 s, twice 10 rows take 2 s.
    cost = Measured([10, 20], [1.0, 9.0])
    assert cost(20) == 2.0


def test_one_timing_goes_through_the_origin():
    cost = Measured([10], [2.0])
    assert (cost(1), cost(10), cost(30)) == (2.0, 2.0, 6.0)
    assert cost.linear() == Linear(0.2)


@pytest.mark.parametrize(
    ("sizes", "seconds", "slope", "setup"),
    [([1, 2, 3], [3.0, 5.0, 7.0], 2.0, 1.0), ([1, 2, 3], [3.0, 2.0, 1.0], 0.0, 2.0), ([1, 2], [0.5, 2.0], 0.9, 0.0)],
)
def test_the_nearest_line_has_no_negative_part(sizes, seconds, slope, setup):
    line = Measured(sizes, seconds).linear()
    assert (line.slope, line.setup) == (pytest.approx(slope), pytest.approx(setup))


def test_learning_follows_a_machine_that_became_slower():
    cost = Measured([100, 1000], [1.0, 2.0])
    for _ in range(40):
        cost = cost.learned(1000, 4.0)
    assert cost(1000) == pytest.approx(4.0, rel=0.01)
    assert cost(100) == 1.0
    assert cost.learned(10_000, 60.0).knots[0].tolist() == [100, 1000, 10_000]


def test_a_measured_cost_refuses_what_is_no_timing():
    for sizes, seconds in [([], []), ([1, 2], [1.0]), ([0], [1.0]), ([1.5], [1.0]), ([1], [math.nan]), ([1], [-1.0])]:
        with pytest.raises(ValueError, match=r"sizes|seconds"):
            Measured(sizes, seconds)
    with pytest.raises(ValueError, match="weight"):
        Measured([1], [1.0]).learned(1, 1.0, weight=0)


@pytest.mark.parametrize(("slope", "setup"), [(-1, 0), (1, -1), (math.nan, 0), (1, math.inf)])
def test_a_linear_cost_refuses_what_is_negative_or_not_finite(slope, setup):
    with pytest.raises(ValueError, match=r"slope|setup"):
        Linear(slope, setup)


def test_costs_that_are_not_subadditive_are_closed_with_one_warning():
    def square(rows):
        return rows * rows

    with pytest.warns(UserWarning, match="table 0, 1") as caught:
        plan = schedule([square, square], np.ones((30, 2), int), 10, "optimal")
    assert len(caught) == 1
    assert plan == schedule([Linear(1.0)] * 2, np.ones((30, 2), int), 10, "optimal")


@pytest.mark.parametrize(
    ("cost", "size"),
    [
        (lambda rows: math.nan if rows == 3 else rows, 3),
        (lambda rows: -1.0 if rows == 2 else rows, 2),
        (lambda rows: math.inf if rows == 4 else rows, 4),
        (lambda rows: rows + 1, 0),
        (lambda rows: 5 - rows if rows > 2 else rows, 4),
    ],
)
@pytest.mark.parametrize("method", ["naive", "online", "forecast", "optimal"])
def test_a_cost_that_makes_no_sense_is_named_with_its_table_and_size(cost, size, method):
    with pytest.raises(ValueError, match=rf"table 1 at {size} rows"):
        schedule([Linear(1.0), cost], np.ones((30, 2), int), 20, method)


def test_sizes_that_are_never_met_are_not_asked_for():
    def cost(rows):
        assert rows <= 6, "no plan has more rows to push"
        return float(rows)

    for method in ("naive", "optimal", "online"):
        schedule([cost], np.ones((30, 1), int), 4, method)


ONE = [Linear(1.0)]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((ONE, [[1], [-2]], 1), "arrivals.*-2 at tick 1, table 0"),
        ((ONE, [[1.5]], 1), "arrivals.*float"),
        ((ONE, [[1, 2]], 1), r"arrivals.*\[ticks, 1\]"),
        ((ONE, [1, 2], 1), "arrivals"),
        ((ONE, [[1]], math.nan), "limit"),
        ((ONE, [[1]], -1), "limit"),
        ((ONE, [[1]], 1, "greedy"), "method.*'online'"),
        ((ONE, [[1]], 1, "estimated"), "estimate"),
        (([], [[1]], 1), "costs"),
        (([3], [[1]], 1), "costs: table 0"),
        ((ONE * 17, [[1] * 17], 1), "costs"),
    ],
)
def test_bad_arguments_are_named(arguments, named):
    with pytest.raises(ValueError, match=named):
        schedule(*arguments)


@pytest.mark.parametrize(
    "bad",
    [
        {"estimate": -1},
        {"estimate": 2.5},
        {"estimate": [[1, 1]]},
        {"lead": -1},
        {"window": 0},
        {"memory": 0},
        {"budget": 0},
        {"recompute": -1.0},
    ],
)
def test_bad_options_are_named(bad):
    (name,) = bad
    with pytest.raises(ValueError, match=name):
        schedule(ONE, [[1]], 1, "estimated", **{"estimate": 3, **bad})


def test_an_infinite_limit_is_never_broken():
    assert schedule(ONE, np.ones((9, 1), int), math.inf).actions == [(8, (0,))]
