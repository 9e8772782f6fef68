"""Every client gets exactly its answer, whatever was merged, rows on edges included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_twin import prices, rectangle_sets

from tolerant.merging import allocate, channels, extracted, merge, overhearing, regions_of, route

EDGES = np.array([[x, y] for x in np.arange(-0.5, 9, 0.5) for y in np.arange(-0.5, 9, 0.5)])


def received(points, table):
    """For each (owner, query) how often each row arrives, after its extractor."""
    found = {}
    for channel in table:
        sent = channel.carries(points)
        for owner, pairs in channel.header.items():
            for extractor, query in pairs:
                kept = sent & extracted(points, extractor)
                found[owner, query] = found.get((owner, query), 0) + kept.astype(int)
    return found


@settings(max_examples=60, deadline=None)
@given(rectangle_sets(most=6, least=1), prices, st.sampled_from(["box", "union", "pieces"]), st.integers(1, 3))
def test_every_client_gets_exactly_its_rows_once(rectangles, costs, procedure, clients):
    plan = merge(rectangles, costs, procedure=procedure)
    owners = [f"c{q % clients}" for q in range(len(rectangles))]
    table = channels(rectangles, plan.groups, owners=owners, procedure=procedure)
    found = received(EDGES, table)
    for q, (x1, y1, x2, y2) in enumerate(rectangles):
        x, y = EDGES.T
        wanted = ((x1 <= x) & (x <= x2) & (y1 <= y) & (y <= y2)).astype(int)
        np.testing.assert_array_equal(found[owners[q], q], wanted)
    boxes, of = regions_of(table)
    rows, hit = route(EDGES, boxes)
    sent = np.zeros((len(table), len(EDGES)), int)
    np.add.at(sent, (of[hit], rows), 1)
    np.testing.assert_array_equal(sent, [channel.carries(EDGES).astype(int) for channel in table])


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 5), st.integers(0, 10**6))
def test_pieces_are_disjoint_in_any_dimension(dimensions, n, seed):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 4, (n, dimensions))
    rectangles = np.concatenate([low, low + rng.integers(0, 3, (n, dimensions))], axis=1)
    points = rng.integers(0, 14, (400, dimensions)) / 2
    for procedure in ("union", "pieces"):
        table = channels(rectangles, [range(n)], procedure=procedure)
        rows, _ = route(points, regions_of(table)[0])
        above, below = points[:, None] >= rectangles[:, :dimensions], points[:, None] <= rectangles[:, dimensions:]
        inside = np.all(above & below, axis=2)
        np.testing.assert_array_equal(np.bincount(rows, minlength=len(points)), inside.any(axis=1))


def test_a_piece_is_inside_or_outside_every_query():
    rectangles = [[0, 0, 4, 4], [2, 2, 6, 6], [3, 0, 5, 8]]
    for part in channels(rectangles, [[0, 1, 2]], procedure="pieces"):
        carried = EDGES[part.carries(EDGES)]
        for q, (x1, y1, x2, y2) in enumerate(rectangles):
            inside = (carried[:, 0] >= x1) & (carried[:, 0] <= x2) & (carried[:, 1] >= y1) & (carried[:, 1] <= y2)
            assert inside.all() if q in part.header else not inside.any()


def test_a_group_of_many_is_cut_into_pieces():
    rng = np.random.default_rng(2)
    low = rng.uniform(0, 10, (80, 2))
    rectangles = np.concatenate([low, low + rng.uniform(0, 4, (80, 2))], axis=1)
    table = channels(rectangles, [range(80)], procedure="pieces")
    points = rng.uniform(0, 14, (500, 2))
    rows = received(points, table)
    for q in range(80):
        wanted = (points >= rectangles[q, :2]).all(axis=1) & (points <= rectangles[q, 2:]).all(axis=1)
        np.testing.assert_array_equal(rows[q, q], wanted)


@settings(max_examples=40, deadline=None)
@given(rectangle_sets(most=8), st.integers(0, 10**6))
def test_route_is_the_test_of_all_pairs(boxes, seed):
    rng = np.random.default_rng(seed)
    points = np.concatenate([rng.integers(-1, 10, (30, 2)).astype(float), rng.uniform(-5, 20, (30, 2))])
    rows, matched = route(points, boxes)
    inside = ((points[:, None] >= boxes[None, :, :2]) & (points[:, None] <= boxes[None, :, 2:])).all(axis=2)
    expected = np.nonzero(inside)
    np.testing.assert_array_equal(rows, expected[0])
    np.testing.assert_array_equal(matched, expected[1])


def test_route_takes_odd_points_and_nothing():
    assert [len(part) for part in route([[np.nan, 1], [np.inf, 1], [1, 1]], [[0, 0, 2, 2]])] == [1, 1]
    assert [len(part) for part in route(np.zeros((0, 2)), [[0, 0, 1, 1]])] == [0, 0]
    assert [len(part) for part in route([[0, 0]], [])] == [0, 0]
    many = np.tile([[0.0, 0.0, 1.0, 1.0]], (50, 1))
    rows, matched = route(np.zeros((40, 2)), many)  # more pairs than there was room for at first
    assert len(rows) == 2000
    assert matched[:50].tolist() == list(range(50))
    rows, matched = route([1.0, 5.0], [[0, 2], [4, 5]])
    assert (rows.tolist(), matched.tolist()) == ([0, 1], [0, 1])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=5),
    st.lists(st.sets(st.integers(0, 4)), max_size=5),
    st.integers(1, 5),
    st.sampled_from([0.0, 0.1, 1.0]),
)
def test_allocation_is_as_good_as_single_moves_can_make_it(sizes, wants, physical, listen):
    groups = len(sizes)
    wants = [[g for g in some if g < groups] for some in wants]
    where = allocate(sizes, wants, physical, header=1, listen=listen)
    assert len(set(where.tolist())) <= physical

    def extra(one):
        tuned = [{one[g] for g in some} for some in wants]
        return sum(
            1 + listen * sizes[g]
            for some, on in zip(wants, tuned, strict=True)
            for g in range(groups)
            if one[g] in on and g not in some
        )

    found = extra(where)
    assert overhearing(where, sizes, wants, header=1, listen=listen) == pytest.approx(found)
    for group in range(groups):
        for other in range(min(physical, groups)):
            moved = where.copy()
            moved[group] = other
            assert found <= extra(moved) + 1e-9
