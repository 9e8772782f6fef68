"""Subscriptions and zones, against a comparison with every one of them."""

from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.kernels.snapshots import Schema
from tolerant.notifications import Message, Messages, Notice, RangeMin, RangeSubscriptions, Zones

SCHEMA = Schema("notifications", 1)

ends = st.one_of(st.integers(-2, 12).map(float), st.sampled_from([-inf, inf]))
ranges = st.tuples(ends, ends).map(sorted)
messages = st.tuples(ranges, ranges).map(
    lambda p: Message(0.0, min(p[0][0], p[1][0]), max(p[0][0], p[1][0]), p[0][0] - 3, p[1][1] + 2)
)


def batch(listed):
    return Messages.of(np.zeros(len(listed), np.int64), np.array([m[:5] for m in listed]).reshape(-1, 5))


def expected(slow, message):
    return sorted(id_ for id_, ends_ in slow.items() if message.affects(*ends_))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(["add", "many", "remove"]), st.lists(ranges, max_size=9)), max_size=9),
    st.lists(messages, min_size=1, max_size=6),
)
def test_they_find_whom_a_message_affects(steps, asked):
    held, slow = RangeSubscriptions(), {}
    for step, given_ in steps:
        if step == "remove":
            gone = list(slow)[: len(given_)]
            held.remove_many(gone)
            slow = {id_: ends_ for id_, ends_ in slow.items() if id_ not in gone}
            continue
        new = {len(slow) + 100 * len(steps) + n + max(slow, default=0): ends_ for n, ends_ in enumerate(given_)}
        slow.update(new)
        if step == "many":
            held.add_many(list(new), [a for a, _ in new.values()], [b for _, b in new.values()])
        else:
            for id_, ends_ in new.items():
                held.add(id_, *ends_)
    assert len(held) == len(slow)
    for message in asked:
        found = expected(slow, message)
        assert sorted(held.matching(message).tolist()) == found
        assert held.count(message) == len(found)
        assert held.any(message) == bool(found)
    which, ids = held.matching_many(batch(asked))
    for number, message in enumerate(asked):
        assert sorted(ids[which == number].tolist()) == expected(slow, message)
    assert held.count_many(batch(asked)).tolist() == [len(expected(slow, m)) for m in asked]
    assert len(held.active(batch(asked))) == sum(map(bool, (expected(slow, m) for m in asked)))


def test_many_subscriptions_through_splits_and_removals():
    rng = np.random.default_rng(0)
    held, slow = RangeSubscriptions(), {}
    start = rng.integers(0, 40, 3000).astype(float)  # many with one x1, so that they span slabs
    held.add_many(np.arange(3000), start, start + rng.exponential(10, 3000))
    slow = dict(zip(*(part.tolist() for part in (held.all()[0],)), zip(*held.all()[1:], strict=True), strict=True))
    for number in range(3000, 4500):
        ends_ = float(rng.integers(0, 5)), float(rng.integers(5, 60))
        held.add(number, *ends_)
        slow[number] = ends_
        gone = int(rng.integers(number))
        if gone in slow:
            held.remove(gone)
            del slow[gone]
    for _ in range(60):
        a, b = sorted(rng.uniform(0, 60, 2))
        message = Message(0.0, a, b, a - rng.exponential(10), b + rng.exponential(20))
        assert sorted(held.matching(message).tolist()) == expected(slow, message)
        assert held.count(message) == len(expected(slow, message))
    again = RangeSubscriptions.load(SCHEMA.unpack(SCHEMA.pack(held.state())))
    assert sorted(again.matching(message).tolist()) == expected(slow, message)


def test_notices_and_names():
    held = RangeSubscriptions()
    held.add_many(["a", "b"], [0, 5], [inf, 9])
    assert sorted(held.matching(Notice(6, -1, inf, 3, ())).tolist()) == ["a", "b"]
    assert held.matching(Message(1.0, 6, 6, -inf, 10)).tolist() == ["b"]
    assert "a" in held
    with pytest.raises(ValueError, match="ids must all be 64-bit"):
        held.state()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda held: held.add("b", 2, 1), "x1 must be"),
        (lambda held: held.add("b", nan, 1), "x1 must be"),
        (lambda held: held.add("a", 1, 2), "id must be new, got 'a'"),
        (lambda held: held.add_many(["b", "b"], [1, 1], [2, 2]), "got 'b' twice"),
        (lambda held: held.add_many(["b", "c"], [1, 3], [2, 2]), r"x1s\[1\] must be"),
        (lambda held: held.add_many(["b"], [1, 2], [2, 2]), "ids must be as many"),
        (lambda held: held.remove("c"), "id must be that of a subscription, got 'c'"),
        (lambda held: held.remove_many(["a", "a"]), "id must be that of a subscription"),
    ],
)
def test_what_cannot_be_right_is_refused(call, named):
    held = RangeSubscriptions()
    held.add("a", 1, 2)
    with pytest.raises(ValueError, match=named):
        call(held)
    assert len(held) == 1
    assert held.count(Message(0.0, 1.5, 1.5, 0, 9)) == 1


@settings(deadline=None, max_examples=80)
@given(st.lists(ranges, max_size=30), st.integers(1, 9), st.lists(ranges, max_size=9), messages)
def test_each_subscription_has_one_zone_and_hears_there(known, count, others, message):
    zones = Zones([a for a, _ in known], [b for _, b in known], count)
    again = Zones.load(SCHEMA.unpack(SCHEMA.pack(zones.state())))
    reached = zones.reached(message).tolist()
    assert len(set(reached)) == len(reached)
    assert again.reached(message).tolist() == reached
    for ends_ in known + others:
        zone = zones.of(*ends_)
        assert 0 <= zone < count
        assert again.of(*ends_) == zone
        if message.affects(*ends_):
            assert zone in reached


def test_zones_are_of_one_size_and_few_are_reached():
    rng = np.random.default_rng(1)
    middle, length = rng.normal(5000, 1500, 20_000), np.abs(rng.normal(1000, 1000, 20_000))
    x1s, x2s = middle - length / 2, middle + length / 2
    for count in (64, 100):
        zones = Zones(x1s, x2s, count)
        sizes = np.bincount(zones.of_many(x1s, x2s), minlength=count)
        assert sizes.min() > 0.8 * 20_000 / count
        assert sizes.max() < 1.2 * 20_000 / count
    rows = RangeMin.of(np.arange(2000), np.arange(2000) * 5, rng.uniform(0, 1e4, 2000))
    ids = rng.integers(0, 2000, 3000)
    said = rows.apply(ids, ids * 5, rng.uniform(0, 1e4, 3000))
    held = RangeSubscriptions()
    held.add_many(np.arange(20_000), x1s, x2s)
    sent = held.active(said)
    number, _ = zones.reached_many(sent)
    assert np.median(np.bincount(number, minlength=len(sent))) <= 2
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        Zones(x1s, x2s, 0)


def test_zones_of_ranges_that_are_all_the_same():
    zones = Zones([1, 1, 1], [2, 2, 2], 4)
    assert zones.of(1, 2) in zones.reached(Message(0.0, 1, 2, 0, 3)).tolist()
    assert Zones([], [], 3).of(1, 2) in range(3)
