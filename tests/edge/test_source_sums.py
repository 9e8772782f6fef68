"""A source that filters sums: what it says when, and that a sum is what its items come to, always."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.edge.keys import item_text
from tolerant.edge.source_core import SourceCore
from tolerant.streams import SECOND, Column, Stream, StreamOptions, sum_key
from tolerant.transport.records import BadRecord
from tolerant.transport.rows import Grant, compacted
from tolerant.transport.sums import SumOffers, Sums, read_sums, sums_body, sums_key

Y, Z = sum_key(0, 1), sum_key(0, 2)
OPTIONS = StreamOptions(policy="adaptive", shrink=0.0)
TOLD = Sums((Y, Z), ("a", "b", "c"), ((0, 1), (1, 2)), ((1.0, 1.0), (2.0, -1.0)), (8.0, 8.0), (None,) * 3, True)


def forms(*sets, version=1, shard=0):
    return [SumOffers("s", shard, version, sets)]


def offered(**changes):
    return Sums(**{**vars(TOLD), "formed": False} | changes)


def source(options=OPTIONS):
    core = SourceCore("s", 1, options)
    handles = core.register(["a", "b", "c"])
    return core, handles


def said(core):
    batch = core.drain()
    return [] if batch is None else [(row["kind"], row["key"], row["value"], row["at"]) for row in batch.to_pylist()]


def grant(item, width, version=1, confirm=False):
    return Grant(item, width, 0.0, 0, version, confirm)


def test_a_row_of_forms_is_read_as_it_was_written():
    rows = compacted([(sums_key("s", 3), 7, sums_body([TOLD])), (sums_key("t", 0), 8, sums_body([]))])
    assert read_sums(rows, "s") == forms(TOLD, version=7, shard=3)


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        b'["text"]',
        b"[{}]",
        sums_body([Sums((Y,), ("a",), ((0, 1),), ((1.0, 1.0),), (1.0,), (None,), True)]),
        sums_body([Sums((Y,), ("a",), ((0,),), ((1.0, 1.0),), (1.0,), (None,), True)]),
        sums_body([Sums(("a",), ("a",), ((0,),), ((1.0,),), (1.0,), (None,), True)]),
        sums_body([Sums((), ("a",), (), (), (), (None,), True)]),
    ],
)
def test_a_row_that_makes_no_sense_is_left_out_with_a_warning(body):
    with pytest.warns(BadRecord, match="sums of items"):
        assert read_sums(compacted([(sums_key("s", 0), 1, body), ("x/s", 1, b"[]")]), "s") == []


def test_sums_that_stand_say_hello_with_the_items_as_soon_as_all_have_a_value():
    core, handles = source()
    core.apply_sum_offers(forms(TOLD), 0)
    core.offer(handles[:2], np.array([1.0, 2.0]), SECOND)
    assert said(core) == [
        ("hello", "a", 1.0, SECOND), ("hello", "b", 2.0, SECOND), ("hello", Y, 3.0, SECOND)
    ]  # fmt: skip
    core.offer(handles[2:], np.array([5.0]), 2 * SECOND)
    assert said(core)[-1] == ("hello", Z, -1.0, 2 * SECOND)
    assert core.items() == ["a", "b", "c"]
    assert core.sums() == {Y: {"a": 1.0, "b": 1.0}, Z: {"b": 2.0, "c": -1.0}}


def test_a_sum_has_a_filter_like_any_item_and_its_items_may_have_none():
    core, handles = source()
    core.apply_sum_offers(forms(TOLD), 0)
    core.grant([*(grant(item, math.inf) for item in "abc")], 0)
    core.offer(handles, np.zeros(3), SECOND)
    core.grant([grant(Y, 4.0), grant(Z, 100.0)], SECOND)
    said(core)
    core.offer(handles, np.array([1.0, 1.0, 0.0]), 2 * SECOND)
    assert said(core) == []  # 2 is not beyond ± 2
    core.offer(handles, np.array([1.5, 1.0, 0.0]), 3 * SECOND)
    assert said(core) == [("update", Y, 2.5, 3 * SECOND)]
    core.offer(handles, np.array([9.0, -6.0, 0.0]), 4 * SECOND)
    assert said(core) == []  # its items went far, the sum did not


def test_a_sum_is_gone_with_an_item_at_the_same_time_and_for_good():
    core, handles = source()
    core.apply_sum_offers(forms(TOLD), 0)
    core.offer(handles, np.zeros(3), SECOND)
    said(core)
    at = core.remove(int(handles[1]), 2 * SECOND)
    assert sorted(said(core)) == [("gone", Y, 0.0, at), ("gone", Z, 0.0, at), ("gone", "b", 0.0, at)]
    core.offer(handles, np.ones(3), 3 * SECOND)
    assert {key for _, key, _, _ in said(core)} == {"a", "b", "c"}


def test_what_a_newer_row_leaves_out_is_gone_and_an_older_one_changes_nothing():
    core, handles = source()
    core.apply_sum_offers(forms(TOLD, version=2), 0)
    core.offer(handles, np.zeros(3), SECOND)
    said(core)
    core.apply_sum_offers(forms(version=1), 2 * SECOND)
    assert said(core) == []
    core.apply_sum_offers(forms(version=5, shard=1), 2 * SECOND)  # another shard's
    assert said(core) == []
    core.apply_sum_offers(forms(version=3), 3 * SECOND)
    assert [row[:2] for row in said(core)] == [("gone", Y), ("gone", Z)]
    core.apply_sum_offers(forms(TOLD, version=2), 4 * SECOND)
    assert said(core) == []
    assert core.sums() == {}


def test_grants_of_other_sources_sums_are_not_kept():
    core, _ = source()
    core.grant([grant(sum_key(0, 77), 1.0), grant("elsewhere", 1.0)], 0)
    assert list(core._grants.newest) == ["elsewhere"]


def test_a_sum_too_large_for_any_number_ends():
    core, handles = source()
    core.apply_sum_offers(forms(TOLD), 0)
    core.offer(handles, np.zeros(3), SECOND)
    said(core)
    core.offer(handles, np.array([1.7e308, 1.7e308, 0.0]), 2 * SECOND)
    assert {row[:2] for row in said(core)} >= {("gone", Y), ("gone", Z)}
    assert core.sums() == {}


@pytest.mark.parametrize("policy", ["adaptive", "predictive"])
def test_it_goes_over_to_sums_after_fifty_periods_if_that_pays_and_asks_to_go_back_if_not(policy):
    core, handles = source(StreamOptions(policy=policy))
    alike = {"weights": ((1.0, 1.0), (1.0, -1.0))}
    core.apply_sum_offers(forms(offered(**alike)), 0)
    random, values, now = np.random.default_rng(0), np.zeros(3), 0
    kinds = []

    def run(ticks, steps):
        nonlocal values, now
        for _ in range(ticks):
            now += SECOND
            values = values + random.normal(0, steps)
            core.offer(handles, values, now)
            kinds.extend(row[:3] for row in said(core))

    run(495, np.array([0.3, 0.3, 0.3]))
    assert {key for _, key, _ in kinds} == {"a", "b", "c"}
    run(30, np.array([0.3, 0.3, 0.3]))
    assert [row[:2] for row in kinds if row[0] == "hello"][3:] == [("hello", Y), ("hello", Z)]
    core.apply_sum_offers(forms(offered(**alike, formed=True), version=2), now)
    run(1100, np.array([0.0, 1.0, 0.0]))  # what both have: one item costs less than two sums
    assert ("form_request", Y, 0.0) in kinds


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcgrfx"), st.integers(-50, 50)), max_size=40), st.booleans())
def test_a_sum_is_always_within_its_filter_and_what_its_items_come_to(steps, predicts):
    core, handles = source(StreamOptions(policy="predictive" if predicts else "adaptive"))
    core.apply_sum_offers(forms(TOLD), 0)
    values = np.zeros(3)
    core.offer(handles, values, SECOND)
    now, version = SECOND, 1
    for what, number in steps:
        now += SECOND * (number % 3) // 2
        if what in "abc":
            values["abc".index(what)] += number / 7
            core.offer(handles, values, now)
        elif what == "g":
            version += 1
            core.grant([grant(Y if number % 2 else Z, abs(number) / 3, version, confirm=number > 20)], now)
        else:
            core.advance(now)
        for key, weights in core.sums().items():
            state = core.filter_of(key)
            value = sum(weight * values["abc".index(item)] for item, weight in weights.items())
            assert state.value == pytest.approx(value, abs=1e-9)
            assert abs(state.value - state.centre) <= state.width / 2


def test_a_users_item_cannot_have_the_key_of_a_sum():
    stream = Stream("t", (Column("k", "STRING"), Column("v", "DOUBLE")), ("k",))
    with pytest.raises(ValueError, match=r"U\+001F"):
        item_text(Y, stream)
    with pytest.raises(ValueError, match=r"U\+001F"):
        item_text((Y,), stream)
