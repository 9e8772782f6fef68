import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_twin import Twin, canonical

from tolerant.edge.source_core import SourceCore
from tolerant.kernels.versions import version
from tolerant.streams import StreamOptions
from tolerant.transport.rows import UPDATES, Grant

OPTIONS = StreamOptions(
    tick=10, period=2, lease=90, latency=5, shrink=0.25, policy="adaptive"
)  # T = 20, beats after 30
KEYS = ["a", "b", "c"]


def make_core(epoch=1):
    core = SourceCore("here", epoch, OPTIONS)
    core.register(KEYS)
    return core


def offer(core, now, **values):
    return core.offer(core.register(values), np.array(list(values.values())), now)


def rows(core):
    batch = core.drain()
    if batch is None:
        return []
    assert batch.schema == UPDATES
    columns = ("kind", "key", "at", "value", "grant")
    return list(zip(*(batch.column(name).to_pylist() for name in columns), strict=True))


def wide(item, width, since=1, counter=1, shrink=0.0, confirm=False):
    return Grant(item, width, shrink, since, version(1, counter), confirm)


def test_the_first_value_of_an_item_is_a_hello_and_then_every_change_is_sent_while_there_is_no_grant():
    core = make_core()
    offer(core, 1, a=5.0)
    offer(core, 2, a=5.0)
    offer(core, 3, a=5.5, b=1.0)
    assert rows(core) == [
        ("hello", "a", 1, 5.0, 0),
        ("hello", "b", 3, 1.0, 0),
        ("update", "a", 3, 5.5, 0),
    ]


def test_a_value_inside_its_filter_stays_silent_and_equality_is_inside():
    core = make_core()
    core.grant([wide("a", 4.0)], 1)
    offer(core, 2, a=10.0)
    for now, value in enumerate((11.0, 12.0, 12.1, 14.0, 14.2, 14.1, 12.0), 3):
        offer(core, now, a=value)
    sent = [value for kind, *_, value, _ in rows(core) if kind == "update"]
    assert sent == [12.1, 14.2, 12.0]


def test_a_boundary_applies_the_filters_again_and_stamps_what_it_sends_one_past_it():
    core = make_core()
    core.grant([wide("a", 4.0, shrink=0.25)], 1)
    offer(core, 2, a=10.0)
    offer(core, 19, a=11.8)
    assert [row[0] for row in rows(core)] == ["hello"]
    core.advance(25)
    assert rows(core) == [("update", "a", 21, 11.8, version(1, 1))]


def test_a_boundary_comes_before_anything_stamped_later_and_after_what_is_stamped_on_it():
    core = make_core()
    core.grant([wide("a", 4.0, shrink=0.25)], 1)
    offer(core, 2, a=10.0)
    offer(core, 20, a=11.8)
    assert [row[2] for row in rows(core)] == [2]
    offer(core, 30, a=10.0)
    assert [(at, value) for _, _, at, value, _ in rows(core)] == [(21, 11.8), (30, 10.0)]


def test_every_boundary_of_a_long_sleep_is_done():
    core = make_core()
    core.grant([wide("a", 4.0, shrink=0.25)], 1)
    offer(core, 2, a=10.0)
    offer(core, 3, a=11.0)
    core.drain()
    core.advance(201)
    # 4, 3, 2.25, 1.6875: |11 − 10| > 1.6875 / 2 at the third boundary.
    assert rows(core)[0] == ("update", "a", 61, 11.0, version(1, 1))


def test_a_wider_grant_never_sends_and_a_narrower_one_sends_what_it_leaves_outside():
    core = make_core()
    offer(core, 1, a=10.0, b=10.0)
    core.grant([wide("a", 8.0), wide("b", 8.0)], 2)
    offer(core, 3, a=13.0, b=11.0)
    core.drain()
    core.grant([wide("a", 9.0, counter=2), wide("b", 9.0, counter=2)], 4)
    assert len(core) == 0
    core.grant([wide("a", 4.0, counter=3), wide("b", 4.0, counter=3)], 5)
    assert rows(core) == [("update", "a", 5, 13.0, version(1, 3))]


def test_a_grant_that_asks_for_it_is_acknowledged_at_each_arrival_and_recentres_the_filter():
    core = make_core()
    offer(core, 1, a=10.0)
    core.grant([wide("a", 8.0)], 2)
    offer(core, 3, a=11.0)
    core.drain()
    asked = wide("a", 4.0, counter=2, confirm=True)
    core.grant([asked], 4)
    core.grant([asked], 5)
    assert rows(core) == [("ack", "a", 4, 11.0, asked.version), ("ack", "a", 5, 11.0, asked.version)]
    assert core.filter_of("a")[:4] == (11.0, 11.0, 4.0, asked.version)


def test_an_older_version_is_ignored_even_if_it_asks_for_an_answer():
    core = make_core()
    offer(core, 1, a=10.0)
    core.grant([wide("a", 8.0, counter=5)], 2)
    core.drain()
    core.grant([wide("a", 1.0, counter=4, confirm=True)], 3)
    assert len(core) == 0
    assert core.filter_of("a").version == version(1, 5)


def test_a_grant_is_not_in_force_before_its_time():
    core = make_core()
    offer(core, 1, a=10.0)
    core.drain()
    core.grant([wide("a", 8.0, since=21, confirm=True)], 2)
    assert core.filter_of("a").version == 0
    offer(core, 20, a=10.5)
    assert rows(core) == [("update", "a", 20, 10.5, 0)]
    core.advance(22)
    assert rows(core) == [("ack", "a", 21, 10.5, version(1, 1))]


def test_grants_read_before_the_first_value_are_carried_by_the_hello():
    core = make_core(epoch=3)
    core.grant([wide("a", 8.0, confirm=True), wide("z", 1.0)], 1)
    offer(core, 5, a=1.0)
    assert rows(core) == [("hello", "a", 5, 1.0, version(1, 1))]


def test_a_clock_that_steps_back_repeats_the_last_stamp_plus_one():
    core = make_core()
    assert [offer(core, now, a=float(now)) for now in (100, 100, 40, 101, 102)] == [100, 100, 101, 101, 102]


def test_rows_drained_later_are_stamped_after_every_through():
    core = make_core()
    offer(core, 10, a=1.0)
    core.advance(15)
    assert core.drain().column("through").to_pylist() == [15]
    assert offer(core, 15, a=2.0) == 16


def test_through_is_true_of_each_row_alone():
    core = make_core()
    offer(core, 10, a=1.0, b=1.0)
    offer(core, 14, a=2.0)
    offer(core, 16, a=2.0)
    assert core.drain().column("through").to_pylist() == [9, 13, 16]


def test_sequences_count_up_under_the_epoch():
    core = make_core(epoch=7)
    offer(core, 1, a=1.0, b=1.0)
    first = core.drain().column("sequence").to_pylist()
    offer(core, 2, a=2.0)
    assert first + core.drain().column("sequence").to_pylist() == [version(7, n) for n in (1, 2, 3)]


def test_it_beats_when_nothing_was_sent_for_a_third_of_the_lease_and_only_then():
    core = make_core()
    core.advance(5)
    assert core.due() is None
    offer(core, 10, a=1.0)
    assert core.due() == 21
    core.advance(39)
    assert [row[0] for row in rows(core)] == ["hello"]
    assert core.due() == 40
    core.advance(40)
    core.advance(41)
    assert rows(core) == [("heartbeat", "", 40, 0.0, 0)]


def test_a_heartbeat_is_sent_although_values_within_their_filters_come_at_the_same_moment():
    core = make_core()
    offer(core, 10, a=1.0)
    core.grant([wide("a", 4.0, since=500)], 11)
    core.drain()
    for moment in range(20, 81, 10):
        offer(core, moment, a=1.0)
        core.advance(moment)
    assert [row[:3] for row in rows(core)] == [("heartbeat", "", 40), ("heartbeat", "", 70)]


def test_a_removed_item_is_gone_and_can_come_back():
    core = make_core()
    offer(core, 1, a=1.0)
    core.grant([wide("a", 4.0, since=500)], 2)
    core.remove(0, 3)
    assert [row[:3] for row in rows(core)] == [("hello", "a", 1), ("gone", "a", 3)]
    with pytest.raises(ValueError, match="removed only while"):
        core.remove(0, 4)
    core.advance(600)
    offer(core, 601, a=7.0)
    assert rows(core) == [("hello", "a", 601, 7.0, version(1, 1))]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_and_nothing_of_the_call_is_taken(bad):
    core = make_core()
    with pytest.raises(ValueError, match=r"item 'b', at position 1"):
        offer(core, 1, a=1.0, b=bad)
    assert len(core) == 0
    assert core.items() == []


@pytest.mark.parametrize("handles", [[-1], [3]])
def test_unknown_handles_are_refused(handles):
    with pytest.raises(ValueError, match="handles must be"):
        make_core().offer(np.array(handles), np.array([1.0]), 1)


def test_of_a_repeated_handle_the_last_value_counts_and_is_sent_once():
    core = make_core()
    core.offer(np.array([0, 0]), np.array([1.0, 2.0]), 1)
    core.offer(np.array([0, 0, 0]), np.array([9.0, 3.0, 3.0]), 2)
    assert [(at, value) for _, _, at, value, _ in rows(core)] == [(1, 2.0), (2, 3.0)]


values = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -4.0, 1e12])
grants = st.builds(
    Grant,
    item=st.sampled_from([*KEYS, "elsewhere"]),
    width=st.sampled_from([0.0, 0.7, 2.0, 5.0, np.inf]),
    shrink=st.sampled_from([0.0, 0.25, 0.4]),
    since=st.integers(0, 150),
    version=st.integers(1, 6).map(lambda counter: version(1, counter)),
    confirm=st.booleans(),
)
steps = st.one_of(
    st.tuples(st.just("offer"), st.lists(st.tuples(st.sampled_from(KEYS), values), min_size=1, max_size=4)),
    st.tuples(st.just("grant"), st.lists(grants, max_size=3)),
    st.tuples(st.just("advance"), st.none()),
    st.tuples(st.just("remove"), st.sampled_from(KEYS)),
    st.tuples(st.just("drain"), st.none()),
)


def once_a_version(script):
    """A version is never reused: give each item and version the first grant that has them."""
    said = {}
    return [
        (kind, [said.setdefault((g.item, g.version), g) for g in what] if kind == "grant" else what, step)
        for (kind, what), step in script
    ]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(steps, st.integers(-15, 40)), max_size=40).map(once_a_version))
def test_it_does_what_its_slow_twin_does(script):
    core, twin, now = make_core(), Twin(OPTIONS, 1), 1
    for kind, what, step in script:
        now = max(1, now + step)
        if kind == "offer":
            core.offer(core.register([key for key, _ in what]), np.array([value for _, value in what]), now)
            twin.offer(what, now)
        elif kind == "grant":
            core.grant(what, now)
            twin.grant(what, now)
        elif kind == "advance":
            core.advance(now)
            twin.advance(now)
        elif kind == "remove" and what in twin.items:
            core.remove(core.register([what])[0], now)
            twin.remove(what, now)
        elif kind == "drain":
            assert canonical(rows(core)) == twin.drain()
        assert core.items() == sorted(twin.items)
        for key, item in twin.items.items():
            state = core.filter_of(key)
            assert state[:4] == (item.centre, item.value, item.width(core.clock, OPTIONS.boundary), item.version)
            assert abs(state.value - state.centre) <= state.width / 2  # the promise that everything rests on
    assert canonical(rows(core)) == twin.drain()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(-15, 40), values, st.booleans()), min_size=1, max_size=40))
def test_stamps_sequences_and_throughs_stand_in_order(script):
    core, now, batches = make_core(), 1, []
    for step, value, drain in script:
        now = max(1, now + step)
        offer(core, now, a=value)
        if drain and (batch := core.drain()):
            batches.append(batch)
    through, sequence = -1, 0
    for batch in batches:
        for row in batch.to_pylist():
            assert row["at"] > through
            assert row["through"] >= row["at"] - 1
            assert row["sequence"] > sequence
            through, sequence = row["through"], row["sequence"]
