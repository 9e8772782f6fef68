"""The audit of dead sources: it catches ends that trust them too far, and ends that never settle for caution."""

import inspect

import broken_leases
import pytest

from tolerant.edge.source_core import SourceCore
from tolerant.testing import simulate_faults
from tolerant.testing.adversarial import AdversarialShard, AdversarialSource
from tolerant.testing.simulation import _POLICIES
from tolerant.testing.truth import ItemTruth

CAUGHT_WITHIN = 60
FIRST = {"SaysNothingWhenItsFiltersMove": 26, "ShrinksTheDead": 40}
"""The seeds that are tried first, of mistakes that others do not bring to light."""

MISTAKES = [
    mistake
    for _, mistake in inspect.getmembers(broken_leases, inspect.isclass)
    if mistake.__module__ == "broken_leases"
]


def simulate(seed, mistake):
    of_source = issubclass(mistake, SourceCore)
    adversarial = mistake.policy == "predictive"
    return simulate_faults(
        seed,
        shard_factory=AdversarialShard if of_source else mistake,
        source_factory=mistake if of_source else AdversarialSource if adversarial else SourceCore,
        faults=mistake.faults,
    )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_about_the_dead_is_caught(mistake):
    seeds = [seed for seed in range(8 * CAUGHT_WITHIN) if _POLICIES[seed % len(_POLICIES)] == mistake.policy]
    first = [seed for seed in seeds if seed == FIRST.get(mistake.__name__)]
    assert any(not simulate(seed, mistake).ok for seed in [*first, *seeds[:CAUGHT_WITHIN]])


def test_a_dead_item_is_what_it_was_when_its_source_was_last_heard():
    truth = ItemTruth()
    truth.values.set(10, 1.0)
    truth.values.set(20, 2.0)
    truth.end_at(15)
    assert [truth.known_until(moment) for moment in (12, 15, 16, 99)] == [12, 15, 15, 15]
    truth.resume_at(40)
    assert [truth.known_until(moment) for moment in (30, 40, 41)] == [15, 40, 41]
    assert truth.values.at(truth.known_until(30)) == 1.0
