import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planning_plain as plain
from tolerant.planning import allocate

numbers = st.floats(1e-3, 1e3)


def cost(roughness, bounds, offsets):
    return float((np.array(roughness) / (np.array(bounds) - offsets) ** 2).sum())


@given(
    parts=st.lists(st.tuples(numbers, st.floats(0, 10), st.floats(0, 1)), min_size=1, max_size=12),
    room=st.floats(1e-3, 100),
    data=st.data(),
)
@settings(max_examples=100, deadline=None)
def test_no_shift_of_the_bound_between_two_parts_is_better(parts, room, data):
    roughness, floors, shares = (np.array(column) for column in zip(*parts, strict=True))
    offsets = floors * shares
    within = floors.sum() + room
    bounds = allocate(roughness, floors, within, offsets)
    assert bounds.sum() == pytest.approx(within, rel=1e-9)
    assert (bounds >= floors).all()
    assert bounds == pytest.approx(plain.allocated(roughness, floors.tolist(), offsets.tolist(), within), rel=1e-6)
    best = cost(roughness, bounds, offsets)
    for _ in range(5):
        one, other = data.draw(st.integers(0, len(parts) - 1)), data.draw(st.integers(0, len(parts) - 1))
        shift = data.draw(st.floats(0, 0.9)) * (bounds[one] - floors[one])
        moved = bounds.copy()
        moved[one] -= shift
        moved[other] += shift
        assert cost(roughness, moved, offsets) >= best * (1 - 1e-9)


def test_it_is_as_good_as_a_solver():
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    roughness, floors = rng.lognormal(0, 2, 20), rng.uniform(0, 1, 20)
    within = floors.sum() * 1.2
    found = minimize(
        lambda c: cost(roughness, c, 0),
        floors + (within - floors.sum()) / 20,
        jac=lambda c: -2 * roughness / c**3,
        bounds=[(floor, None) for floor in floors],
        constraints={"type": "ineq", "fun": lambda c: within - c.sum(), "jac": lambda c: -np.ones(20)},
        method="SLSQP",
    )
    assert cost(roughness, allocate(roughness, floors, within), 0) <= found.fun * (1 + 1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, -1], [0, 0], 1), "roughness must be finite and positive"),
        (([1, 1], [0, -1], 1), "floors must be finite and not negative"),
        (([1, 1], [0, 0], 0), "within must be finite and positive"),
        (([1, 1], [1, 1], 1.5), r"floors add up to 2, more than within = 1\.5"),
        (([1, 1], [1, 1], 3, [2, 0]), "offsets must be finite and at most the floors"),
        (([1, 1], [1], 3), "one entry per part"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        allocate(*arguments)
