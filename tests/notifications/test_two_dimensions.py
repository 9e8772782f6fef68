"""Two range attributes, against recomputation of every rectangle on a grid."""

import itertools
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.notifications import Notice2D, RangeMin2D

ENDS = [-inf, 0, 1, 2, 3, inf]
SIDES = [(a, b) for a, b in itertools.combinations_with_replacement(ENDS, 2) if abs(a) < inf or a != b]
RECTANGLES = [(*us, *vs) for us, vs in itertools.product(SIDES, SIDES)]
U1, U2, V1, V2 = (np.array(part)[:, None] for part in zip(*RECTANGLES, strict=True))
places = st.tuples(st.integers(0, 3), st.integers(0, 3))
steps = st.lists(st.tuples(st.integers(0, 5), places, st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=12)


def answers_2d(rows):
    if not rows:
        return np.full(len(RECTANGLES), inf)
    u, v, y = np.array([(*place, height) for place, height in rows.values()], float).T
    return np.where((u >= U1) & (u <= U2) & (v >= V1) & (v <= V2), y, inf).min(axis=1)


@settings(deadline=None, max_examples=60)
@given(steps)
def test_every_rectangle_affected_is_told_once_and_no_other(changes):
    table, rows = RangeMin2D(), {}
    for id_, place, height in changes:
        before = answers_2d(rows)
        if height is None:
            notices = table.delete(id_) if rows.pop(id_, None) else []
        else:
            notices = (table.update if id_ in rows else table.insert)(id_, place[0], place[1], height)
            rows[id_] = place, height
        after = answers_2d(rows)
        for rectangle, old, new in zip(RECTANGLES, before.tolist(), after.tolist(), strict=True):
            heard = [notice.answer(*rectangle) for notice in notices if notice.affects(*rectangle)]
            assert heard == ([new] if old != new else []), (rectangle, notices)
    assert [table.minimum(*rectangle) for rectangle in RECTANGLES] == answers_2d(rows).tolist()
    again = RangeMin2D.of(*table.rows())
    assert len(again) == len(rows)
    assert again.minimum(-inf, inf, -inf, inf) == table.minimum(-inf, inf, -inf, inf)


def test_the_worked_example():
    others = [(2, 5, 1), (6, 6, 3), (8, 2, 2), (5, 1, 7), (1, 1, 8)]
    table = RangeMin2D.of(range(6), *zip(*others, (4, 4, 4), strict=True))
    assert table.update(5, 4, 4, 9) == [
        Notice2D(9, (4, 4), ((2, 5), (6, 6), (8, 2)), ((1, 1, 8), (5, 1, 7))),
    ]


def test_contour_and_hull_stay_small():
    rng = np.random.default_rng(0)
    n = 1000
    table = RangeMin2D.of(range(n), *rng.random((3, n)))
    notices = []
    for id_ in range(200):
        _, us, vs, _ = table.rows()
        notices += table.update(id_, us[id_], vs[id_], float(rng.random()))
    rising = [notice for notice in notices if notice.hull]
    assert 8 < np.mean([len(notice.blockers) for notice in notices]) < 25
    assert 8 < np.mean([len(notice.hull) for notice in rising]) < 40


def test_what_cannot_be_right_is_refused():
    table = RangeMin2D.of(["a"], [1], [1], [1])
    for call, named in [
        (lambda: table.insert("b", nan, 1, 1), "u must be"),
        (lambda: table.update("a", 1, inf, 1), "v must be"),
        (lambda: table.insert("a", 1, 1, 1), "id must be new"),
        (lambda: table.delete("b"), "id must be that of a row"),
        (lambda: table.minimum(2, 1, 0, 1), "u1 must be"),
        (lambda: table.minimum(0, 1, 2, 1), "v1 must be"),
        (lambda: RangeMin2D.of(["a"], [1], [inf], [1]), r"vs\[0\] must be finite"),
    ]:
        with pytest.raises(ValueError, match=named):
            call()
    assert [part.tolist() for part in table.rows()] == [["a"], [1.0], [1.0], [1.0]]
    assert "a" in table
