"""The plan that is kept while subscriptions come and go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_twin import prices

from tolerant.kernels.snapshots import Schema
from tolerant.merging import Costs, Merger, area, generate, merge, rows, total_cost

BASE = Costs(365, 3.25, 0.16)


def called(boxes):
    return area(boxes)


def check(merger, live, costs, size=area):
    groups = merger.groups()
    assert sorted(id for group in groups for id in group) == sorted(live)
    place = {id: k for k, id in enumerate(live)}
    rectangles = np.array([live[id] for id in live], float).reshape(-1, 4)
    numbered = [[place[id] for id in group] for group in groups]
    assert merger.cost == pytest.approx(total_cost(rectangles, numbered, costs, size), rel=1e-12, abs=1e-9)
    for channel, ids in merger.channels().items():
        inside = np.array([live[id] for id in ids], float)
        box = (*inside[:, :2].min(axis=0), *inside[:, 2:].max(axis=0))
        assert merger.boxes()[channel] == box


steps = st.lists(
    st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 5), st.integers(0, 3), st.integers(0, 3)), max_size=25
)


def play(merger, moves, after=lambda live, changes, before: None):
    live, number = {}, 0
    for adding, x, y, w, h in moves:
        before = ({id: merger.channel_of(id) for id in live}, merger.boxes())
        if adding or not live:
            live[number] = (x, y, x + w, y + h)
            changes = merger.add(number, live[number])
            number += 1
        else:
            id = sorted(live)[(x * 7 + y) % len(live)]
            del live[id]
            changes = merger.remove(id)
        after(live, changes, before)
    return live


@pytest.mark.parametrize("size", [area, called])
def test_it_is_always_a_partition_that_costs_what_it_says(size):
    @settings(max_examples=25, deadline=None)
    @given(steps, prices)
    def run(moves, costs):
        merger = Merger(costs, size=size, tries=1)

        def after(live, changes, before):
            check(merger, live, costs)
            channels, boxes = before
            now = {id: merger.channel_of(id) for id in live}
            moved = {id: (old, new) for id, old, new in changes.moves}
            for id in channels.keys() | now.keys():
                old, new = channels.get(id), now.get(id)
                assert moved.get(id, (old, old)) == (old, new) or old == new
                assert (old != new) <= (id in moved)
            assert set(changes.opened) == merger.boxes().keys() - boxes.keys()
            assert set(changes.closed) == boxes.keys() - merger.boxes().keys()
            both = boxes.keys() & merger.boxes().keys()
            assert set(changes.resized) == {channel for channel in both if boxes[channel] != merger.boxes()[channel]}

        play(merger, moves, after)

    run()


@settings(max_examples=15, deadline=None)
@given(steps, prices, st.integers(0, 25))
def test_a_restored_merger_goes_on_as_the_other(moves, costs, at):
    first = Merger(costs, seed=4)
    play(first, moves)
    second = Merger(costs, seed=4)
    live = play(second, moves[:at])
    schema = Schema("merger", 1)
    third = Merger.load(costs, schema.unpack(schema.pack(second.state())), seed=4)
    assert third.channels() == second.channels()
    assert len(third) == len(live)
    for adding, x, y, w, h in moves[at:]:  # the same numbers as `play` would give
        if adding or not live:
            number = 1 + max([*live, *(-1 for _ in [0])], default=-1)
            number = max(number, sum(1 for one in moves[:at] if one[0]))
            live[number] = (x, y, x + w, y + h)
            assert third.add(number, live[number]) == second.add(number, live[number])
        else:
            id = sorted(live)[(x * 7 + y) % len(live)]
            del live[id]
            assert third.remove(id) == second.remove(id)
    assert third.groups() == second.groups()
    assert third.improve(2) == second.improve(2)
    assert third.cost == second.cost


def test_the_first_fill_runs_pairs_and_the_order_is_kept():
    rectangles = generate(200, seed=1)
    merger = Merger(BASE)
    changes = merger.add_many([f"s{k}" for k in range(200)], rectangles)
    expected = merge(rectangles, BASE)
    assert merger.groups() == [[f"s{k}" for k in group] for group in expected.groups]
    assert merger.cost == pytest.approx(expected.cost)
    assert len(changes.opened) == len(expected.groups)
    assert len(changes.moves) == 200
    improved = merger.improve(2)
    assert merger.cost <= expected.cost
    assert bool(improved) == (merger.cost < expected.cost)
    restored = Merger.load(BASE, merger.state())
    assert restored.groups() == merger.groups()


def test_it_stays_near_a_fresh_plan_while_everything_is_replaced():
    rectangles = generate(400, seed=2)
    merger, live = Merger(BASE), {}
    merger.add_many(list(range(150)), rectangles[:150])
    live = {k: rectangles[k] for k in range(150)}
    for new in range(150, 300):
        old = new - 150
        merger.remove(old)
        merger.add(new, rectangles[new])
        del live[old]
        live[new] = rectangles[new]
    check(merger, live, BASE)
    assert merger.cost <= 1.01 * merge(np.array(list(live.values())), BASE).cost


def test_it_grows_from_nothing_and_shrinks_to_nothing():
    rectangles = generate(200, seed=3)
    merger = Merger(BASE, tries=0)
    for k in range(200):
        merger.add(k, rectangles[k])
    check(merger, dict(enumerate(rectangles)), BASE)
    for k in range(200):
        merger.remove(k)
    assert (merger.groups(), merger.cost, len(merger), merger.boxes()) == ([], 0, 0, {})
    merger.add(7, rectangles[7])
    assert merger.groups() == [[7]]


def test_many_on_one_rectangle_are_one_unit():
    merger = Merger(BASE)
    merger.add("first", [0, 0, 10, 10])
    for k in range(20):
        assert merger.add(k, [0, 0, 10, 10]).moves == ((k, None, 0),)
    assert merger.groups() == [["first", *range(20)]]
    assert merger.remove("first").moves == (("first", 0, None),)
    assert merger.cost == pytest.approx(total_cost([[0, 0, 10, 10]] * 20, [range(20)], BASE))


def test_hysteresis_keeps_subscribers_where_they_are():
    rectangles = generate(120, seed=5)
    moved = {}
    for hysteresis in (0.0, 1e9):
        merger = Merger(BASE, hysteresis=hysteresis)
        moves = [merger.add(k, rectangles[k]).moves for k in range(120)]
        moved[hysteresis] = sum(len(one) - 1 for one in moves)
    assert moved[0.0] > moved[1e9] == 0


def test_sizes_from_data_can_be_counted_anew():
    rng = np.random.default_rng(1)
    first, second = rows(rng.uniform(0, 400, (2000, 2))), rows(rng.normal(200, 60, (2000, 2)))
    rectangles, costs = generate(60, seed=6), Costs(20, 1, 0.1)
    merger = Merger(costs, size=first)
    merger.add_many(list(range(60)), rectangles)
    check(merger, dict(enumerate(rectangles)), costs, first)
    merger.reprice(size=second)
    check(merger, dict(enumerate(rectangles)), costs, second)
    merger.improve(1)
    check(merger, dict(enumerate(rectangles)), costs, second)
    with pytest.raises(ValueError, match="size must be of the kind"):
        merger.reprice(size=called)


def test_intervals_and_boxes_of_three_dimensions():
    for ends in ([[0, 4], [2, 6], [5, 9]], [[0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 2], [9, 9, 9, 9, 9, 9]]):
        merger = Merger(Costs(10, 2, 0.5))
        for k, one in enumerate(ends):
            merger.add(k, one)
        assert merger.cost == pytest.approx(total_cost(ends, merger.groups(), Costs(10, 2, 0.5)))
        assert {len(box) for box in merger.boxes().values()} == {len(ends[0])}


def test_mistakes_are_named():
    merger = Merger(BASE)
    merger.add("a", [0, 0, 1, 1])
    with pytest.raises(ValueError, match="'a' is there already"):
        merger.add("a", [0, 0, 1, 1])
    with pytest.raises(ValueError, match="'b' is not there"):
        merger.remove("b")
    with pytest.raises(ValueError, match="4 ends"):
        merger.add("b", [0, 1])
    with pytest.raises(ValueError, match="low end is above"):
        merger.add("b", [1, 0, 0, 1])
    with pytest.raises(ValueError, match="one for each of the 1"):
        merger.add_many(["b", "c"], [[0, 0, 1, 1]])
    with pytest.raises(ValueError, match="must differ"):
        merger.add_many(["b", "b"], [[0, 0, 1, 1]] * 2)
    with pytest.raises(ValueError, match="hysteresis"):
        Merger(BASE, hysteresis=-1)
    with pytest.raises(ValueError, match="rounds"):
        merger.improve(-1)
    merger.add(("tuple",), [0, 0, 1, 1])
    with pytest.raises(ValueError, match="integers or texts"):
        merger.state()
    assert merger.groups() == [["a", ("tuple",)]]  # a call that failed changed nothing
