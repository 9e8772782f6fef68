import numpy as np
import pytest

from tolerant.experiments.workloads import bursty_traffic


def test_a_seed_repeats_and_another_differs():
    first = bursty_traffic([3.0, 1.0], 200, seed=4)
    np.testing.assert_array_equal(first, bursty_traffic([3.0, 1.0], 200, seed=4))
    assert not np.array_equal(first, bursty_traffic([3.0, 1.0], 200, seed=5))


def test_means_are_the_long_run_average_and_most_ticks_are_idle():
    values = bursty_traffic([10.0] * 40, 20_000, seed=1)
    assert values.mean() == pytest.approx(10.0, rel=0.25)
    assert (values == 0).mean() > 0.5


def test_without_rests_every_item_is_active():
    values = bursty_traffic([10.0] * 5, 2_000, off=0, seed=1)
    assert values.min() > 0
    assert values.mean() == pytest.approx(10.0, rel=0.05)


def test_an_item_without_traffic_stays_at_zero():
    assert not bursty_traffic([0.0], 50).any()


@pytest.mark.parametrize(
    "bad", [{"ticks": 0}, {"ticks": 5, "window": 0}, {"ticks": 5, "on": 0}, {"ticks": 5, "off": -1}]
)
def test_bad_arguments_are_named(bad):
    with pytest.raises(ValueError, match="must be"):
        bursty_traffic([1.0], **bad)
