import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from retention_twin import best_by_trying
from scipy.optimize import linprog
from scipy.sparse import coo_array

from tolerant.retention import Known, Stationary, Trend, UniformNoise, Walk, cache, join
from tolerant.retention.models import AR1, Scripted
from tolerant.retention.offline.flow import Arcs, best_flow
from tolerant.retention.offline.match_chances import MatchChances
from tolerant.retention.offline.occurrences import reduced
from tolerant.retention.offline.optimal_join import graph_of

FEW = settings(max_examples=40, deadline=None)


def rows(ticks, values=3):
    return st.lists(st.integers(0, values), min_size=ticks, max_size=ticks)


def by_linear_program(nodes, arcs, source, sink, units):
    """The most gain, by HiGHS."""
    m = len(arcs.tails)
    ends, columns = np.concatenate([arcs.tails, arcs.heads]), np.tile(np.arange(m), 2)
    balance = coo_array((np.repeat([1.0, -1.0], m), (ends, columns)), shape=(nodes, m)).tocsr()
    inner = np.setdiff1d(np.arange(nodes), [source, sink])
    limit = balance[[source]]
    found = linprog(
        -arcs.gains, A_ub=limit, b_ub=[units], A_eq=balance[inner], b_eq=np.zeros(len(inner)),
        bounds=np.stack([np.zeros(m), arcs.room], axis=1),
    )  # fmt: skip
    return -found.fun


@FEW
@given(rows(6, 2), rows(6, 2), st.integers(1, 3), st.none() | st.integers(0, 6), st.integers(0, 6))
def test_no_sequence_of_decisions_does_better(r, s, memory, window, warmup):
    best = best_by_trying(r, s, memory, window, warmup)
    assert join(r, s, memory, "optimal", window=window, warmup=warmup).results == best


@settings(max_examples=15, deadline=None)
@given(rows(40, 6), rows(40, 6), st.integers(1, 6), st.none() | st.integers(1, 12), st.integers(0, 20))
def test_the_flow_is_that_of_the_linear_program(r, s, memory, window, warmup):
    graph = graph_of(np.array(r), np.array(s), memory, window, warmup)
    best = by_linear_program(graph.nodes, graph.arcs, graph.source, graph.sink, memory)
    assert join(r, s, memory, "optimal", window=window, warmup=warmup).results == pytest.approx(best, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_flows_of_real_gains(seed, units):
    rng = np.random.default_rng(seed)
    tails = rng.integers(0, 9, 40)
    heads = tails + 1 + rng.integers(0, 10 - tails)
    arcs = Arcs(tails, np.minimum(heads, 9), rng.integers(1, 4, 40), rng.random(40).round(3))
    flow = best_flow(10, arcs, 0, 9, units)
    assert (flow >= 0).all()
    assert (flow <= arcs.room).all()
    for node in range(1, 9):
        assert flow[arcs.tails == node].sum() == flow[arcs.heads == node].sum()
    assert flow @ arcs.gains == pytest.approx(by_linear_program(10, arcs, 0, 9, units), abs=1e-9)


def test_the_graph_stays_linear_however_many_matches():
    ones = np.ones(500, np.int64)
    graph = graph_of(ones, ones, 10, None, 0)
    assert graph.nodes <= 3 * 500
    assert len(graph.arcs.tails) <= 7 * 500


@FEW
@given(st.lists(st.integers(0, 4), min_size=1, max_size=25), st.integers(1, 4))
def test_the_best_join_of_the_reduction_is_the_best_cache(references, memory):
    """Theorem 7."""
    r, s = reduced(np.array(references))
    assert join(r, s, memory, "optimal").results == cache(references, memory, "optimal").hits


@settings(max_examples=20, deadline=None)
@given(rows(9, 3), rows(9, 3), st.integers(1, 3))
def test_a_plan_over_the_whole_known_future_is_the_best(r, s, memory):
    plan = join(r, s, memory, "flow-expect", models=(Known(r), Known(s)), lookahead=9)
    assert plan.results == join(r, s, memory, "optimal").results


@settings(max_examples=20, deadline=None)
@given(rows(30, 5), rows(30, 5), st.integers(0, 6), st.none() | st.integers(0, 9))
def test_nobody_beats_the_best(r, s, memory, window):
    best = join(r, s, memory, "optimal", window=window).results
    often = Stationary([0.3, 0.25, 0.2, 0.15, 0.1])
    for policy in ("rand", "prob", "heeb", "flow-expect"):
        assert join(r, s, memory, policy, models=(often, often), window=window).results <= best


MODELS = [
    Known([3, 1, 4, 1, 5, 9, 2, 6]),
    Stationary({1: 0.4, 3: 0.3, 5: 0.2}),
    Trend(1, 0, UniformNoise(2)),
    Trend(0.5, 1, UniformNoise(1)),
    Walk(0.5, 1),
    AR1(1, 0.5, 2),
    Scripted([{1: 0.5}, {2: 0.5, 3: 0.25}] * 4),
]


@pytest.mark.parametrize("own", MODELS, ids=str)
@pytest.mark.parametrize("partner", MODELS, ids=str)
def test_meetings_are_sums_over_all_values(own, partner):
    values = np.arange(-40, 45)
    mine, theirs = own.chances(values, 1, 2, 4), partner.chances(values, 1, 3, 4)
    assert MatchChances(own, partner, 4).at(1, 2, 3) == pytest.approx(mine.T @ theirs, abs=1e-9)


def test_wide_meetings_are_integrals():
    found = MatchChances(Walk(0, 20), Walk(3, 30), 2).at(0, 0, 10)
    values = np.arange(-1000, 1000)
    mine, theirs = Walk(0, 20).chances(values, 0, 0, 2), Walk(3, 30).chances(values, 0, 10, 2)
    assert found == pytest.approx(mine.T @ theirs, rel=1e-3)
