"""Promises that are admitted are kept: an engine that is always busy, and whoever asks at the worst moments."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tolerant.views.capacity import MARGIN, Promise, limits, needed, spare, urgency

TIMES = st.sampled_from([1.0, 2.0, 3.0, 8.0, 20.0])
FLOORS = st.floats(0.01, 2.0)
VIEWS = st.dictionaries(
    st.sampled_from("abcdefg"), st.builds(Promise, TIMES, FLOORS, st.sampled_from([1, 2])), min_size=1
)


def admitted(promises):
    """Those that are admitted one after the other, as a pipeline does it."""
    kept = {}
    for name, promise in promises.items():
        if needed(name, {**kept, name: promise}) <= promise.within:
            kept[name] = promise
    return kept


def serve(promises, requests):
    """(view, time from request to answer) of every request. Whatever is asked for takes as long as it may; a push that
    takes as long as it may begins whenever nobody waits.
    """
    allowed = limits(promises)
    served = dict.fromkeys(promises, -math.inf)
    coming, waiting, answered, now = sorted(requests, key=lambda one: one[1]), [], [], 0.0
    while coming or waiting:
        while coming and coming[0][1] <= now:
            waiting.append(coming.pop(0))
        if not waiting:
            now += allowed.piece
            continue
        asked = {name: min(at for other, at in waiting if other == name) for name, _ in waiting}
        order = {
            name: urgency(at + promises[name].within, promises[name].within, served[name], now)
            for name, at in asked.items()
        }
        name = min(order, key=order.get)
        served[name] = now
        batch, waiting = [one for one in waiting if one[0] == name], [one for one in waiting if one[0] != name]
        now += allowed.refresh[name]
        answered += [(name, now - at) for _, at in batch]
    return answered


@given(VIEWS)
def test_what_is_admitted_leaves_time_and_what_is_not_does_not(promises):
    for name, promise in promises.items():
        within = needed(name, promises)
        if math.isfinite(within):
            assert spare({**promises, name: replace(promise, within=within)}) >= -1e-9
            assert spare({**promises, name: replace(promise, within=0.99 * within)}) < 0
        assert (within <= promise.within + 1e-9) >= (spare(promises) >= 0)
    kept = admitted(promises)
    assert spare(kept) >= -1e-9


@given(VIEWS)
def test_limits_use_up_the_time_and_no_more(promises):
    kept = admitted(promises)
    if not kept:
        return
    allowed = limits(kept)
    shortest = min(promise.within for promise in kept.values())
    used = sum(kept[name].jobs * seconds / kept[name].within for name, seconds in allowed.refresh.items())
    assert used + allowed.piece / shortest <= MARGIN + 1e-9
    assert all(allowed.refresh[name] >= promise.floor for name, promise in kept.items())
    assert all(allowed.refresh[name] <= allowed.piece for name in kept if kept[name].within > shortest)


@given(TIMES, st.lists(FLOORS, min_size=1, max_size=7), st.data())
def test_whoever_asks_however_often_is_served_in_time(within, floors, data):
    kept = admitted({f"v{place}": Promise(within, floor) for place, floor in enumerate(floors)})
    if kept:
        asked = st.tuples(st.sampled_from(sorted(kept)), st.floats(0, 5 * within))
        answered = serve(kept, data.draw(st.lists(asked, max_size=60)))
        assert all(seconds <= within + 1e-9 for _, seconds in answered)


@given(VIEWS, st.data())
def test_views_of_different_times_that_are_asked_for_once_per_time_are_served_in_time(promises, data):
    kept = admitted({name: Promise(one.within, one.floor) for name, one in promises.items()})
    requests = []
    for name, promise in kept.items():
        at = data.draw(st.floats(0, 5))
        for pause in data.draw(st.lists(st.floats(1, 2), max_size=8)):
            requests.append((name, at))
            at += 2 * pause * promise.within  # its turn may come at the end of its time
    for name, seconds in serve(kept, requests) if kept else ():
        assert seconds <= kept[name].within + 1e-9


def test_a_view_beside_which_nothing_else_fits():
    promises = {"a": Promise(1.0, 0.5), "b": Promise(100.0, 0.1)}
    assert needed("b", promises) == math.inf
    assert needed("a", {"a": promises["a"]}) == pytest.approx(2 * 0.5 / MARGIN)
