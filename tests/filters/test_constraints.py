import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.filters import static_widths
from tolerant.filters.constraints import Terms, constraints_of

ITEMS = "xyzuvt"


def terms(fn, weights, within):
    return Terms(fn, np.array([ITEMS.index(item) for item in weights]), np.array(list(weights.values()), float), within)


EXAMPLE = [
    terms("avg", {"x": 1, "y": 1, "z": 1}, 2.0),
    terms("sum", {"x": 1, "y": -2}, 3.0),
    terms("min", {"z": 1, "u": 1}, 0.5),
    terms("avg", {"v": 2}, 1.0),
    terms("count", {"x": 1, "t": 1}, 0.0),
]


def dense(rows):
    table = np.zeros((len(rows), rows.n_items))
    for row in range(len(rows)):
        mine = slice(rows.indptr[row], rows.indptr[row + 1])
        table[row, rows.items[mine]] = rows.coefficients[mine]
    return table


def test_rows_of_the_worked_example():
    rows = constraints_of(EXAMPLE, len(ITEMS))
    assert dense(rows).tolist() == [
        [1, 1, 1, 0, 0, 0],
        [1, 2, 0, 0, 0, 0],
        [0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 2, 0],
    ]
    assert rows.beta.tolist() == [12, 6, 1, 1, 2]
    assert rows.query.tolist() == [0, 1, 2, 2, 3]


def test_widths_and_kinds_of_the_worked_example():
    rows = constraints_of(EXAMPLE, len(ITEMS))
    assert static_widths.uniform(rows).tolist() == [2, 2, 1, 1, 1, np.inf]
    assert static_widths.exact(rows).tolist() == [0, 0, 0, 0, 0, np.inf]
    assert rows.caps.tolist() == [6, 3, 1, 1, 1, np.inf]
    assert rows.adaptable.tolist() == [True, True, True, False, False, False]
    assert rows.fixed.tolist() == [False, False, False, True, True, False]
    assert rows.unqueried.tolist() == [False] * 5 + [True]


def test_an_item_of_weight_zero_counts_in_an_average_and_is_in_no_row():
    rows = constraints_of([terms("avg", {"x": 1, "y": 0}, 3.0)], 2)
    assert rows.beta.tolist() == [12]
    assert rows.caps.tolist() == [12, np.inf]


def test_within_zero_fixes_its_items_at_zero():
    rows = constraints_of([terms("sum", {"x": 1, "y": 1}, 0.0), terms("sum", {"y": 1, "z": 1}, 4.0)], 3)
    assert rows.uniform.tolist() == [0, 0, 4]
    assert rows.fixed.tolist() == [True, True, False]
    assert rows.adaptable.tolist() == [False, False, True]


def test_no_queries_and_queries_without_rows_leave_all_unqueried():
    for queries in ([], [terms("count", {"x": 1}, 1.0)], [terms("sum", {"x": 0}, 1.0)], [terms("sum", {}, 1.0)]):
        rows = constraints_of(queries, 2)
        assert len(rows) == 0
        assert rows.unqueried.all()
        assert rows.arrays.coupled.size == rows.arrays.alone.size == 0


def test_an_item_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"items must be in \[0, 2\)"):
        constraints_of([terms("sum", {"z": 1}, 1.0)], 2)


def test_weights_and_tolerances_at_the_ends_of_the_floats_stay_finite():
    rows = constraints_of(
        [terms("sum", {"x": 1e-320, "y": 1e300}, 1e308), terms("avg", {"x": 1e200, "z": 1}, 1e-320)], 3
    )
    assert np.isfinite(rows.caps).all()
    assert np.isfinite(rows.uniform).all()
    assert np.isfinite(rows.used(rows.uniform)).all()
    assert np.isfinite(rows.arrays.square).all()


def test_a_million_items_in_one_query_and_a_million_one_item_rows():
    items, weights = np.arange(1_000_000), np.ones(1_000_000)
    rows = constraints_of([("avg", items, weights, 1.0), ("max", items, weights, 0.5)], 1_000_000)
    assert len(rows) == 1_000_001
    assert rows.adaptable.all()
    assert (rows.uniform == 1.0).all()


queries = st.lists(
    st.builds(
        terms,
        st.sampled_from(["sum", "avg"]),
        st.dictionaries(st.sampled_from(ITEMS), st.floats(-10, 10).map(lambda w: round(w, 1))),
        st.floats(0, 10).map(lambda b: round(b, 1)),
    )
    | st.builds(
        terms,
        st.sampled_from(["min", "max", "count"]),
        st.dictionaries(st.sampled_from(ITEMS), st.just(1.0)),
        st.floats(0, 10).map(lambda b: round(b, 1)),
    ),
    max_size=6,
)


def slow_rows(queries):
    """The table of specs §2.2, one query at a time: (coefficients by item, β, query)."""
    out = []
    for number, (fn, items, weights, within) in enumerate(queries):
        row = {int(item): abs(weight) for item, weight in zip(items, weights, strict=True) if weight != 0}
        if fn in ("min", "max"):
            out += [({item: 1.0}, 2 * within, number) for item in row]
        elif fn != "count" and row:
            out.append((row, 2 * within * (len(items) if fn == "avg" else 1), number))
    return out


@settings(deadline=None)
@given(queries)
def test_rows_equal_those_made_one_query_at_a_time(queries):
    rows, slow = constraints_of(queries, len(ITEMS)), slow_rows(queries)
    assert rows.query.tolist() == [number for _, _, number in slow]
    np.testing.assert_allclose(rows.beta, [beta for _, beta, _ in slow])
    for row, (coefficients, _, _) in zip(dense(rows), slow, strict=True):
        assert row.tolist() == [coefficients.get(item, 0.0) for item in range(len(ITEMS))]
    for item in range(len(ITEMS)):
        mine = [(row, beta) for row, beta, _ in slow if item in row]
        cap = min((beta / row[item] for row, beta in mine), default=np.inf)
        assert rows.caps[item] == pytest.approx(cap)
        assert rows.uniform[item] == pytest.approx(
            min((beta / sum(row.values()) for row, beta in mine), default=np.inf)
        )
        assert rows.adaptable[item] == (cap > 0 and any(len(row) > 1 for row, _ in mine))
        assert rows.unqueried[item] == (not mine)


@settings(deadline=None)
@given(queries)
def test_the_view_by_item_holds_the_same_entries(queries):
    rows = constraints_of(queries, len(ITEMS))
    arrays, table = rows.arrays, dense(rows)
    for item in range(len(ITEMS)):
        mine = slice(arrays.item_indptr[item], arrays.item_indptr[item + 1])
        assert arrays.item_rows[mine].tolist() == np.flatnonzero(table[:, item]).tolist()
        assert arrays.item_coefficients[mine].tolist() == table[arrays.item_rows[mine], item].tolist()
    active = table * rows.adaptable
    np.testing.assert_allclose(arrays.overlaps, (active @ active.T)[np.ix_(arrays.coupled, arrays.coupled)])
    widths = np.where(rows.unqueried, 0.0, rows.uniform)
    np.testing.assert_allclose(rows.used(widths), table @ widths)
    assert (rows.used(widths) <= rows.beta * (1 + 1e-12)).all()
