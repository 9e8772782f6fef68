"""Levels for parts that are far from a minimum or maximum: always sound, and worth their messages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cases import cases, walk
from test_plan_lifecycle import Hierarchy, servers_of

from tolerant.planning import Dynamics, Network, PlanClient, plan, simulate, simulate_levels
from tolerant.planning.levels import APART, PUSHES, extreme_of, wanted_levels
from tolerant.queries import Aggregate
from tolerant.traces import Trace, random_walk

ITEMS = ("a", "b", "c")
NETWORK = Network({"A": {"a": 0.1}, "B": {"b": 0.1}, "C": {"c": 0.2}})
STILL = Dynamics(ITEMS, [1, 1, 1], np.eye(3))


@given(case=cases(tree=True, fns=("max", "min")), data=st.data())
@settings(max_examples=100, deadline=None)
def test_levels_break_no_promise_and_servers_and_client_do_what_the_simulation_counts(case, data):
    query, network, dynamics = case
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    trace = walk(rng, dynamics.items, 60, grid=data.draw(st.booleans()), gaps=False)
    apart = data.draw(st.sampled_from([0.0, 10.0, 100.0])) * query.within
    trace = Trace(trace.items, trace.values + apart * rng.integers(0, 3, len(trace.items)))
    made, period = plan(query, network, dynamics, "exact"), data.draw(st.sampled_from([1, 5]))
    run = simulate_levels(made, trace, period)
    assert run.violations == 0
    rows = [dict(zip(trace.items, row, strict=True)) for row in trace.values.tolist()]
    hierarchy, servers, client = Hierarchy(network, rows[0]), servers_of(made, rows[0]), PlanClient(made)
    for k, server in enumerate(servers):
        client.refresh(k, server.sent, 0)
    client._pushes = [0] * len(servers)  # the simulation does not count what is said at the start
    sent, told = [0] * len(servers), 0
    for tick, row in enumerate(rows[1:], 1):
        for k, server in enumerate(servers):
            aggregator = server.part.aggregator
            pushed = server.offer_many({i: hierarchy.offered(aggregator, i, row) for i in server.part.weights})
            if pushed is not None:
                sent[k] += 1
                client.refresh(k, pushed, 0, server.level)
        hidden = client.hidden()
        low, _, high = client.answer()
        truth = {"min": min, "max": max}[query.fn](row[item] for item in query.weights)
        slack = 1e-6 * query.within
        assert low - slack <= truth <= high + slack  # also while a level hides the answer
        assert client.settling == bool(hidden)
        for k, level in (dict.fromkeys(hidden) or (client.wanted_levels() if tick % period == 0 else {})).items():
            client.refresh(k, servers[k].set_level(level), 0, level)
            sent[k] += 1
            told += 1
        low, _, high = client.answer()
        assert low - slack <= truth <= high + slack
        assert high - low <= 2 * query.within * (1 + 1e-6)
        assert not client.settling
    assert (tuple(sent), told) == (run.by_part, run.level_messages)


@pytest.mark.parametrize("fn", ["max", "min"])
def test_parts_that_are_far_away_are_silent(fn):
    sign = 1 if fn == "max" else -1
    trace = random_walk(ITEMS, 5_000, steps=[0.2, 0.5, 0.5], seed=3)
    trace = Trace(ITEMS, sign * (trace.values - trace.values[0]) + sign * np.array([200.0, 0.0, -20.0]))
    made = plan(Aggregate.over("q", fn, ITEMS, 1.0), NETWORK, Dynamics.of(trace))
    always, levelled = simulate(made, trace), simulate_levels(made, trace)
    assert levelled.violations == 0
    assert 0 < levelled.level_messages <= 4
    assert levelled.refreshes + levelled.level_messages < 0.3 * always.refreshes


def test_an_answer_that_comes_down_to_a_level_is_hidden_by_it():
    client = PlanClient(plan(Aggregate.over("q", "max", ITEMS, 1.0), NETWORK, STILL))
    for part, value in enumerate((20.0, 4.0, 5.0)):
        client.refresh(part, value, 0)
    assert client.wanted_levels() == {}  # nobody has spoken often enough
    for _ in range(PUSHES):
        client.refresh(1, 4.0, 0)
    assert client.wanted_levels() == {1: 12.0}
    client.refresh(1, 12.0, 0, 12.0)
    assert client.answer() == (19.0, 20.0, 21.0)
    client.refresh(0, 11.0, 0)
    assert client.hidden() == (1,)
    assert client.settling
    assert client.answer() == (10.0, 11.0, 13.0)
    again = PlanClient.from_state(client.state(), client.plan.query, NETWORK)
    assert again.answer() == client.answer()
    client.refresh(1, 4.0, 0)
    assert not client.settling
    assert client.answer() == (10.0, 11.0, 12.0)
    client.refresh(1, 9.0, 0, 8.5)
    client.refresh(0, 3.0, 0, 8.0)
    client.refresh(2, 3.0, 0, 8.0)
    assert client.answer()[0] == -np.inf  # whatever is not hidden is unknown
    assert client.hidden() == (0, 1, 2)


def test_levels_are_given_half_way_to_parts_that_are_far_and_speak():
    values, none = [50.0, 50.0 - APART * 2 - 1, 50.0 - APART * 2 + 1], [None] * 3
    assert wanted_levels("max", 2.0, values, none, [9, 9, 9]) == {1: 50.0 - APART - 0.5}
    assert wanted_levels("max", 2.0, values, none, [9, PUSHES - 1, 9]) == {}
    assert wanted_levels("min", 2.0, [-v for v in values], none, [9, 9, 9]) == {1: -50.0 + APART + 0.5}
    assert wanted_levels("max", 2.0, [50.0, 20.0], [None, 20.0], [9, 9]) == {}
    assert extreme_of("min", 1.0, [5.0, 9.0], [None, None]).blocking == ()


def test_bad_arguments_of_levels_are_named():
    trace = random_walk(ITEMS, 10, steps=[1, 1, 1])
    with pytest.raises(ValueError, match="levels are for min and max, query 'q' is a sum"):
        simulate_levels(plan(Aggregate.over("q", "sum", ITEMS, 9.0), NETWORK, STILL), trace)
    made = plan(Aggregate.over("q", "max", ITEMS, 9.0), NETWORK, STILL)
    with pytest.raises(ValueError, match="period must be at least 1 tick, got 0"):
        simulate_levels(made, trace, 0)
    total = plan(Aggregate.over("q", "sum", ITEMS, 9.0), NETWORK, STILL)
    with pytest.raises(ValueError, match="a level is for a part of a min or max, this is of a sum"):
        servers_of(total, dict.fromkeys(ITEMS, 0.0))[0].set_level(1.0)
