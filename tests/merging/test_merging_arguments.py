"""Bad arguments are named; sizes and the generator keep their promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.merging import (
    Costs,
    RowCounts,
    allocate,
    area,
    channels,
    clusters,
    generate,
    merge,
    route,
    rows,
    total_cost,
)

PRICES = Costs(1, 1, 1)
ONE = [[0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: merge([[0, 0, 1]], PRICES), "rectangles must be"),
        (lambda: merge([0, 0, 1, 1], PRICES), "rectangles must be"),
        (lambda: merge([["a"]], PRICES), "rectangles must be"),
        (lambda: merge([*ONE, [0, 0, np.nan, 1]], PRICES), "row 1"),
        (lambda: merge([*ONE, [0, 0, np.inf, 1]], PRICES), "finite, row 1"),
        (lambda: merge([*ONE, [2, 0, 1, 1]], PRICES), "above its high end in row 1"),
        (lambda: merge(ONE, PRICES, "best"), "method must be one of none, pairs"),
        (lambda: merge(ONE, PRICES, procedure="circle"), "procedure must be one of box, union, pieces"),
        (lambda: merge(ONE, PRICES, starts=0), "starts must be at least 1"),
        (lambda: merge(generate(13), PRICES, "exhaustive"), "'exhaustive' takes at most 12 .* got 13"),
        (lambda: merge(ONE, PRICES, "directed", max_size=3), "max_size and max_channels"),
        (lambda: merge(ONE, PRICES, max_channels=0), "max_channels"),
        (lambda: merge(ONE, PRICES, max_size=-1), "max_size"),
        (lambda: merge(ONE, PRICES, size=lambda boxes: np.zeros(7)), "size must return one number per box"),
        (lambda: merge(ONE, PRICES, size=lambda boxes: -area(boxes)), "size must not be negative"),
        (lambda: merge(ONE, PRICES, size=lambda boxes: area(boxes) * np.nan), "negative or NaN"),
        (lambda: merge(ONE, PRICES, periods=[0]), "periods must be whole"),
        (lambda: merge(ONE, PRICES, periods=[1, 2]), "periods must be int"),
        (lambda: merge(ONE * 3, PRICES, periods=[97, 89, 2]), "17266 ticks, more than 10000: round 97"),
        (lambda: merge(ONE, Costs(1, 1, 1, answer=lambda boxes: np.zeros(9))), "answer must give 1"),
        (lambda: Costs(-1, 1, 1), "channel must be finite and not negative, got -1"),
        (lambda: Costs(1, np.nan, 1), "transfer must be finite"),
        (lambda: Costs(1, 1, np.inf), "waste must be finite"),
        (lambda: Costs(1, 1, "x"), "waste must be a number"),
        (lambda: Costs(1, 1, 1, answer=3), "answer must be"),
        (lambda: total_cost(ONE * 2, [[0]], PRICES), "query 1 is in none"),
        (lambda: total_cost(ONE, [[0], [3]], PRICES), "group 1 names query 3"),
        (lambda: total_cost(ONE, [[0], [-1]], PRICES), "group 1 names query -1"),
        (lambda: total_cost(ONE, [[0.5]], PRICES), "groups must hold query numbers"),
        (lambda: total_cost(ONE, [[0]], PRICES, procedure=""), "procedure"),
        (lambda: clusters([[1, 2, 3]], PRICES), "rectangles"),
        (lambda: channels(ONE, [[0]], owners=[1, 2]), "owners must be one for each of the 1"),
        (lambda: route([[1, 2, 3]], ONE), "points must be"),
        (lambda: route([[1, 2]], [[3, 0, 1, 1]]), "boxes: a low end"),
        (lambda: rows(np.zeros((0, 2))), "points must be"),
        (lambda: rows([[0, np.nan]]), "row 0"),
        (lambda: rows([[0, 0]], cells=0), "cells"),
        (lambda: rows([[0, 0]])(np.zeros((1, 2))), "for this size"),
        (lambda: RowCounts([[-1.0]], [0, 0], [1, 1]), "counts must be finite"),
        (lambda: RowCounts([[1.0]], [0], [1]), "low and high"),
        (lambda: RowCounts([], 0, 1), "counts must have"),
        (lambda: allocate([1, -1], [], 1, header=1), "sizes"),
        (lambda: allocate([1], [[1]], 1, header=1), "client 0 wants group 1"),
        (lambda: allocate([1], [[0]], 0, header=1), "physical"),
        (lambda: allocate([1], [[0]], 1, header=-1), "header"),
        (lambda: generate(-1), "n must"),
        (lambda: generate(5, clustered=2), "clustered"),
        (lambda: generate(5, side=0), "side"),
        (lambda: generate(5, spread=-1), "spread"),
        (lambda: generate(5, smallest=50, largest=20), "smallest"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


boxes = st.tuples(*[st.floats(-2, 12)] * 4).map(lambda e: [*map(min, e[:2], e[2:]), *map(max, e[:2], e[2:])])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=1, max_size=20), boxes, st.floats(0, 1))
def test_rows_are_additive_and_monotone(points, box, share):
    size = rows(points, cells=5)
    x1, y1, x2, y2 = box
    middle = x1 + share * (x2 - x1)
    whole, left, right = size(np.array([box, [x1, y1, middle, y2], [middle, y1, x2, y2]]))
    assert whole == pytest.approx(left + right, abs=1e-9)
    assert left <= whole + 1e-9
    assert size(np.array([[-1e3, -1e3, 1e3, 1e3]]))[0] == pytest.approx(len(points))


def test_rows_of_one_column():
    size = rows([1.0, 2.0, 3.0, 9.0], cells=8)
    assert size(np.array([[1.0, 5.0], [5.0, 9.0], [0.0, 99.0]])).tolist() == [3, 1, 4]
    merged = merge([[0, 4], [2, 6], [-20, -10]], Costs(1, 1, 0.1), size=size)
    assert merged.groups == ((0, 1, 2),)  # no rows there: a channel more costs, its rows do not


def test_rows_that_lie_on_one_line():
    assert rows([[1.0, 5.0], [3.0, 5.0]], cells=4)(np.array([[0.0, 4.0, 9.0, 6.0]])).tolist() == [2]


def test_the_generator_makes_the_seeds_clusters():
    rectangles = generate(100, seed=1)
    sides = rectangles[:, 2:] - rectangles[:, :2]
    assert rectangles.shape == (100, 4)
    assert ((sides >= 20) & (sides <= 40)).all()
    assert ((rectangles >= 0) & (rectangles <= 400)).all()
    assert (generate(12) <= 100).all()
    np.testing.assert_array_equal(rectangles, generate(100, seed=1))
    assert not np.array_equal(rectangles, generate(100, seed=2))
    tight = generate(100, spread=1.0, seed=3)
    centres = (tight[:, :2] + tight[:, 2:]) / 2
    spread = [np.ptp(centres[a:b], axis=0).max() for a, b in ((0, 24), (24, 48), (48, 72), (72, 80))]
    assert max(spread) < 60  # clusters of 24, 24, 24 and 8; moved inside at the border by at most half a side
    assert np.ptp(centres[80:], axis=0).min() > 100
    assert len(generate(0)) == 0
    assert generate(7, clustered=0).shape == (7, 4)
