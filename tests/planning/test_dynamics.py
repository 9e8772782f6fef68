import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.planning import CosineSketch, Dynamics, RunningDynamics, cosine_between
from tolerant.traces import Trace

SCHEMA = Schema("planning", 1)


def walks(items=3, ticks=400, seed=0):
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(ticks, 2)) @ rng.normal(size=(2, items))
    return Trace(tuple(f"i{k}" for k in range(items)), np.cumsum(steps, axis=0))


def copies(values, within):
    """What a filter of half-width `within` lets pass."""
    held, rows = values[0], [values[0]]
    for row in values[1:]:
        held = np.where(abs(row - held) > within, row, held)
        rows.append(held)
    return np.array(rows)


def test_sumdiff_is_a_total_and_cosine_is_not_centred():
    trace = Trace(("up", "down", "still"), [[0, 0, 1], [1, -3, 1], [2, -6, 1]])
    dynamics = Dynamics.of(trace)
    assert dynamics.sumdiff.tolist() == [2, 6, 0]
    assert dynamics.cosine == pytest.approx(np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 1]]))
    assert dynamics.ticks == 2


def test_missing_readings_hold_the_last_and_nothing_moves_before_the_first():
    trace = Trace(("x", "y"), [[math.nan, 1], [2, math.nan], [5, 4]])
    assert Dynamics.of(trace).sumdiff.tolist() == [3, 3]


def test_copies_seen_through_a_filter_lose_swings_and_jumps_make_up_for_them():
    rng = np.random.default_rng(3)
    values = np.cumsum(rng.normal(size=(15_000, 4)), axis=0)
    items, truth = tuple("abcd"), Dynamics.of(Trace(tuple("abcd"), values)).sumdiff
    for within, lost in ((1, 0.72), (3, 0.34), (10, 0.12)):
        trace = Trace(items, copies(values, within))
        lines, jumps = Dynamics.of(trace, seen=True), Dynamics.of(trace, seen=True, method="jumps")
        assert (lines.sumdiff / truth).mean() == pytest.approx(lost, abs=0.03)
        assert (jumps.sumdiff / truth).mean() == pytest.approx(1.0, abs=0.05)


def test_straight_lines_keep_the_likeness_of_copies():
    rng = np.random.default_rng(4)
    common = rng.normal(size=(20_000, 1))
    values = np.cumsum(common + rng.normal(size=(20_000, 3)), axis=0)
    truth = Dynamics.of(Trace(tuple("abc"), values)).cosine
    seen = Dynamics.of(Trace(tuple("abc"), copies(values, 3.0)), seen=True).cosine
    raw = Dynamics.of(Trace(tuple("abc"), copies(values, 3.0))).cosine
    # Copies of items that move together change at different ticks: lines make up for some of it.
    assert (seen >= 0.2).all()
    assert abs(raw - truth).max() > 1.25 * abs(seen - truth).max()


def test_straight_lines_find_no_likeness_where_there_is_none():
    values = np.cumsum(np.random.default_rng(5).normal(size=(20_000, 4)), axis=0)
    seen = Dynamics.of(Trace(tuple("abcd"), copies(values, 3.0)), seen=True).cosine
    assert abs(seen - np.eye(4)).max() < 0.06


def test_running_dynamics_that_forget_nothing_are_those_of_the_trace():
    trace = walks()
    running = RunningDynamics(trace.items, halflife=math.inf)
    for part in np.array_split(trace.values, 7):
        running.update(part)
    of = Dynamics.of(trace)
    assert running.dynamics().sumdiff == pytest.approx(of.sumdiff)
    assert running.dynamics().cosine == pytest.approx(of.cosine)
    assert running.ticks == of.ticks


@given(cuts=st.lists(st.integers(1, 59), max_size=5), gaps=st.booleans())
@settings(max_examples=30, deadline=None)
def test_running_dynamics_do_not_depend_on_how_ticks_come(cuts, gaps):
    values = walks(ticks=60, seed=2).values.copy()
    if gaps:
        values[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    one, other = (RunningDynamics(("a", "b", "c"), halflife=20) for _ in range(2))
    for row in values:
        one.update(row)
    for part in np.split(values, sorted(cuts)):
        if len(part):
            other.update(part)
    assert one.dynamics().sumdiff == pytest.approx(other.dynamics().sumdiff)
    assert one.dynamics().cosine == pytest.approx(other.dynamics().cosine)


def test_running_dynamics_follow_a_change_and_survive_a_snapshot():
    running = RunningDynamics(("a", "b"), halflife=50)
    rng = np.random.default_rng(0)
    running.update(np.cumsum(rng.normal(0, [5, 1], (500, 2)), axis=0))
    running.update(np.cumsum(rng.normal(0, [1, 5], (500, 2)), axis=0))
    found = running.dynamics()
    assert found.sumdiff[1] > 3 * found.sumdiff[0]
    again = RunningDynamics(())
    again.load(SCHEMA.unpack(SCHEMA.pack(running.state())))
    for one in (running, again):
        one.update([1.0, 2.0])
    assert again.dynamics().sumdiff.tolist() == running.dynamics().sumdiff.tolist()


def test_items_join_and_leave():
    running = RunningDynamics(("a", "b"), halflife=math.inf)
    running.update([[0.0, 0.0], [1.0, 2.0]])
    running.add("c")
    running.remove("a")
    running.update([[3.0, 5.0], [4.0, 9.0]])
    found = running.dynamics()
    assert found.items == ("b", "c")
    # b: 2 + 1 + 1 in 3 ticks; c: 0 + 4 in the 2 ticks since it joined, as if it had been there for 3
    assert found.sumdiff == pytest.approx([4, 6])
    with pytest.raises(ValueError, match="no item is called 'a'"):
        running.remove("a")
    with pytest.raises(ValueError, match="there already"):
        running.add("b")


def test_sketches_of_two_nodes_know_how_alike_their_items_are():
    trace = walks(items=4, ticks=3000, seed=5)
    left, right = CosineSketch(trace.items[:2], 1024, seed=7), CosineSketch(trace.items[2:], 1024, seed=7)
    for tick, row in enumerate(trace.values):
        left.update(tick, row[:2])
        right.update(tick, row[2:])
    found = cosine_between(left, right)
    assert abs(found - Dynamics.of(trace).cosine).max() < 0.12
    halves = [CosineSketch(trace.items[:2], 1024, seed=7) for _ in range(2)]
    halves[1]._last = trace.values[1499, :2]
    for tick, row in enumerate(trace.values[:, :2]):
        halves[tick >= 1500].update(tick, row)
    halves[0].merge(halves[1])
    assert halves[0].sums == pytest.approx(left.sums)
    halves[0].decay(0.5)
    assert halves[0].sums == pytest.approx(left.sums / 2)
    again = CosineSketch(())
    again.load(SCHEMA.unpack(SCHEMA.pack(left.state())))
    assert again.sums.tolist() == left.sums.tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Dynamics(("a",), [1, 2], np.eye(1)), "must have the shapes"),
        (lambda: Dynamics(("a",), [-1], np.eye(1)), "not negative, got -1.0 of item 'a'"),
        (lambda: Dynamics(("a", "b"), [1, 1], [[1, 0], [2, 1]]), "cosine must be symmetric"),
        (lambda: Dynamics(("a", "a"), [1, 1], np.eye(2)), "items must all be different"),
        (lambda: Dynamics.of(walks(), method="jumps"), "it needs seen=True"),
        (lambda: Dynamics.of(walks(), seen=True, method="cubes"), "method must be one of lines, jumps"),
        (lambda: RunningDynamics(("a",), halflife=0), "halflife must be"),
        (lambda: RunningDynamics(("a",)).update([1.0, 2.0]), "values must have one entry"),
        (lambda: RunningDynamics(("a",)).update([math.inf]), "values must be finite"),
        (lambda: CosineSketch(("a",), 0), "size must be at least 1"),
        (lambda: CosineSketch(("a",)).merge(CosineSketch(("b",))), "same items, size and seed"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
