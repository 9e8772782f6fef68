import numpy as np
import pytest

from tolerant.edge.values import as_numbers


@pytest.mark.parametrize(
    "values", [[1, 2.5], (1.0, 2.5), np.array([1.0, 2.5], np.float32), [np.int16(1), np.float32(2.5)]]
)
def test_integers_and_floats_are_numbers(values):
    assert as_numbers(values, ["a", "b"]).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("bad", ["2", None, True, 1j, [1], np.bool_(True)])
def test_what_is_no_number_is_refused_with_its_item_and_position(bad):
    with pytest.raises(ValueError, match="for item 'b' at position 1"):
        as_numbers([1.0, bad], ["a", "b"])


@pytest.mark.parametrize(
    "values", ["12", 7, np.array(["1", "2"]), np.array([True, False]), np.zeros((2, 1)), [10**400, 1], [1.0]]
)
def test_what_is_no_array_of_numbers_is_refused(values):
    with pytest.raises(ValueError, match="values must"):
        as_numbers(values, ["a", "b"])
