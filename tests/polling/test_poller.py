import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.polling import Poller, Products, simulate
from tolerant.queries import Aggregate
from tolerant.traces import Trace


def walk(n=4, ticks=120, seed=0, scale=1.0):
    values = np.cumsum(np.random.default_rng(seed).normal(0, scale, (ticks, n)), axis=0)
    return Trace([f"i{k}" for k in range(n)], values)


def play(poller, trace, ticks, refuse=()):
    """Every due item answers, but those in `refuse`; the pulls, by tick."""
    pulls = []
    for t in ticks:
        due = poller.due(t)
        for item in due:
            if item in refuse:
                poller.failed(item, t)
            else:
                poller.pulled(item, trace.values[t, trace.items.index(item)], t)
        pulls.append(due)
    return pulls


def total(items, within=3.0, fidelity=0.9, name="total"):
    return Aggregate.over(name, "sum", items, within, fidelity)


@pytest.mark.parametrize(
    "options", [{"forecast": True}, {"correlated": True}, {"limit": 1}, {"calibrated": True, "window": 20}]
)
def test_it_does_what_a_simulation_does_with_risks_options_too(options):
    trace = walk(ticks=200)
    queries = [total(trace.items), total(trace.items[:2], 2.0, name="two")]
    pulls = play(Poller(queries, "risk", **options), trace, range(200))
    assert sum(map(len, pulls)) == simulate(trace, queries, "risk", **options).pulls


def test_answers_are_listed_when_they_move():
    poller = Poller([total(["x", "y"]), Aggregate.over("n", "count", ["x"], 0)])
    assert poller.answers() == []
    poller.due(0)
    poller.pulled("x", 1.0, 0)
    assert [answer.query for answer in poller.answers()] == ["n"]  # total still lacks y
    poller.pulled("y", 2.0, 0)
    (answer,) = poller.answers(0)
    assert (answer.query, answer.at, answer.low, answer.value, answer.high) == ("total", 0, 0.0, 3.0, 6.0)
    assert math.isnan(answer.fidelity)
    assert poller.answers() == []
    poller.due(1)
    poller.pulled("x", 1.5, 1)
    assert [answer.value for answer in poller.answers(1)] == [3.5]
    assert len(poller.current()) == 2


def test_what_a_client_heard_last_is_within_when_reports_are_saved():
    trace = walk(1, 400, scale=0.2)
    query = Aggregate.over("q", "sum", ["i0"], 2.0, 0.9)
    poller, heard, good, listed = Poller([query], "risk"), None, 0, 0
    poller.answers(report=0.5)
    for t in range(400):
        play(poller, trace, [t])
        for answer in poller.answers(t, report=0.5):
            heard, listed = answer.value, listed + 1
        good += abs(heard - trace.values[t, 0]) <= 2.0
    assert good / 400 >= 0.9
    assert listed < sum(1 for _ in range(400)) / 4


def test_min_max_and_average_answer_from_held_values():
    queries = [
        Aggregate.over("low", "min", "ab", 1),
        Aggregate.over("high", "max", "ab", 1),
        Aggregate("mean", "avg", {"a": 1, "b": 1, "c": 0}, 1),
    ]
    poller = Poller(queries)
    poller.due(0)
    poller.pulled("a", 3.0, 0)
    poller.pulled("b", 9.0, 0)
    assert {answer.query: answer.value for answer in poller.current()} == {"low": 3.0, "high": 9.0, "mean": 4.0}


def test_fidelity_so_far_is_reported_honestly():
    trace = walk(4, 601)
    poller = Poller([total(trace.items, 4.0, 0.9)], "risk")
    play(poller, trace, range(601))
    (answer,) = poller.current()
    true = simulate(trace, [total(trace.items, 4.0, 0.9)], "risk").fidelity["total"]
    assert answer.fidelity == pytest.approx(true, abs=0.05)
    assert answer.asked == 0.9


# -- late, lost and old answers --------------------------------------------------------------------------------------


def test_a_late_answer_teaches_as_if_it_had_come_in_time():
    trace = walk(1, 40)
    query = [total(["i0"], 100.0)]
    on_time, late = Poller(query), Poller(query)
    play(on_time, trace, range(8))
    play(late, trace, range(7))
    late.due(7)
    late.due(9)
    on_time.due(9)
    late.pulled("i0", trace.values[7, 0], 7)
    arrays, others = dict(on_time.state().arrays()), dict(late.state().arrays())
    for name in ("item.value", "item.last", "item.bias", "item.drift", "item.running", "chain.counts"):
        assert arrays[name].tolist() == others[name].tolist()


def test_an_answer_older_than_what_is_held_is_dropped():
    poller = Poller([total(["x"])])
    poller.due(0)
    poller.pulled("x", 1.0, 0)
    poller.due(5)
    poller.pulled("x", 5.0, 5)
    poller.pulled("x", 3.0, 3)
    assert poller.last_pull("x") == (5.0, 5)


def test_failures_teach_nothing_and_wait_longer_each_time():
    poller = Poller([total(["x"])], "risk", max_interval=4)
    asked = [t for t in range(20) if poller.due(t) and poller.failed("x", t)]
    assert asked == [0, 1, 3, 7, 11, 15, 19]
    assert poller.last_pull("x") is None
    poller.due(23)
    poller.pulled("x", 1.0, 23)
    assert poller.due(24) == ["x"]


def test_one_that_fails_does_not_stop_the_others():
    trace = walk(3, 100)
    poller = Poller([total(trace.items, 2.0)], "risk")
    play(poller, trace, range(20))
    pulls = play(poller, trace, range(20, 100), refuse={"i0"})
    assert sum("i1" in due for due in pulls) > 5
    assert poller.last_pull("i0")[1] < 20
    assert poller.current(400)[0].stale


def test_not_changed_is_a_pull_and_freshness_is_waited_for():
    poller = Poller([total(["x"])])
    poller.due(0)
    poller.pulled("x", 1.0, 0)
    assert poller.due(1) == ["x"]
    poller.unchanged("x", 1, fresh_until=9)
    assert [t for t in range(2, 12) if poller.due(t)] == [9, 10, 11]
    assert poller.last_pull("x") == (1.0, 1)


def test_a_gap_advances_the_chains():
    trace = walk(2, 600)
    queries = [total(trace.items)]
    poller = Poller(queries)
    play(poller, trace, range(30))
    poller.due(30)
    assert poller.due(590) == ["i0", "i1"]
    assert dict(poller.state().arrays())["item.stepped"].tolist() == [590, 590]
    play(poller, trace, range(590, 600))
    with pytest.raises(ValueError, match="not go back"):
        poller.due(3)


# -- queries that come and go ----------------------------------------------------------------------------------------


def test_what_is_known_is_kept_when_queries_come_and_go():
    trace = walk(3, 200)
    poller = Poller([total(["i0", "i1"])])
    play(poller, trace, range(60))
    before = dict(poller.state().arrays())
    poller.add(Aggregate.over("more", "max", ["i1", "i2"], 50.0, 0.9))
    after = dict(poller.state().arrays())
    assert poller.items == ["i0", "i1", "i2"]
    assert after["chain.counts"][:2].tolist() == before["chain.counts"].tolist()
    assert "i2" in play(poller, trace, [60])[0]
    # A new item has a clock of its own: asked for after 1, 2, 4, … ticks.
    pulls = play(poller, trace, range(61, 70))
    assert [t for t, due in enumerate(pulls, 61) if "i2" in due][:3] == [61, 63, 67]
    poller.drop("total")
    assert poller.items == ["i1", "i2"]
    play(poller, trace, range(70, 80))
    with pytest.raises(ValueError, match="'total'"):
        poller.drop("total")


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([0.2, 0.5, 1.0, 3.0, 40.0]), st.sampled_from(["max", "risk"]))
def test_another_tolerance_rescales_the_chains_and_loses_no_counts(factor, chooser):
    trace = walk(2, 100)
    poller = Poller([total(trace.items)], chooser)
    play(poller, trace, range(80))
    counts = dict(poller.state().arrays())["chain.counts"].sum()
    poller.alter("total", within=3.0 * factor, fidelity=0.95)
    arrays = dict(poller.state().arrays())
    assert arrays["chain.counts"].sum() == pytest.approx(counts)
    assert np.allclose(arrays["chain.counts"].sum(axis=2), arrays["chain.sums"])
    assert arrays["query.within"][0] == pytest.approx(3.0 * factor)
    play(poller, trace, range(80, 100))


def test_a_poller_restored_decides_as_it_would_have():
    trace = walk(4, 300)
    queries = [total(trace.items), Aggregate.over("m", "min", trace.items[:2], 2.0, 0.95)]
    for options in ({"chooser": "max"}, {"chooser": "risk", "forecast": True, "correlated": True}):
        whole = Poller(queries, seed=3, servers={"i0": "a", "i1": "a"}, **options)
        play(whole, trace, range(150))
        again = Poller.restore(whole.save())
        assert play(again, trace, range(150, 300)) == play(whole, trace, range(150, 300))
        assert again.current() == whole.current()
        assert again.save() == whole.save()


def test_a_state_without_a_field_is_refused():
    state = Poller().state()
    del state["origin"]
    with pytest.raises(ValueError, match="lacks 'origin'"):
        Poller().load(state)


def test_state_does_not_grow_with_time():
    trace = walk(3, 1500)
    poller = Poller([total(trace.items)], "risk", correlated=True)
    play(poller, trace, range(300))
    size = sum(array.nbytes for _, array in poller.state().arrays())
    play(poller, trace, range(300, 1500))
    assert sum(array.nbytes for _, array in poller.state().arrays()) == size


# -- products ----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(1, 100), min_size=4, max_size=4),
    st.lists(st.floats(-1e-3, 1e-3), min_size=4, max_size=4),
)
def test_products_change_as_their_derivatives_say(values, changes):
    query = Products("worth", [(2.0, ("a", "b")), (-1.0, ("c",)), (0.5, ("a", "c", "d"))], 1.0)
    before = dict(zip("abcd", values, strict=True))
    after = {item: value + change for (item, value), change in zip(before.items(), changes, strict=True)}
    weights = query.linear(before).weights
    first = sum(weights[item] * (after[item] - before[item]) for item in before)
    assert query.value(after) - query.value(before) == pytest.approx(first, abs=3e-3)


@pytest.mark.parametrize("chooser", ["max", "risk"])
def test_products_keep_their_promise_at_newly_held_values(chooser):
    rng = np.random.default_rng(4)
    values = 50 + np.cumsum(rng.normal(0, [0.02, 0.3], (600, 2)), axis=0)
    trace = Trace(["shares", "price"], values)
    worth = Products("worth", [(1.0, ("shares", "price"))], 60.0, 0.9)
    poller = Poller([worth.linear(dict(zip(trace.items, values[0], strict=True)))], chooser)
    good = 0
    for t in range(600):
        if play(poller, trace, [t])[0]:
            held = {item: poller.last_pull(item)[0] for item in trace.items}
            poller.replace(worth.linear(held))
        good += abs(worth.value(held) - values[t, 0] * values[t, 1]) <= worth.within
    # The feedback of "max" has three windows here, and starts from nothing.
    assert good / 600 >= (0.88 if chooser == "risk" else 0.7)
    assert poller.queries[0].weights["price"] == pytest.approx(poller.last_pull("shares")[0])


# -- costs, servers, limits ------------------------------------------------------------------------------------------


def test_a_dear_item_is_asked_for_less_often():
    trace = walk(3, 600)
    queries = [total(trace.items, 4.0)]
    dear = simulate(trace, queries, "risk", costs={"i0": 10.0}).pulls_by_item
    assert dear["i0"] < simulate(trace, queries, "risk").pulls_by_item["i0"]


def test_items_of_one_server_share_requests():
    trace = walk(6, 600)
    queries = [total(trace.items[:3], 4.0), total(trace.items[3:], 4.0, name="others")]
    servers = dict.fromkeys(trace.items, "one")
    alone = simulate(trace, queries, "risk", request_cost=1.0)
    shared = simulate(trace, queries, "risk", request_cost=1.0, servers=servers)
    assert alone.requests == alone.pulls
    assert shared.requests < 0.7 * alone.requests
    assert shared.cost == pytest.approx(shared.pulls + shared.requests)


@pytest.mark.parametrize("chooser", ["all", "per-item", "max", "risk"])
def test_no_tick_pulls_more_than_the_limit(chooser):
    trace = walk(8, 400)
    queries = [total(trace.items, 2.0), total(trace.items[:3], 1.0, name="few")]
    pulls = play(Poller(queries, chooser, limit=2), trace, range(400))
    assert len(pulls[0]) == 8
    assert max(map(len, pulls[1:])) <= 2
    # Nobody waits for ever.
    assert all(sum(item in due for due in pulls[200:]) > 0 for item in trace.items)


def test_no_server_is_asked_for_more_than_its_own_limit():
    trace = walk(8, 120)
    servers = {item: "slow" if k < 4 else "fast" for k, item in enumerate(trace.items)}
    poller = Poller([total(trace.items, 1.0)], "risk", servers=servers, server_limits={"slow": 1})
    pulls = play(poller, trace, range(120))
    assert max(sum(servers[item] == "slow" for item in due) for due in pulls[1:]) == 1
    assert max(sum(servers[item] == "fast" for item in due) for due in pulls[1:]) > 1


# -- errors ------------------------------------------------------------------------------------------------------------


def test_bad_values_and_items_are_refused():
    poller = Poller([total(["x"])])
    with pytest.raises(ValueError, match="at must not be after"):
        poller.pulled("x", 1.0, 0)
    poller.due(0)
    for value in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            poller.pulled("x", value, 0)
    with pytest.raises(ValueError, match="'y' is in no query"):
        poller.pulled("y", 1.0, 0)
    with pytest.raises(ValueError, match="no value yet"):
        poller.unchanged("x", 0)
    poller.pulled("x", 1.0, 0)
    poller.due(1)
    with pytest.raises(ValueError, match="intermediates"):
        poller.pulled("x", 1.0, 1, [1.0])
    with pytest.raises(ValueError, match="report"):
        poller.answers(report=1.0)
    with pytest.raises(ValueError, match="cannot run it"):
        Poller([], "ideal-push")
    with pytest.raises(ValueError, match="terms"):
        Products("p", [(1.0, ())], 1.0)


def test_intermediate_values_must_be_one_a_tick():
    poller = Poller([total(["x"])], intermediates=True)
    poller.due(0)
    poller.pulled("x", 1.0, 0)
    poller.due(3)
    with pytest.raises(ValueError, match="3 finite values"):
        poller.pulled("x", 1.0, 3, [1.0])
    poller.pulled("x", 4.0, 3, [2.0, 3.0, 4.0])
    assert poller.last_pull("x") == (4.0, 3)


def test_calibration_brings_jumping_items_nearer_to_what_was_asked():
    rng = np.random.default_rng(7)
    steps = rng.normal(0, 0.1, (4000, 3)) + (rng.random((4000, 3)) < 0.05) * rng.normal(0, 2, (4000, 3))
    trace = Trace("abc", np.cumsum(steps, axis=0))
    queries = [total("abc", 3.0, 0.97)]
    plain, calibrated = (simulate(trace, queries, "risk", calibrated=c).fidelity["total"] for c in (False, True))
    assert plain < 0.94
    assert calibrated > plain + 0.01
