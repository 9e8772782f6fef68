import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ladder_twin import RUNGS, Twin, width_of

from tolerant.filters.filter_simulation import simulate
from tolerant.filters.ladder import FIRED, LATELY, NOW, begin, ladder, observe, propose
from tolerant.filters.rate_curves import BEFORE, REPORT, rate_at, read_report, write_report
from tolerant.queries import Aggregate
from tolerant.traces import Trace

KINDS = ("walk", "noise", "trend", "bursts", "still", "ramps", "huge", "tiny")


def values_of(kind, seed, ticks=150):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=ticks)
    if kind == "noise":
        return 5 + noise
    if kind == "trend":
        return 0.7 * np.arange(ticks) + 0.2 * noise
    if kind == "bursts":
        return (noise * np.where(np.arange(ticks) // 40 % 2, 30, 0.1)).cumsum()
    if kind == "ramps":
        return (np.where(np.arange(ticks) // 25 % 2, rng.normal(3, 0.1, ticks), 0.0)).cumsum()
    if kind == "still":
        return (noise * (rng.random(ticks) < 0.1)).cumsum()
    return noise.cumsum() * {"walk": 1.0, "huge": 1e150, "tiny": 1e-150}[kind]


def scale_of(kind):
    return {"huge": 1e150, "tiny": 1e-150}.get(kind, 1.0)


def run_both(kind, seed, unit):
    values = values_of(kind, seed)
    slow, fast = Twin(unit, values[0]), ladder(3)
    begin(fast, 1, unit, values[0])
    for value in values[1:]:
        slow.observe(value)
        observe(fast, 1, value)
    return values, slow, fast


def sent(shadows, item, which):
    """What each rung has sent, by one of the three counts."""
    return shadows.chosen[item, which : which + RUNGS].tolist()


def report_of(shadows, item):
    report, life, now = np.zeros(REPORT, np.uint8), np.zeros(RUNGS), np.zeros(RUNGS)
    write_report(shadows, item, report)
    read_report(report, life, now)
    return life, now


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 2.0, 17.0, 400.0]))
@example("trend", 0, 2.0)
@example("noise", 0, 2.0)
def test_equals_the_slow_twin(kind, seed, unit):
    unit *= scale_of(kind)
    values, slow, fast = run_both(kind, seed, unit)
    assert sent(fast, 1, FIRED) == slow.fired
    np.testing.assert_allclose(sent(fast, 1, LATELY), slow.lately, rtol=1e-9)
    np.testing.assert_allclose(sent(fast, 1, NOW), slow.now, rtol=1e-9)
    for found, expected in zip(report_of(fast, 1), slow.report(), strict=True):
        # A byte a rung: eighths of an octave, no rate below 2^(−255/8).
        np.testing.assert_allclose(np.log2(found), np.log2(expected), atol=1 / 16 + 1e-6)
    for rung in (1, 5, 9, 13, 17) if unit else ():
        width = 1.05 * width_of(rung, unit)
        for centre in (values[-1] - width, values[-1] + width):
            expected = slow.predict(slow.choice(rung), width, centre)
            np.testing.assert_allclose(
                propose(fast, 1, values[-1], width, values[-1] - centre), expected, rtol=1e-7, atol=1e-9 * width
            )


def test_the_slope_of_a_ramp_is_known_one_tick_after_its_start():
    shadows, ramp = ladder(1), [0.0] * 50 + [8.0 * tick for tick in range(1, 30)] + [232.0] * 50
    begin(shadows, 0, 1.0, 0.0)
    for cycle in range(6):
        for tick, value in enumerate(ramp):
            observe(shadows, 0, value + 232.0 * cycle)
            if tick in (50, 60, 79, 90):
                assert shadows.fast[0] == pytest.approx(8.0 if tick < 79 else 0.0, abs=1e-9)
    # One update or two at each end of a ramp instead of one at each of its ticks.
    assert sent(shadows, 0, FIRED)[9] < 0.3 * sent(shadows, 0, FIRED)[0]


def test_items_do_not_touch_each_other():
    _, _, both = run_both("walk", 3, 2.0)
    assert not any(sent(both, 0, FIRED) + sent(both, 2, FIRED))


def test_a_ladder_begun_anew_has_forgotten():
    _, _, used = run_both("bursts", 5, 2.0)
    begin(used, 1, 0.7, -4.0)
    fresh, values = ladder(3), values_of("walk", 9)
    begin(fresh, 1, 0.7, -4.0)
    for value in values:
        observe(used, 1, value)
        observe(fresh, 1, value)
    assert sent(used, 1, FIRED) == sent(fresh, 1, FIRED)
    for old, new in zip(report_of(used, 1), report_of(fresh, 1), strict=True):
        assert old.tolist() == new.tolist()


def test_before_the_first_tick_a_report_says_what_any_item_is_expected_to_send():
    shadows = ladder(1)
    begin(shadows, 0, 3.0, 1.0)
    for curve in report_of(shadows, 0):
        np.testing.assert_allclose(curve, BEFORE, rtol=0.05)
    assert BEFORE[0] == 1
    assert BEFORE[9] == pytest.approx(0.02)


def test_a_curve_between_beyond_and_below_its_rungs():
    curve = 0.9 * 0.5 ** np.arange(RUNGS)
    assert rate_at(curve, 8.0, 0.0) == 0.9
    assert rate_at(curve, 8.0, 0.25) == pytest.approx((0.9 + 0.45) / 2)
    assert rate_at(curve, 8.0, 8.0) == pytest.approx(0.9 * 0.5**9)
    assert rate_at(curve, 8.0, 8.0 * 2**0.25) == pytest.approx(0.9 * 0.5**9.5)
    assert rate_at(curve, 8.0, 256.0) == pytest.approx(0.9 * 0.5**17 / 4)
    assert rate_at(curve, 0.0, 5.0) == 0.9


@pytest.mark.parametrize("width", [0.0, math.inf])
def test_without_a_width_there_is_no_prediction(width):
    _, _, shadows = run_both("trend", 1, 2.0)
    assert propose(shadows, 1, 9.0, width, 1.0) == (9.0, 0.0)


def test_a_prediction_beyond_the_largest_float_is_none():
    shadows = ladder(1)
    begin(shadows, 0, 1e300, 1.7e308)
    for tick in range(20):
        observe(shadows, 0, 1.7e308 * (-1) ** tick)
    level, slope = propose(shadows, 0, 1.7e308, 1e307, 1.0)
    assert math.isfinite(level)
    assert math.isfinite(slope)


def swinging_door(values, error):
    """Textbook compression: archive the point before the one at which the doors are past parallel."""
    kept, upper, lower = [0], -math.inf, math.inf
    for at in range(1, len(values)):
        start = kept[-1]
        upper = max(upper, (values[at] - values[start] - error) / (at - start))
        lower = min(lower, (values[at] - values[start] + error) / (at - start))
        if upper > lower:
            kept.append(at - 1)
            upper, lower = values[at] - values[at - 1] - error, values[at] - values[at - 1] + error
    kept.append(len(values) - 1)
    return np.interp(np.arange(len(values)), kept, np.asarray(values)[kept])


DOOR = [0.0, 1.9, 0.9, -5.0, -5.0, -3.1, -4.1, -9.0, -9.0]
"""The line from 0 to the point at tick 2 passes the one at tick 1 by 1.45, though the doors were open."""


def test_the_counterexample_to_the_textbook_swinging_door_does_not_concern_the_predictive_filter():
    assert np.abs(swinging_door(DOOR, 1.0) - DOOR).max() == pytest.approx(1.45)
    values = np.array(DOOR * 40)
    shadows, width = ladder(1), 2.0
    begin(shadows, 0, width, values[0])
    level, slope, since, sent = values[0], 0.0, 0, 0
    for tick in range(1, len(values)):
        observe(shadows, 0, values[tick])
        off = values[tick] - (level + slope * (tick - since))
        if abs(off) > width / 2:
            level, slope = propose(shadows, 0, values[tick], width, off)
            since, sent = tick, sent + 1
        assert abs(values[tick] - (level + slope * (tick - since))) <= width / 2
    assert 0 < sent < len(values)
    trace = Trace(("a", "b"), np.column_stack([values, -2 * values]))
    run = simulate(trace, [Aggregate.over("q", "avg", "ab", 1.0)], "predictive")
    assert run.violations == 0
    assert run.updates > 0
