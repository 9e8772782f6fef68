"""Sums in place of items: what the rows are, and that an exchange for which there is room unsettles nothing."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.filters import Change, Coordinator
from tolerant.filters.status_view import query_statuses
from tolerant.filters.substitution import PartialSum, RowRoom, matches_query, row_room
from tolerant.queries import Aggregate

ITEMS = ["a", "b", "c", "d"]
SHRINK = 0.1


def part_of(c: Coordinator, query: str, weights: dict[str, float], total: str = "y") -> PartialSum:
    return PartialSum(
        query, c.membership.find(list(weights)), np.array(list(weights.values())), int(c.membership.find([total])[0])
    )


def average(weights: dict[str, float], within: float = 2.0, **options: object) -> Coordinator:
    """An average of four items, two of which a sum `y` could stand for; a hidden query holds it to a width of 6."""
    query = Aggregate("q", "avg", {**dict.fromkeys(ITEMS, 1.0), **weights}, within)
    c = Coordinator([query], values=dict.fromkeys(ITEMS, 10.0), policy="predictive", **options)
    c.add(Aggregate("h", "sum", {"y": 1.0}, 3.0), 1)
    c.membership.mark_sums(c.membership.find(["y"]))
    c.update("y", sum(weights.values()) * 10.0, 2)
    return c


def test_a_sum_takes_its_items_places_and_an_average_divides_as_before():
    c = average({"a": 1.0, "b": 1.0})
    part = part_of(c, "q", {"a": 1.0, "b": 1.0})
    before = c.answers()[0]
    assert row_room(c.membership, part) == RowRoom(left=8.0, items=8.0, sum=6.0, fraction=0.5)
    changed = c.apply(Change(substitute=[part], drop=["h"]), 3)
    after = c.answers()[0]
    assert changed == {"a": math.inf, "b": math.inf}
    assert after.settled
    assert after.value == before.value == 10.0
    assert after.high - after.low == (4 + 4 + 6) / 4
    assert query_statuses(c.membership, ["q"])[0].items == 4


def test_it_goes_back_as_it_came():
    c = average({"a": 1.0, "b": -2.0})
    weights = {"a": 1.0, "b": -2.0}
    part = part_of(c, "q", weights)
    c.apply(Change(substitute=[part], drop=["h"]), 3)
    assert not matches_query(c.membership, part)
    c.apply(Change(add=[Aggregate("h", "sum", weights, 2.9)]), 4)
    assert row_room(c.membership, part).items == math.inf  # they may be anything until they have said what they are
    c.update("a", 11.0, 5)
    c.update("b", 9.0, 5)
    room = row_room(c.membership, part)
    assert room.items <= 5.8 * (1 + 1e-12)
    assert room.items <= room.left
    c.apply(Change(restore=[part], drop=["h"]), 6)
    answer = c.answers()[0]
    assert answer.settled
    assert answer.value == (11 - 18 + 10 + 10) / 4
    assert c.widths["y"] == math.inf
    assert matches_query(c.membership, part)


def test_an_item_that_joins_an_average_gets_what_it_brings():
    c = average({"a": 1.0, "b": 1.0})
    c.apply(Change(substitute=[part_of(c, "q", {"a": 1.0, "b": 1.0})], drop=["h"]), 3)
    new = c.membership.intern(["e"])
    assert c.apply(Change(join={"q": {int(new[0]): 1.0}}, joining=new), 4) == {"e": 4.0}
    assert query_statuses(c.membership, ["q"])[0].items == 5


class Source:
    """Filters that do as they are told, when they hear of it."""

    def __init__(self, c: Coordinator, weights: dict[str, float]) -> None:
        self.c, self.weights = c, weights
        self.values = dict.fromkeys(ITEMS, 0.0)
        self.filters: dict[str, list] = {}  # centre, width, shrinks, version
        self.waiting: list[tuple[str, float, bool, int, bool]] = []

    def value(self, item: str) -> float:
        if item == "y":
            return math.fsum(weight * self.values[one] for one, weight in self.weights.items())
        return self.values[item]

    def hear(self, at: int, how_many: int) -> None:
        decided, names = self.c.grant_log.drain_grants(), self.c.membership.item_names
        for k in range(len(decided.item)):
            name, width = str(names[decided.item[k]]), float(decided.width[k])
            self.waiting.append((name, width, bool(decided.shrinks[k]), int(decided.version[k]), True))
        heard, self.waiting = self.waiting[:how_many], self.waiting[how_many:]
        for name, width, shrinks, version, _ in heard:
            self.filters[name] = [self.value(name), width, shrinks, version]
            self.c.update(name, self.value(name), at, version)

    def send(self, at: int) -> None:
        for name, (centre, width, _, version) in self.filters.items():
            if abs(self.value(name) - centre) > width / 2:
                self.filters[name][0] = self.value(name)
                self.c.update(name, self.value(name), at, version)

    def shrink(self) -> None:
        for state in self.filters.values():
            state[1] *= 1 - SHRINK if state[2] else 1.0


steps = st.lists(
    st.tuples(
        st.sampled_from(["walk", "walk", "hear", "hear", "boundary", "exchange", "alter"]), st.integers(0, 10**6)
    ),
    min_size=10,
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(steps, st.sampled_from(["sum", "avg"]), st.sampled_from([(1.0, 1.0), (2.0, -1.0), (0.5, 3.0)]))
def test_an_exchange_for_which_there_is_room_unsettles_no_answer_and_none_is_wrong(steps, fn, pair):
    weights = {"a": pair[0], "b": pair[1]}
    truths = {**dict.fromkeys(ITEMS, 1.0), **weights}
    c = Coordinator(policy="adaptive", shrink=SHRINK)
    c.apply(Change(add=[Aggregate("q", fn, truths, 3.0), Aggregate.over("m", "max", ["a", "d"], 4.0)]), 0)
    c.apply(Change(add=[Aggregate("h", "sum", {"y": 1.0}, 1.0)]), 0)
    c.membership.mark_sums(c.membership.find(["y"]))
    source = Source(c, weights)
    source.hear(0, 100)
    part, folded = part_of(c, "q", weights), False
    within = 3.0
    for at, (what, number) in enumerate(steps, 1):
        settled = c.answers()[0].settled
        if what == "walk":
            source.values[ITEMS[number % 4]] += (number % 201 - 100) / 20
            source.send(at)
        elif what == "hear":
            source.hear(at, number % 8)
        elif what == "boundary":
            c.boundary(at)
            source.shrink()
            source.send(at)
        elif what == "exchange":
            room = row_room(c.membership, part)
            if (room.items if folded else room.sum) <= room.left:
                hidden = Aggregate("h", "sum", {"y": 1.0} if folded else weights, max(room.left, 0.0) / 2)
                c.apply(Change(**{"restore" if folded else "substitute": [part]}, drop=["h"], add=[hidden]), at)
                folded = not folded
                assert c.answers()[0].settled >= settled
        else:
            within = 1.0 + number % 5
            c.alter("q", within, at)
        answer = c.answers()[0]
        truth = math.fsum(weight * source.values[item] for item, weight in truths.items())
        truth /= 4 if fn == "avg" else 1
        if answer.low is not None:
            assert answer.low - 1e-9 <= truth <= answer.high + 1e-9
        if answer.settled:
            assert answer.high - answer.low <= 2 * within * (1 + 1e-8)


def test_the_target_is_a_little_less_than_there_is_room_for():
    assert RowRoom(left=10.0, items=4.0, sum=math.inf, fraction=0.5).target(4.0) == pytest.approx(0.9 * 7.0)
    assert RowRoom(left=3.0, items=4.0, sum=math.inf, fraction=0.5).target(4.0) == pytest.approx(0.9 * 3.0)
