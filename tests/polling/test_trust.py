"""Items that cannot be had: what their queries still claim, what that costs the others, and what is learned of it."""

import numpy as np
import pytest

from tolerant.polling import Poller
from tolerant.polling.trust import KNOWN
from tolerant.queries import Aggregate
from tolerant.traces import Trace

DEFAULT = {"chooser": "risk", "calibrated": True, "forecast": True, "cautious": True, "states": 3}
"""What statements run with."""


def walk(items=20, ticks=600, seed=0, jumps=0.0):
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.05, 0.2, items)
    steps = rng.normal(size=(ticks, items)) * scale
    steps += (rng.random((ticks, items)) < jumps) * rng.normal(size=(ticks, items)) * scale * 8
    return Trace([f"i{k:02}" for k in range(items)], 100 + np.cumsum(steps, axis=0))


def sums(trace, count=10, size=6, within=1.5, fidelity=0.95):
    rng = np.random.default_rng(1)
    chosen = [rng.choice(len(trace.items), size, replace=False) for _ in range(count)]
    return [
        Aggregate.over(f"q{k}", "sum", [trace.items[i] for i in members], within, fidelity)
        for k, members in enumerate(chosen)
    ]


class Play:
    """A poller over a trace: which items answer at which ticks is up to `fails`; every answer is held to the truth."""

    def __init__(self, trace, queries, fails=lambda item, tick: False, asks=lambda tick: True, **options):
        self.trace, self.queries, self.fails, self.asks = trace, queries, fails, asks
        self.poller = Poller(queries, **(DEFAULT | options))
        self.column = {item: k for k, item in enumerate(trace.items)}
        self.pulls, self.answers = [], []

    def run(self, ticks):
        for tick in ticks:
            due = self.poller.due(tick) if self.asks(tick) else []
            for item in due:
                if self.fails(item, tick):
                    self.poller.failed(item, tick)
                else:
                    self.poller.pulled(item, float(self.trace.values[tick, self.column[item]]), tick)
            self.pulls.append(due)
            self.answers.append(self.poller.current(tick))
        return self

    def good(self, answer):
        query = next(query for query in self.queries if query.name == answer.query)
        values = self.trace.values[answer.at, [self.column[item] for item in query.weights]]
        truth = {"sum": np.sum, "avg": np.mean, "min": np.min, "max": np.max}[query.fn](values)
        return abs(answer.value - truth) <= query.within * (1 + 1e-9)

    def settled(self, ticks):
        """(share within tolerance, mean fidelity claimed, how many) of the settled answers at these ticks."""
        judged = [a for tick in ticks for a in self.answers[tick] if not (a.stale or a.learning)]
        if not judged:
            return 1.0, 0.0, 0
        return np.mean([self.good(a) for a in judged]), np.mean([a.claimed for a in judged]), len(judged)

    def per_tick(self, ticks, but=()):
        return np.mean([len([item for item in self.pulls[tick] if item not in but]) for tick in ticks])


def of_query(play, tick, name="q0"):
    return next(answer for answer in play.answers[tick] if answer.query == name)


def test_the_claim_falls_from_the_last_success_on_and_ends_when_it_cannot_be_kept():
    trace = walk()
    play = Play(trace, sums(trace), lambda item, tick: tick >= 300).run(range(400))
    claims = [of_query(play, tick).claimed for tick in range(299, 400)]
    stale = [of_query(play, tick).stale for tick in range(299, 400)]
    assert claims[0] == 0.95
    assert not stale[0]
    assert claims == sorted(claims, reverse=True)
    assert stale.index(True) < 20
    assert all(stale[stale.index(True) :])


def test_silence_does_what_failures_do():
    """A poller that is dead makes no rows at all: the absence of pulls must suffice."""
    trace = walk()
    play = Play(trace, sums(trace), lambda item, tick: False).run(range(300))
    for tick in range(300, 340):
        play.poller.due(tick)
        play.answers.append(play.poller.current(tick))
    assert all(answer.stale for answer in play.answers[330])
    good, claimed, _ = play.settled(range(300, 340))
    assert good >= claimed


def test_an_item_that_never_moved_is_not_believed_in_for_ever():
    trace = Trace(["a"], np.ones((400, 1)))
    play = Play(trace, [Aggregate.over("q0", "sum", ["a"], 1.0, 0.95)], lambda item, tick: tick >= 200).run(range(400))
    last = play.poller.last_pull("a")[1]
    assert not of_query(play, last + 1).stale
    stale = next(tick for tick in range(200, 400) if of_query(play, tick).stale)
    assert stale - last <= 66


@pytest.mark.parametrize("fidelity", [0.9, 0.95, 0.98])
def test_settled_answers_keep_what_they_claim_through_outages_and_failing_items(fidelity):
    outcomes = {}
    for seed in range(4):
        trace = walk(40, 900, seed, jumps=0.01)
        queries = sums(trace, 20, within=2.0, fidelity=fidelity)

        def fails(item, tick):
            outage = 300 <= tick < 365
            some = 450 <= tick < 475 and item in ("i00", "i01", "i02")
            return outage or some or (tick >= 600 and item == "i05")

        play = Play(trace, queries, fails).run(range(900))
        for begin in range(60, 900, 30):
            good, claimed, count = play.settled(range(begin, begin + 30))
            outcomes.setdefault(begin, []).append((good * count, claimed * count, count))
    for begin, parts in outcomes.items():
        good, claimed, count = (sum(part) for part in zip(*parts, strict=True))
        assert count == 0 or good / count >= claimed / count - 0.01, f"window at {begin}: {good / count}"
    whole = [sum(part) for part in zip(*(p for parts in outcomes.values() for p in parts), strict=True)]
    assert whole[0] >= whole[1]
    assert whole[2] > 0.75 * 4 * 840 * 20


@pytest.mark.parametrize("seed", [2001, 2002, 2003])
def test_settled_answers_keep_what_they_claim_in_every_half_minute(seed):
    trace = walk(60, 900, seed, jumps=0.01)
    play = Play(trace, sums(trace, 40, 8, within=2.5)).run(range(900))
    short = {begin: play.settled(range(begin, begin + 30)) for begin in range(60, 900, 30)}
    assert all(count == 1200 for _, _, count in short.values())
    assert {begin: figures for begin, figures in short.items() if figures[0] < figures[1]} == {}


def test_one_that_always_fails_does_not_raise_the_pulls_of_the_others():
    trace = walk(20, 700)
    queries = [Aggregate.over("q0", "sum", trace.items, 4.0, 0.95)]
    plain = Play(trace, queries).run(range(700))
    failing = Play(trace, queries, lambda item, tick: item == "i03" and tick > 100).run(range(700))
    span = range(150, 700)
    assert failing.per_tick(span, but={"i03"}) <= 1.15 * plain.per_tick(span, but={"i03"})
    asked = sum("i03" in failing.pulls[tick] for tick in span)
    assert 20 <= asked <= len(span) / 8


def test_an_outage_is_not_learned_from():
    trace = walk(20, 900)
    queries = sums(trace)
    plain = Play(trace, queries).run(range(900))
    play = Play(trace, queries, lambda item, tick: 420 <= tick < 480).run(range(900))
    before, after = dict(plain.poller.state().arrays()), dict(play.poller.state().arrays())
    # Everything due is asked for once it answers, then it continues as before.
    after_it = range(500, 900)
    assert play.per_tick(after_it) <= 1.3 * plain.per_tick(after_it)
    assert (after["row.doubt"] <= 2 * before["row.doubt"]).all()
    # What was not promised does not count in what was delivered.
    for mine, others in zip(play.poller.current(), plain.poller.current(), strict=True):
        assert mine.fidelity == pytest.approx(others.fidelity, abs=0.03)


def test_all_are_asked_for_again_at_once_when_told_to():
    trace = walk(20, 400)
    play = Play(trace, sums(trace), lambda item, tick: tick >= 300).run(range(340))
    failing = play.poller.overdue()
    assert len(failing) > 10
    assert not failing <= set(play.poller.due(340))
    play.poller.resume(failing)
    assert failing <= set(play.poller.due(341))


@pytest.mark.parametrize("jumps", [0.0, 0.02])
def test_a_cold_start_keeps_what_is_claimed(jumps):
    good, claimed, early = [], [], []
    for seed in range(6):
        trace = walk(60, 240, seed, jumps)
        queries = [
            Aggregate.over("sum", "sum", trace.items, 10.0, 0.95),
            Aggregate.over("avg", "avg", trace.items, 10.0 / 60, 0.95),
        ]
        play = Play(trace, queries).run(range(240))
        one, two, count = play.settled(range(240))
        assert count > 150
        good.append(one)
        claimed.append(two)
        early.append(np.mean([play.good(answer) for tick in range(170) for answer in play.answers[tick]]))
    assert np.mean(good) >= np.mean(claimed)
    assert np.mean(early) >= 0.95


def test_it_learns_until_every_item_has_been_pulled_a_few_times():
    trace = walk(6, 200)
    queries = [Aggregate.over("q0", "sum", trace.items[:3], 3.0, 0.95)]
    play = Play(trace, queries).run(range(100))
    learning = [of_query(play, tick).learning for tick in range(100)]
    assert learning[0]
    known = learning.index(False)
    assert 5 < known <= 63
    assert not any(learning[known:])
    assert (play.poller.figures()["pulls"] >= KNOWN).all()
    play.poller.add(Aggregate.over("q1", "sum", [trace.items[0], trace.items[4]], 3.0, 0.95))
    play.queries.append(play.poller.queries[1])
    play.run(range(100, 104))
    assert of_query(play, 103, "q1").learning
    assert not of_query(play, 103, "q0").learning
    every = Play(trace, play.queries[:1], chooser="every-tick", calibrated=False, forecast=False, cautious=False).run(
        range(3)
    )
    assert not of_query(every, 2).learning


def test_delivered_is_of_a_full_window_and_of_the_time_of_the_query_itself():
    trace = walk(4, 1_000)
    queries = [Aggregate.over("q0", "sum", trace.items[:2], 2.0, 0.95)]
    play = Play(trace, queries)
    play.answers, play.pulls = [[]] * 593, [[]] * 593
    play.run(range(593, 750))  # its first window ends after 7 ticks
    assert all(np.isnan(of_query(play, tick).fidelity) for tick in range(593, 750))
    play.poller.add(Aggregate.over("q1", "sum", trace.items[2:], 2.0, 0.95))
    play.queries.append(play.poller.queries[1])
    play.run(range(750, 1_000))
    first = next(tick for tick in range(750, 1_000) if not np.isnan(of_query(play, tick).fidelity))
    assert first == 801
    table = dict(play.poller.state().arrays())
    assert table["query.ticks"].tolist() == [800 - 593, 800 - 749]
    assert np.isnan(of_query(play, 999, "q1").fidelity)


def test_a_query_without_all_its_values_has_delivered_nothing():
    trace = walk(2, 500)
    queries = [Aggregate.over("q0", "sum", trace.items, 2.0, 0.95)]
    play = Play(trace, queries, lambda item, tick: item == "i01" and tick < 410).run(range(500))
    assert play.answers[409] == []
    assert dict(play.poller.state().arrays())["query.ticks"].tolist() == [0.0]


def test_what_cannot_be_had_is_saved_and_restored():
    trace = walk(8, 300)
    play = Play(trace, sums(trace, 4, 4), lambda item, tick: item == "i01" and tick > 100).run(range(150))
    again = Poller.restore(play.poller.save())
    assert again.disturbed() == play.poller.disturbed() != frozenset()
    assert repr(again.current()) == repr(play.poller.current())  # NaN is not equal to itself
    play.poller.add(Aggregate.over("other", "sum", ["i07"], 1.0))
    assert play.poller.disturbed() == again.disturbed()


def test_a_value_older_than_it_may_be_is_stale_whatever_the_model_says():
    trace = Trace(["a"], np.ones((400, 1)))
    queries = [Aggregate.over("q0", "sum", ["a"], 1.0, 0.95)]
    play = Play(trace, queries, stale_after=10).run(range(100))
    ages = [(tick, max(t for t in range(tick + 1) if play.pulls[t])) for tick in range(100)]
    assert all(of_query(play, tick).stale == (tick - last > 10) for tick, last in ages)
    for options in ({"stale_after": 0}, {"patience": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Poller(queries, **options)


def spikes(seed):
    """Items that hardly move, and leap for a tick in fifty."""
    rng = np.random.default_rng(seed)
    values = 100 + np.cumsum(rng.normal(0, 0.05, (600, 10)), axis=0)
    values += (rng.random(values.shape) < 0.02) * rng.choice([-4.0, 4.0], values.shape)
    return Trace([f"i{k:02}" for k in range(10)], values)


def test_rare_spikes_are_missed_at_first_and_then_limit_what_is_claimed():
    """The figures of `docs/polling.md`: few pulls cannot show what is rare, the first full window can."""
    plays = [Play(trace, sums(trace)).run(range(600)) for trace in map(spikes, range(6))]
    early, late = (np.mean([play.settled(ticks)[0] for play in plays]) for ticks in (range(200), range(200, 600)))
    assert (early, late) == pytest.approx((0.91, 0.93), abs=0.01)
    known = [answer for play in plays for answers in play.answers[210:] for answer in answers]
    less = [answer for answer in known if answer.fidelity < answer.asked]
    assert len(less) > 1000
    assert all(answer.claimed <= answer.fidelity for answer in less)
