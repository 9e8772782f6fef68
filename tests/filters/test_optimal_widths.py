import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from tolerant.filters.constraints import Terms, constraints_of
from tolerant.filters.optimal_widths import optimal


def total(weights, within):
    """A sum over the items whose weight is not 0."""
    items = np.flatnonzero(weights)
    return Terms("sum", items, np.asarray(weights, float)[items], within)


def cost(widths, steps, costs=1.0):
    moves = np.asarray(steps, float) > 0
    return float((costs * 4 * np.square(steps) / np.square(np.where(moves, widths, 1.0)))[moves].sum())


@pytest.mark.parametrize(
    ("queries", "steps", "widths", "least"),
    [
        ([total([1, 1], 5)], [1, 8], [2, 8], 5.0),
        ([total([1, 1, 0], 5), total([0, 1, 1], 3)], [1, 2, 1], [6.3423, 3.6577, 2.3423], 2.0244),
        ([total([2, 1], 5)], [1, 1], [3.0676, 3.8649], None),
    ],
)
def test_the_worked_example(queries, steps, widths, least):
    rows = constraints_of(queries, len(steps))
    found = optimal(rows, np.array(steps, float), np.ones(len(steps)))
    assert found.round(4).tolist() == widths
    if least is not None:
        assert round(cost(found, steps), 4) == least


def test_uniform_widths_of_the_first_example_cost_twice_as_much():
    assert round(cost(np.array([5.0, 5.0]), [1, 8]), 1) == 10.4


def test_one_row_has_a_closed_form():
    rng = np.random.default_rng(0)
    weights, steps, costs = rng.uniform(0.2, 3, 9), rng.uniform(0.1, 5, 9), rng.uniform(0.2, 3, 9)
    share = np.cbrt(costs * steps**2 / weights)
    expected = 2 * 7 * share / (weights * share).sum()
    np.testing.assert_allclose(optimal(constraints_of([total(weights, 7)], 9), steps, costs), expected, rtol=1e-6)


def test_who_stands_still_or_costs_nothing_gets_no_width_unless_it_is_fixed():
    rows = constraints_of([total([1, 1, 1, 0], 5), total([0, 0, 0, 1], 2)], 5)
    assert optimal(rows, np.array([1.0, 0.0, 1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0, 1.0])).tolist() == [
        10, 0, 0, 4, np.inf,
    ]  # fmt: skip


@st.composite
def programmes(draw):
    n = draw(st.integers(2, 5))
    weight, size = st.sampled_from([0.0, 0.5, 1.0, -1.0, 3.0]), st.floats(0.01, 10)
    queries = [
        total(row, draw(st.floats(0.1, 10)))
        for row in draw(st.lists(st.lists(weight, min_size=n, max_size=n), min_size=1, max_size=5))
        if any(row)
    ]
    positive = st.lists(size, min_size=n, max_size=n).map(np.array)
    return constraints_of(queries, n), draw(positive), draw(positive)


def table(rows):
    out = np.zeros((len(rows), rows.n_items))
    for row in range(len(rows)):
        mine = slice(rows.indptr[row], rows.indptr[row + 1])
        out[row, rows.items[mine]] = rows.coefficients[mine]
    return out


@settings(deadline=None, max_examples=60)
@given(programmes())
def test_feasible_and_no_solver_finds_a_cheaper_point(programme):
    rows, steps, costs = programme
    widths = optimal(rows, steps, costs)
    assert (rows.used(np.where(rows.unqueried, 0, widths)) <= rows.beta * (1 + 1e-9)).all()
    asked = ~rows.unqueried
    ours = cost(widths[asked], steps[asked], costs[asked])
    foreign_epoch = feasible(rows, solver(rows, steps, costs))
    assert ours <= cost(foreign_epoch[asked], steps[asked], costs[asked]) * (1 + 1e-3)


def solver(rows, steps, costs):
    """SLSQP over the logarithms of the widths, which keeps them positive."""
    a, start = table(rows), np.log(np.where(rows.unqueried, 1.0, rows.uniform))
    scale = cost(np.exp(start), steps, costs)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = minimize(
            lambda x: cost(np.exp(x), steps, costs) / scale,
            start,
            jac=lambda x: -8 * costs * steps**2 * np.exp(-2 * x) / scale,
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda x: 1 - a @ np.exp(x) / rows.beta,
                "jac": lambda x: -a * np.exp(x) / rows.beta[:, None],
            },
            options={"maxiter": 200, "ftol": 1e-10},
        ).x
    # Where it lost its way, its point is clipped into what floats can hold, and scaled into the rows all the same.
    return np.exp(np.clip(found, -100, 100) if np.isfinite(found).all() else start)


def feasible(rows, widths):
    """The widths, each scaled by the least β / Σ a·W of its rows where that is below 1."""
    a = table(rows)
    factor = np.where(a > 0, np.minimum(rows.beta / (a @ widths), 1.0)[:, None], 1.0).min(axis=0, initial=1.0)
    return widths * factor
