"""The transition table of sum substitution: every pair of a phase and an event has a transition or is refused."""

from itertools import product

import pytest

from tolerant.kinds.bounded.sum_phases import TRANSITIONS, Event, Phase, next_phase

TABLE = """
              offered  forming  formed   parting  ended
SENT          FORMING  -        -        -        -
CONFIRMED     -        FORMED   -        ENDED    -
WANTED        -        -        -        FORMED   -
UNWANTED      ENDED    ENDED    PARTING  -        -
INTERRUPTED   -        ENDED    ENDED    ENDED    -
SUPERSEDED    ENDED    -        -        -        -
"""
EXPECTED = {
    (Phase[phase.upper()], Event[event]): target
    for event, *targets in map(str.split, TABLE.strip().splitlines()[1:])
    for phase, target in zip(TABLE.split()[:5], targets, strict=True)
}


def test_the_table_above_has_every_pair():
    assert set(EXPECTED) == set(product(Phase, Event))


@pytest.mark.parametrize(("phase", "event"), EXPECTED, ids=lambda member: member.name)
def test_a_pair_has_its_transition_or_is_refused(phase, event):
    target = EXPECTED[phase, event]
    if target != "-":
        assert next_phase(phase, event) is Phase[target]
    else:
        with pytest.raises(
            ValueError, match=f"^sums that are {phase.name.lower()} have no transition when {event.value}$"
        ):
            next_phase(phase, event)


def test_every_phase_but_the_last_ends_and_sums_replace_items_after_a_hidden_query_only():
    """What replaces the other form has been limited first, unless everything is interrupted."""
    assert {phase for phase, _ in TRANSITIONS} == set(Phase) - {Phase.ENDED}
    for (before, event), after in TRANSITIONS.items():
        if before.replaces_items != after.replaces_items and event is not Event.INTERRUPTED:
            assert before.has_hidden_queries
            assert not after.has_hidden_queries
