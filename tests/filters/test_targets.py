import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from tolerant.filters.constraints import WidthConstraints, constraints_of
from tolerant.filters.targets import deviations, improve, solve


def sums(*rows, n):
    """One sum a row, given as {item: weight}."""
    return constraints_of(
        [("sum", np.array(list(row)), np.array([float(w) for w in row.values()]), 5.0) for row in rows], n
    )


def sparse_only(rows):
    """The same rows as compiled code takes them when the matrix of overlaps is too large."""
    return rows.arrays._replace(overlaps=np.zeros((0, 0)))


def slow_deviations(rows: WidthConstraints, burdens):
    """By the textbook's active sets, on the dense matrix."""
    table = np.zeros((len(rows), rows.n_items))
    for row in range(len(rows)):
        mine = slice(rows.indptr[row], rows.indptr[row + 1])
        table[row, rows.items[mine]] = rows.coefficients[mine]
    table = table[:, rows.adaptable]
    out = np.zeros(rows.n_items)
    targets = nnls(table.T, burdens[rows.adaptable])[0] if table.size else np.zeros(len(rows))
    out[rows.adaptable] = np.maximum(burdens[rows.adaptable] - table.T @ targets, 0)
    return out


@pytest.mark.parametrize(
    ("burdens", "targets", "expected"),
    [
        ([0.3, 0.2, 0.1], [0.7 / 3, 0.1 / 3], [0.2 / 3, 0, 0.2 / 3]),
        ([0, 6, 0], [2, 2], [0, 2, 0]),
        ([0, 0, 6], [0, 3], [0, 0, 3]),
    ],
)
def test_two_overlapping_rows_follow_the_worked_example(burdens, targets, expected):
    rows = sums({0: 1, 1: 1}, {1: 1, 2: 1}, n=3)
    found = solve(rows, np.array(burdens))
    np.testing.assert_allclose(found, targets, atol=1e-12)
    np.testing.assert_allclose(deviations(rows, np.array(burdens), found), expected, atol=1e-12)


def test_the_same_row_twice_is_singular_and_gives_the_one_deviation():
    rows = sums({0: 1, 1: 1}, {0: 1, 1: 1}, n=2)
    for start in (None, np.array([0.3, 0.0]), np.array([0.1, 0.2]), np.array([5.0, 7.0])):
        targets = solve(rows, np.array([0.4, 0.2]), start)
        np.testing.assert_allclose(deviations(rows, np.array([0.4, 0.2]), targets), [0.1, 0], atol=1e-12)


def test_weighted_rows_on_which_the_seeds_iteration_diverges():
    rows = sums({0: 1, 1: 1}, {0: 1, 1: 4}, n=2)
    np.testing.assert_allclose(solve(rows, np.array([3.0, 6.0])), [2, 1], atol=1e-12)


def test_one_row_has_its_closed_form_from_any_start():
    rows = sums({0: 1, 1: 2, 2: 3}, n=3)
    burdens = np.array([0.3, 0.5, 0.1])
    exact = (0.3 + 1.0 + 0.3) / 14
    for start in (None, np.array([123.456]), np.array([exact])):
        assert solve(rows, burdens, start)[0] == pytest.approx(exact, rel=1e-15)
    assert solve(rows, burdens)[0] == solve(rows, burdens, np.array([9.0]))[0]


def test_fixed_items_take_no_part():
    shared = ("sum", np.array([0, 1, 2]), np.ones(3), 6.0)
    silent = ("sum", np.array([2]), np.ones(1), 0.0)
    single = ("min", np.array([3]), np.ones(1), 1.0)
    rows = constraints_of([shared, silent, single], 4)
    targets = solve(rows, np.array([0.4, 0.2, 0.0, 0.0]))
    np.testing.assert_allclose(targets, [0.3, 0, 0], atol=1e-12)


def test_no_burden_means_no_target():
    rows = sums({0: 1, 1: 1}, {1: 1, 2: 1}, n=3)
    assert solve(rows, np.zeros(3), np.array([3.0, 4.0])).tolist() == [0, 0]
    assert solve(constraints_of([], 3), np.zeros(3)).tolist() == []


def test_a_start_of_other_rows_is_refused():
    with pytest.raises(ValueError, match="one target for each of the 1 rows"):
        solve(sums({0: 1, 1: 1}, n=2), np.zeros(2), np.zeros(3))


def test_thousands_of_rows_over_the_same_items():
    rng = np.random.default_rng(5)
    items = np.arange(10)
    rows = constraints_of([("sum", items, rng.uniform(0.5, 2, 10), 1.0) for _ in range(3000)], 10)
    burdens = rng.uniform(0, 1, 10)
    np.testing.assert_allclose(
        deviations(rows, burdens, solve(rows, burdens)), slow_deviations(rows, burdens), atol=1e-6
    )


@st.composite
def problems(draw):
    n = draw(st.integers(1, 8))
    weights = st.sampled_from([0.5, 1.0, 1.0, 2.0, 10.0])
    rows = draw(st.lists(st.dictionaries(st.integers(0, n - 1), weights, min_size=1), min_size=1, max_size=8))
    burdens = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.3, 1.0, 7.0]), min_size=n, max_size=n).map(np.array)
    return sums(*rows, n=n), draw(burdens), draw(burdens)


@settings(deadline=None)
@given(problems())
def test_deviations_equal_those_of_the_slow_solver_from_any_start(problem):
    rows, before, burdens = problem
    expected = slow_deviations(rows, burdens)
    near = 2e-6 * burdens.max()
    targets = solve(rows, burdens, solve(rows, before))
    assert (targets >= 0).all()
    np.testing.assert_allclose(deviations(rows, burdens, targets), expected, atol=near)
    targets = np.zeros(len(rows))
    improve(sparse_only(rows), burdens, targets)
    np.testing.assert_allclose(deviations(rows, burdens, targets), expected, atol=near)
