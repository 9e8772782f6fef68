"""`docs/design/filters.md` §5.3: minima and maxima that ask, against what every item by itself would send."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tolerant.filters import simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace, random_walk


def low(items, within=1.0, fn="min"):
    return Aggregate.over("q", fn, items, within)


def test_items_far_above_stay_silent_while_they_do_not_matter():
    trace = Trace("ab", [[0, 100 + 7 * (t % 3)] for t in range(50)])
    run = simulate(trace, [low("ab")], "predictive")
    assert (run.updates, run.grants, run.violations) == (0, 0, 0)
    assert run.widths.tolist() == [2, np.inf]


def test_an_item_that_falls_through_its_floor_says_so():
    falling = [100.0, 90.0, 60.0, 30.0, 10.0, 0.5, -3.0]
    run = simulate(Trace("ab", [[0, v] for v in falling]), [low("ab")], "predictive")
    assert run.violations == 0
    assert run.updates_by_item[0] == 0
    assert 0 < run.updates_by_item[1] < len(falling)


def test_when_the_lowest_rises_above_a_floor_that_item_is_asked():
    rising = [0.0, 20.0, 45.0, 80.0, 120.0]
    run = simulate(Trace("ab", [[v, 100] for v in rising]), [low("ab")], "predictive")
    assert run.violations == 0
    assert run.grants_by_item[1] > 0
    assert run.updates_by_item[1] > 0


@pytest.mark.parametrize("fn", ["min", "max"])
def test_it_sends_a_fraction_of_what_everybody_for_himself_would(fn):
    trace = random_walk(40, 2000, 0.5, seed=3)
    queries = [low(trace.items, 2.0, fn)]
    asking, alone = (simulate(trace, queries, policy) for policy in ("predictive", "adaptive"))
    assert asking.violations == 0
    assert asking.cost < 0.5 * alone.cost


VALUES = st.sampled_from([0.0, 0.5, -1.0, 3.0, 9.0, 40.0, -200.0, 1e9])


@settings(deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda n: arrays.arrays(np.float64, st.tuples(st.integers(1, 25), st.just(n)), elements=VALUES)
    ),
    st.sampled_from([0.0, 0.4, 3.0]),
    st.sampled_from(["min", "max"]),
    st.integers(0, 10),
)
def test_no_promise_is_broken_and_negating_everything_changes_nothing(values, within, fn, late):
    values = values.copy()
    values[:late, 0] = np.nan
    trace = Trace(tuple("abcde"[: values.shape[1]]), values)
    run = simulate(trace, [low(trace.items, within, fn)], "predictive")
    assert run.violations == 0
    other = simulate(
        Trace(trace.items, -values), [low(trace.items, within, {"min": "max", "max": "min"}[fn])], "predictive"
    )
    assert (run.updates, run.grants) == (other.updates, other.grants)


def test_items_that_another_query_needs_keep_their_filters():
    trace = random_walk(4, 300, 1.0, seed=1)
    run = simulate(trace, [low(trace.items), Aggregate.over("s", "sum", trace.items[:1], 1)], "predictive")
    assert run.violations == 0
    assert np.isfinite(run.widths).all()
