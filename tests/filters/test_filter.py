import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.filters.filter import Filter

finite = st.floats(-1e12, 1e12)


def test_offers_pass_only_beyond_half_the_width():
    door = Filter(4, 10)
    offers = [11, 12, 12.1, 14, 14.2, 14.1, 12.0]
    assert [door.offer(value) for value in offers] == [False, False, True, False, True, False, True]


def test_shrink_and_grant_follow_the_worked_example():
    door = Filter(4, 10, shrink=0.25)
    assert not door.offer(11.8)
    assert door.shrink()
    assert (door.width, door.centre) == (3, 11.8)
    assert not door.grant(5)
    assert not door.offer(12.9)
    assert door.grant(2)
    assert door.centre == 12.9


def test_a_narrower_grant_always_sends_and_a_repeated_one_never_does():
    door = Filter(4, 10)
    assert door.grant(3)
    assert not door.grant(3)
    assert not door.grant(math.inf)


def test_width_zero_sends_every_change_and_infinite_width_none():
    every, none = Filter(0, 1), Filter(math.inf, 1)
    assert [every.offer(value) for value in (1, 2, 2, 1)] == [False, True, False, True]
    assert not any(none.offer(value) for value in (1e300, -1e300))
    assert not none.shrink()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused_and_changes_nothing(value):
    door = Filter(4, 10)
    door.offer(11.8)
    with pytest.raises(ValueError, match="finite"):
        door.offer(value)
    assert (door.width, door.centre) == (4, 10)
    assert door.grant(1)
    assert door.centre == 11.8


@pytest.mark.parametrize(
    "arguments", [(-1, 0), (math.nan, 0), (1, math.nan), (1, 0, 1), (1, 0, -0.1), (1, 0, math.nan)]
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ValueError):
        Filter(*arguments)
    with pytest.raises(ValueError):
        Filter(1, 0).grant(math.nan)


@given(st.floats(0, 100), st.lists(st.one_of(finite, st.just("shrink"), st.floats(0, 100).map(lambda w: (w,)))))
def test_the_value_is_always_within_half_the_width_of_what_was_sent(width, events):
    door, last, sent = Filter(width, 0), 0.0, 0.0
    for event in events:
        if event == "shrink":
            sends = door.shrink()
        elif isinstance(event, tuple):
            sends = door.grant(*event)
        else:
            last = event
            sends = door.offer(last)
        sent = last if sends else sent
        assert door.centre == sent
        assert abs(last - sent) <= door.width / 2
