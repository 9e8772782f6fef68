"""The fault simulator plays sums in place of items, and tells a sound exchange from careless ones."""

import inspect

import broken_sum_substitution
import pytest

from tolerant.testing import Faults, simulate_faults
from tolerant.testing.adversarial import AdversarialShard, AdversarialSource

CAUGHT_WITHIN = 60
"""So many seeds at most until a mistake must have been caught."""
FIRST = {"AddsUpTooLate": 16, "CountsSumsAsItems": 17, "LetsSumsOutliveTheirItems": 8}
"""The seeds that are tried first, of mistakes that others do not bring to light."""

MISTAKES = [
    mistake
    for name, mistake in inspect.getmembers(broken_sum_substitution, inspect.isclass)
    if mistake.__module__ == "broken_sum_substitution" and not name.startswith("_")
]


def simulate(seed, mistake=None):
    shard = mistake if mistake is not None and issubclass(mistake, AdversarialShard) else AdversarialShard
    source = mistake if mistake is not None and issubclass(mistake, AdversarialSource) else AdversarialSource
    faults = getattr(mistake, "faults", Faults())  # in which the mistake comes to light more often
    return simulate_faults(seed, shard_factory=shard, source_factory=source, faults=faults)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_careless_exchange_is_caught(mistake):
    seeds = [FIRST.get(mistake.__name__, 6), *range(CAUGHT_WITHIN)]
    assert any(not simulate(seed, mistake).ok for seed in seeds)


def test_sums_are_filtered_and_every_promise_is_kept():
    reports = [simulate(seed) for seed in range(24)]
    assert [str(report) for report in reports if not report.ok] == []
    assert sum(report.messages.get("form", 0) for report in reports) > 20
    assert sum(report.messages.get("form_request", 0) for report in reports) > 0
