"""Slots against an obvious twin that keeps every grant."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.filters import beliefs
from tolerant.filters.state import SLOTS, ItemArrays, blank
from tolerant.kernels.decay import decayed, powers

SHRINK = 0.25


class EveryGrant:
    """The rule as it is specified: the largest width from the confirmed version on."""

    def __init__(self) -> None:
        self.grants: list[tuple[int, float, bool, int]] = []
        self.confirmed: int | None = None
        self.oldest = 1

    def believed(self, passed: int) -> float:
        if self.confirmed is None:
            return np.inf
        return max(
            decayed(width, SHRINK if shrinks else 0.0, passed - since)
            for version, width, shrinks, since in self.grants
            if version >= self.confirmed
        )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("issue"), st.floats(0, 10), st.booleans()),
        st.tuples(st.just("confirm"), st.integers(0, 12)),
        st.just(("boundary",)),
    ),
    max_size=40,
)


def run(script: list[tuple]) -> list[tuple[float, float]]:
    items = blank(ItemArrays, 1)
    items.seen[0] = True
    twin, passed, version, table = EveryGrant(), 0, 0, powers(SHRINK)
    seen = []
    for step in script:
        match step:
            case ("issue", width, shrinks):
                version += 1
                beliefs.issue(items, 0, version, width, shrinks, passed, passed, table)
                twin.grants.append((version, width, shrinks, passed))
            case ("confirm", number):
                # A version at or above the confirmed one is held; any other makes the width unknown.
                held = twin.oldest <= number <= version
                assert beliefs.confirm(items, 0, number) == held
                twin.confirmed = number if held else None
                twin.oldest = number if held else twin.oldest
            case ("boundary",):
                passed += 1
        seen.append((beliefs.believed(items, 0, passed, table), twin.believed(passed)))
    return seen


@given(steps)
@settings(max_examples=300, deadline=None)
def test_believed_is_never_narrower_than_any_grant_that_may_be_in_force(script: list[tuple]) -> None:
    for believed, widest in run(script):
        assert believed >= widest


@given(steps.filter(lambda script: sum(step[0] == "issue" for step in script) <= SLOTS))
@settings(max_examples=200, deadline=None)
def test_with_few_grants_it_is_exactly_the_widest(script: list[tuple]) -> None:
    for believed, widest in run(script):
        assert believed == widest


def test_growth_is_believed_when_decided_a_tightening_when_confirmed() -> None:
    items = blank(ItemArrays, 1)
    items.seen[0] = True
    table = powers(0.0)
    beliefs.issue(items, 0, 1, 4.0, False, 0, 0, table)
    assert beliefs.believed(items, 0, 0, table) == np.inf
    assert beliefs.confirm(items, 0, 1)
    beliefs.issue(items, 0, 2, 6.0, False, 0, 0, table)
    assert beliefs.believed(items, 0, 0, table) == 6.0
    assert beliefs.confirm(items, 0, 2)
    beliefs.issue(items, 0, 3, 1.0, False, 0, 0, table)
    assert beliefs.believed(items, 0, 0, table) == 6.0
    assert beliefs.confirm(items, 0, 3)
    assert beliefs.believed(items, 0, 0, table) == 1.0


def test_a_version_that_is_not_held_makes_the_width_unknown() -> None:
    items = blank(ItemArrays, 1)
    items.seen[0] = True
    beliefs.issue(items, 0, 5, 4.0, False, 0, 0, powers(0.0))
    assert beliefs.confirm(items, 0, 5)
    assert not beliefs.confirm(items, 0, 4)
    assert beliefs.believed(items, 0, 0, powers(0.0)) == np.inf
