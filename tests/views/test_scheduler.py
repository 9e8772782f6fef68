"""The live side gives the answers of `schedule`, again and again, and after a restart."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views_strategies import problems

from tolerant.kernels.snapshots import pack, unpack
from tolerant.views import Linear, Measured, Scheduler, schedule

METHODS = ["naive", "online", "per-tick", "estimated", "forecast"]
MODELS = [Measured([1, 100], [1.0, 3.0]), Linear(0.1, 1.0)]


@settings(deadline=None, max_examples=50)
@given(problems(ticks=12, least=1), st.sampled_from(METHODS), st.sampled_from([None, 3]), st.integers(0, 1))
def test_live_and_recorded_agree(problem, method, memory, lead):
    costs, arrivals, limit = problem
    options = {"estimate": 4, "memory": memory, "lead": lead}
    live = Scheduler(costs, limit, method, **options)
    actions = [(tick, live.arrive(counts)) for tick, counts in enumerate(arrivals[:-1])]
    plan = schedule(costs, arrivals, limit, method, **options)
    assert [action for action in actions if action[1]] == [a for a in plan.actions if a[0] < len(arrivals) - 1]


def test_a_refresh_pushes_all_that_is_pending():
    live = Scheduler([Linear(1.0), Linear(2.0), Linear(1.0)], 100)
    live.arrive([1, 0, 2])
    assert live.work == 3.0
    assert live.refresh() == (0, 2)
    assert (live.work, live.refresh()) == (0.0, ())
    assert live.pending.tolist() == [0, 0, 0]


def story(seed):
    """Random calls, the same for the same seed."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        kind = rng.random()
        if kind < 0.8:
            yield "arrive", (rng.poisson(2.0, 2),)
        elif kind < 0.95:
            yield "pushed", (int(rng.integers(2)), int(rng.integers(1, 80)), float(rng.uniform(0.5, 6)))
        else:
            yield "refresh", ()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_calls_get_the_same_answers_also_after_a_restart(method):
    def live():
        return Scheduler(MODELS, 6.0, method, estimate=20, lead=1, memory=9)

    first, second = live(), live()
    for number, (name, arguments) in enumerate(story(5)):
        if number % 7 == 3:
            arrays, values = unpack(pack(*second.state()))
            second = live()
            second.load(arrays, values)
        assert getattr(first, name)(*arguments) == getattr(second, name)(*arguments)
    assert first.working_limit == second.working_limit
    assert first.costs[0](50) == second.costs[0](50)


def test_a_slow_push_lowers_the_limit_and_faithful_ones_let_it_rise_again():
    live = Scheduler(MODELS, 6.0, learn=0)
    live.pushed(1, 10, 4.0)
    assert 3.0 < live.working_limit < 6.0  # one alone may have been disturbed
    live.pushed(1, 10, 4.0)
    assert live.working_limit == 3.0
    limits = [live.working_limit]
    for _ in range(120):
        live.pushed(1, 10, 2.0)
        limits.append(live.working_limit)
    assert limits == sorted(limits)
    assert limits[-1] == pytest.approx(6.0, rel=0.05)
    for _ in range(5):
        live.pushed(1, 10, 1000.0)
    assert live.working_limit == pytest.approx(0.6)


@pytest.mark.parametrize("sigma", [0.05, 0.25])
def test_the_margin_follows_the_spread_of_what_pushes_take(sigma):
    """Whoever asks is served within the limit 99 times of 100, though durations scatter (log-normally)."""
    rng, setups, sizes = np.random.default_rng(3), (0.6, 1.1), [1, 5, 20, 50, 100] * 3

    def took(table, rows):
        return (setups[table] + 0.0005 * rows) * np.exp(sigma * rng.standard_normal())

    costs = [Measured(sizes, [took(table, size) for size in sizes]) for table in range(2)]
    limit = 0.8 * sum(cost.linear().setup for cost in costs)
    live = Scheduler(costs, limit, "per-tick", margin=0.9)
    waiting, pulls = [0, 0], []

    def push(tables):
        total = 0.0
        for table in tables:
            seconds = took(table, waiting[table])
            live.pushed(table, waiting[table], seconds)
            waiting[table] = 0
            total += seconds
        return total

    for _ in range(800):
        waiting = [rows + 1 for rows in waiting]
        push(live.arrive([1, 1]))
        if rng.random() < 0.5:
            pulls.append(push(live.refresh()))
    assert np.mean(np.array(pulls) <= limit) >= 0.99
    assert live.working_limit <= 0.9 * limit * (1 + 1e-9)
    assert np.median(pulls) > 0  # not by never letting anything wait


def test_one_slow_push_among_many_neither_moves_the_cost_nor_stops_tables_from_waiting():
    live = Scheduler([Measured([1, 100], [1.0, 1.2]), Measured([1, 100], [1.1, 1.3])], 1.6, margin=0.9)
    for turn in range(60):
        for table, seconds in ((0, 1.0), (1, 1.1)):
            live.pushed(table, 1, 2.5 * seconds if turn == 30 else seconds)
            assert live.working_limit > 1.15
    assert live.costs[0](1) == pytest.approx(1.0)


def test_pushes_that_take_less_than_predicted_leave_the_limit_alone():
    live = Scheduler(MODELS, 6.0, learn=0, margin=0.9)
    for _ in range(20):
        live.pushed(1, 10, 0.01)
    assert live.working_limit == pytest.approx(5.4)


def test_a_measured_cost_is_refitted_and_a_given_one_is_not():
    live = Scheduler(MODELS, 6.0)
    for _ in range(40):
        live.pushed(0, 100, 9.0)
        live.pushed(1, 100, 99.0)
    assert live.costs[0](100) == pytest.approx(9.0, rel=0.01)
    assert live.costs[1] == MODELS[1]


def test_recomputing_bounds_the_work():
    live = Scheduler([Linear(1.0)], 5.0, recompute=4.0)
    assert [live.arrive([3]) for _ in range(4)] == [()] * 4
    assert live.work == 4.0


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: Scheduler([Linear(1.0)], 5, "optimal"), "method"),
        (lambda: Scheduler([Linear(1.0)], 5, "estimated"), "estimate"),
        (lambda: Scheduler([Linear(1.0)], -5), "limit"),
        (lambda: Scheduler([Linear(1.0)], 5, learn=2), "learn"),
        (lambda: Scheduler([Linear(1.0)], 5, margin=0), "margin"),
        (lambda: Scheduler([Linear(1.0)], 5).arrive([1, 2]), "counts"),
        (lambda: Scheduler([Linear(1.0)], 5).arrive([-1]), "counts"),
        (lambda: Scheduler([Linear(1.0)], 5).arrive([0.5]), "counts"),
        (lambda: Scheduler([Linear(1.0)], 5).pushed(1, 1, 1.0), "table"),
        (lambda: Scheduler([Linear(1.0)], 5).pushed(0, 0, 1.0), "rows"),
        (lambda: Scheduler([Linear(1.0)], 5).pushed(0, 1, -1.0), "seconds"),
    ],
)
def test_bad_calls_are_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
