import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tolerant.polling.choice.lanes import LANES, build_lanes, group_over, set_limits
from tolerant.polling.query_arrays import build_query_arrays, index_items, reset_feedback
from tolerant.queries import Aggregate

ITEMS = [f"i{k}" for k in range(6)]
WEIGHTS = st.dictionaries(st.sampled_from(ITEMS), st.floats(-3, 3).map(lambda weight: round(weight, 3)), max_size=6)
LINEAR = st.builds(
    lambda fn, weights, within: (fn, weights, within), st.sampled_from(["sum", "avg"]), WEIGHTS, st.floats(0, 9)
)
OTHERS = st.builds(lambda fn: (fn, {"i0": 1.0, "i3": 1.0}, 0.0), st.sampled_from(["min", "max", "count"]))


def over(queries, table, changes):
    """The linear queries that are over, summed up one by one in the order of their weights."""
    found = set()
    for query, record in zip(queries, table, strict=True):
        if query.fn in ("sum", "avg"):
            size = len(query.weights) if query.fn == "avg" else 1
            off = sum(weight / size * changes[item] for item, weight in query.weights.items() if weight)
            if abs(off) > record["safety"] * record["bound"]:
                found.add(query.name)
    return found


@given(
    st.lists(st.one_of(LINEAR, OTHERS), max_size=15),
    st.lists(st.floats(-5, 5), min_size=6, max_size=6),
    st.floats(0.05, 2),
    st.integers(-2, 20),
)
def test_a_group_is_found_exactly_where_a_query_is_over(asked, moved, safety, hint):
    queries = [Aggregate(f"q{k}", *each) for k, each in enumerate(asked)]
    index = index_items(queries)
    table, links = build_query_arrays(queries, index)
    reset_feedback(table, 1.0, 0.1)
    lanes = build_lanes(table, links, len(index))
    table["safety"] = safety
    set_limits(lanes, table)
    changes = dict(zip(ITEMS, moved, strict=True))
    expected = over(queries, table, changes)
    begin = np.array([hint])
    found = group_over(lanes, np.array([*(changes[item] for item in index), 0.0]), begin)
    assert (found >= 0) == bool(expected)
    if expected:
        members = lanes.queries[found * LANES : (found + 1) * LANES]
        assert begin[0] == found
        assert expected & {queries[q].name for q in members if q >= 0}


def test_every_link_stands_in_one_lane():
    queries = [Aggregate("a", "sum", {"x": 1, "y": 2, "z": 3}, 1), Aggregate("b", "sum", {"y": 4}, 2)]
    table, links = build_query_arrays(queries, index_items(queries))
    reset_feedback(table, None, 0.1)
    lanes = build_lanes(table, links, 3)
    assert lanes.queries.tolist() == [1, 0, -1, -1]
    assert lanes.weights.reshape(-1, LANES).tolist() == [[4, 1, 0, 0], [0, 2, 0, 0], [0, 3, 0, 0]]
    assert lanes.items.reshape(-1, LANES).tolist() == [[1, 0, 3, 3], [3, 1, 3, 3], [3, 2, 3, 3]]
    assert lanes.limits.tolist() == [2 * (1 + 1e-9), 1 + 1e-9, np.inf, np.inf]
