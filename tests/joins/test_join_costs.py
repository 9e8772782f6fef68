import numpy as np
import pytest

from tolerant.joins import (
    BucketCoverage,
    BucketFrequencies,
    CostCoefficients,
    Load,
    Sample,
    SelectJoins,
    calibrate,
    choose,
    estimate,
    fit_costs,
)
from tolerant.joins.method_costs import NAMES

SEED = CostCoefficients.of([0.25, 4.34, 0.36, 0.17, 0.64, 42.49, 1.19, 0.19, 0.08, 70.19, 1.17, 0, 0, 0, 0])
"""Table 4.2's coefficients."""


def load(partners, selecting, scattered_selecting):
    return Load(100_000, 100_000, partners, selecting, (160,) * 500, 20_000, scattered_selecting, (160,) * 625)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (load(10, 10_000, 2000), {"join-first": 13_727, "scan": 39_148, "select-first": 27_897, "hotspot": 6_591}),
        (load(10, 5, 1), {"join-first": 13_727, "scan": 39_148, "select-first": 510, "hotspot": 1_206}),
        (load(1, 10_000, 2000), {"join-first": 1_375, "scan": 4.1, "select-first": 497, "hotspot": 1_203}),
    ],
)
def test_the_seeds_table_to_the_digit(given, wanted):
    estimates = estimate(given, SEED, literal=True)
    assert {method: round(estimates[method], 1 if estimates[method] < 10 else None) for method in wanted} == wanted


def test_the_seeds_slip_is_mended():
    # With ln k_j, scanning 100,000 queries looks free where there is one partner.
    assert estimate(load(1, 10_000, 2000), SEED)["scan"] > 10_000
    assert choose(load(1, 10_000, 2000), SEED) == "ssi"
    assert choose(load(10, 5, 1), SEED) == "select-first"


def test_coefficients_are_fitted_with_their_intervals():
    rng = np.random.default_rng(0)
    units = np.linspace(1, 1000, 40)
    noisy = [Sample("scan_test", x, 0.5 * x + rng.normal(0, 5)) for x in units]
    fitted = fit_costs(noisy, SEED)
    assert fitted.scan_test.low < 0.5 < fitted.scan_test.high
    assert fitted.scan_test.value == pytest.approx(0.5, rel=0.02)
    assert fitted.scan_test.r_squared > 0.99
    assert fitted.join_first_stab == SEED.join_first_stab
    with pytest.raises(ValueError, match=r"samples must be of .*'speed'"):
        fit_costs([Sample("speed", 1, 1)])
    with pytest.raises(ValueError, match="scan_test must be two or more, got 1"):
        fit_costs(noisy[:1])


def test_calibration_fits_every_component():
    costs = calibrate(sizes=(300, 900), events=8)
    assert all(np.isfinite(getattr(costs, name).value) for name in NAMES)
    assert costs.scan_test.value > 0
    joins = SelectJoins(costs=costs)
    joins.add(1, 0, 1, 0, 1)
    joins.insert(1, 0, 0)
    assert SelectJoins.from_arrays(joins.to_arrays()).estimate(0, 0) == joins.estimate(0, 0)


def test_coverage_adds_the_share_of_each_bucket():
    covered = BucketCoverage(0, 8, 4)
    covered.add(1, 7)
    covered.add(2.5, 4)
    assert covered.heights.tolist() == [0.5, 1.75, 1.0, 0.5]
    assert covered.estimate(8) == 0.5
    assert covered.estimate(-1) == 0.0
    covered.remove(2.5, 4)
    assert covered.heights.tolist() == [0.5, 1.0, 1.0, 0.5]
    covered.add(-np.inf, np.inf)
    assert covered.estimate(1) == 1.5


def test_frequencies_spread_a_bucket_over_its_values():
    partners = BucketFrequencies(0, 100, 10)
    for b in range(0, 100, 2):
        partners.add(b)
    assert partners.estimate(31) == 0.5
    partners.remove(30)
    assert partners.estimate(31) == 0.4
    assert partners.estimate(1000) == 0.0


@pytest.mark.parametrize("kind", [BucketCoverage, BucketFrequencies])
def test_bad_buckets_are_named(kind):
    with pytest.raises(ValueError, match="low must be below high"):
        kind(1, 1)
    with pytest.raises(ValueError, match="buckets must be at least 1, got 0"):
        kind(0, 1, 0)
