"""The coordinator: worked example 8, and every answer against what filters and plain arithmetic say."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tolerant.filters import Change, Coordinator, Filter
from tolerant.kernels.snapshots import Schema
from tolerant.queries import Aggregate, Answer

ITEMS = ["a", "b", "c", "d", "e"]
SCHEMA = Schema("coordinator", 1)


def both(within: float = 3.0, **options: float) -> Coordinator:
    return Coordinator([Aggregate.over("both", "sum", ["x", "y"], within)], values={"x": 10, "y": 20}, **options)


def interval(answer: Answer) -> tuple[float | None, float | None, float | None]:
    return answer.low, answer.value, answer.high


def test_worked_example_8() -> None:
    c = both(shrink=0.1)
    assert c.widths == {"x": 3.0, "y": 3.0}
    assert interval(c.answers()[0]) == (27, 30, 33)
    for value in (14, 18, 22):
        c.update("x", value, 5)
    assert c.boundary(10) == pytest.approx({"x": 3.3})
    assert c.widths == pytest.approx({"x": 3.3, "y": 2.7})
    assert interval(c.answers()[0]) == pytest.approx((39, 42, 45))
    assert c.alter("both", 1.5, 11) == pytest.approx({"x": 1.65, "y": 1.35})
    assert interval(c.answers()[0]) == pytest.approx((39, 42, 45))
    assert c.answers()[0].settling
    c.update("x", 22, 12)
    c.update("y", 20, 12)
    assert interval(c.answers()[0]) == pytest.approx((40.5, 42, 43.5))
    assert c.answers()[0].settled
    assert c.alter("both", 3, 13) == {}
    grown = c.boundary(20)
    assert grown == pytest.approx({"x": 4.785}) or grown == pytest.approx({"y": 4.515})


def test_worked_example_2_in_a_coordinator() -> None:
    queries = [
        Aggregate.over("a", "avg", ["x", "y", "z"], 2),
        Aggregate("d", "sum", {"x": 1, "y": -2}, 3),
        Aggregate.over("lo", "min", ["z", "u"], 0.5),
        Aggregate("one", "avg", {"v": 2}, 1),
        Aggregate.over("n", "count", ["x", "t"], 0),
    ]
    assert Coordinator(queries).widths == {"x": 2, "y": 2, "z": 1, "u": 1, "v": 1, "t": math.inf}


def test_a_query_is_answered_once_all_its_items_have_a_value() -> None:
    c = Coordinator([Aggregate.over("s", "sum", ["x", "y"], 1)])
    c.update("x", 1, 0)
    assert c.answers() == []
    c.update("y", 2, 0)
    assert c.answers()[0].value == 3


def test_growth_waits_for_the_confirmation_of_the_tightening_that_pays_for_it() -> None:
    c = both(shrink=0.0)
    c.add(Aggregate.over("tight", "max", ["x"], 0.5), 1)
    assert c.widths["x"] == 1.0
    assert "y" not in c.boundary(10), "x's old width is still in use"
    c.update("x", 10, 11)
    assert c.boundary(20)["y"] == pytest.approx(5.0)


def test_dropping_lets_go_of_items_and_gives_fixed_ones_their_cap() -> None:
    c = Coordinator(
        [Aggregate.over("s", "sum", ["x", "y"], 1), Aggregate.over("m", "max", ["y"], 4)], values={"x": 0, "y": 0}
    )
    assert c.drop("s", 1) == {"x": math.inf, "y": 8.0}


def test_an_item_that_joins_an_average_takes_what_the_room_grew_by() -> None:
    c = Coordinator([Aggregate.over("s", "avg", ["x", "y"], 3)], values={"x": 0, "y": 0})
    new = c.membership.intern(["z"])
    assert c.apply(Change(join={"s": {int(new[0]): 2.0}}, joining=new), 1) == {"z": 3.0}
    assert c.widths == {"x": 6, "y": 6, "z": 3}


def test_an_item_that_joins_a_sum_starts_at_nothing_and_grows_first() -> None:
    c = Coordinator([Aggregate.over("s", "sum", ITEMS, 5)], values=dict.fromkeys(ITEMS, 0.0))
    new = c.membership.intern(["z"])
    c.apply(Change(join={"s": {int(new[0]): 1.0}}, joining=new), 1)
    assert c.widths["z"] == 0.0
    c.update("z", 1.0, 2)
    c.update("z", 2.0, 3)
    assert list(c.boundary(10)) == ["z"]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda c: c.update("nobody", 1, 0), "nobody"),
        (lambda c: c.update("x", math.nan, 0), "finite"),
        (lambda c: c.alter("both", -1, 0), "within"),
        (lambda c: c.alter("other", 1, 0), "other"),
        (lambda c: c.drop("other", 0), "other"),
        (lambda c: c.add(Aggregate.over("both", "sum", ["x"], 1), 0), "both"),
        (lambda c: Coordinator(policy="clever"), "policy"),
        (lambda c: Coordinator(shrink=1.0), "shrink"),
        (lambda c: Coordinator(period=0), "period"),
    ],
)
def test_bad_arguments_are_named(call, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        call(both())


weights = st.sampled_from([1.0, -1.0, 0.5, 3.0, 0.0])


@st.composite
def queries(draw: st.DrawFn, name: str) -> Aggregate:
    fn = draw(st.sampled_from(["sum", "avg", "min", "max", "count"]))
    items = draw(st.lists(st.sampled_from(ITEMS), min_size=1, unique=True))
    chosen = {item: draw(weights) if fn in ("sum", "avg") else 1.0 for item in items}
    return Aggregate(name, fn, chosen, draw(st.sampled_from([0.0, 0.5, 2.0, 10.0])))


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Aggregate], list[tuple]]:
    first = [draw(queries(f"q{n}")) for n in range(draw(st.integers(1, 3)))]
    steps = draw(
        st.lists(
            st.one_of(
                st.tuples(st.just("set"), st.sampled_from(ITEMS), st.floats(-20, 20).map(lambda v: round(v, 2))),
                st.just(("boundary",)),
                st.tuples(st.just("alter"), st.integers(0, 5), st.sampled_from([0.0, 0.3, 1.0, 5.0])),
                st.tuples(st.just("drop"), st.integers(0, 5)),
                queries("new").map(lambda query: ("add", query)),
                st.just(("store",)),
            ),
            max_size=40,
        )
    )
    return first, steps


def truth(query: Aggregate, values: dict[str, float]) -> float:
    terms = [weight * values[item] for item, weight in query.weights.items()]
    match query.fn:
        case "sum":
            return sum(terms)
        case "avg":
            return sum(terms) / len(terms)
        case "min":
            return min(terms)
        case "max":
            return max(terms)
    return len(terms)


class Play:
    """Filters at one end, a coordinator at the other, and every message delivered at once."""

    def __init__(self, first: list[Aggregate], policy: str) -> None:
        self.queries = {query.name: query for query in first}
        self.values = dict.fromkeys(ITEMS, 0.0)
        self.coordinator = Coordinator(first, values=self._queried(), policy=policy, shrink=0.1)
        self.filters = {item: Filter(width, 0.0, shrink=0.1) for item, width in self.coordinator.widths.items()}
        self.fixed: set[str] = set()
        self.at = 0
        self.policy = policy

    def _queried(self) -> dict[str, float]:
        return {item: self.values[item] for query in self.queries.values() for item in query.weights}

    def send(self, item: str) -> None:
        self.coordinator.update(item, self.values[item], self.at)

    def grant(self, widths: dict[str, float]) -> None:
        for item, width in widths.items():
            if item not in self.filters:
                self.filters[item] = Filter(width, self.values[item], shrink=0.1)
                self.send(item)
            elif self.filters[item].grant(width):
                self.send(item)

    def step(self, step: tuple) -> None:
        self.at += 1
        match step:
            case ("set", item, value):
                self.values[item] = value
                if item in self.filters and self.filters[item].offer(value):
                    self.send(item)
            case ("boundary",):
                before = self.coordinator.widths
                grants = self.coordinator.boundary(self.at)
                for item, width in self.coordinator.widths.items():
                    if item in grants or width == before[item]:
                        continue
                    if self.filters[item].shrink():
                        self.send(item)
                for item, width in grants.items():
                    self.filters[item].shrink()
                    self.filters[item].grant(width)
                    if self.filters[item].offer(self.values[item]):
                        self.send(item)
            case ("alter", number, within) if f"q{number}" in self.queries:
                old = self.queries[f"q{number}"]
                self.queries[old.name] = Aggregate(old.name, old.fn, old.weights, within)
                self.grant(self.coordinator.alter(old.name, within, self.at))
            case ("drop", number) if f"q{number}" in self.queries:
                del self.queries[f"q{number}"]
                self.grant(self.coordinator.drop(f"q{number}", self.at))
            case ("add", query) if f"q{len(self.queries)}" not in self.queries:
                query = Aggregate(f"q{len(self.queries)}", query.fn, query.weights, query.within)
                self.queries[query.name] = query
                self.grant(self.coordinator.add(query, self.at))
                for item in query.weights:
                    if item not in self.filters:
                        self.filters[item] = Filter(self.coordinator.widths[item], self.values[item], shrink=0.1)
                    self.send(item)
            case ("store",):
                self.coordinator.grant_log.drain_grants()
                self.coordinator.emitter.drain_answers()
                other = Coordinator(policy=self.policy, shrink=0.1)
                stored = SCHEMA.pack(self.coordinator.state())
                other.load(SCHEMA.unpack(stored))
                assert SCHEMA.pack(other.state()) == stored
                self.coordinator = other


@given(scripts(), st.sampled_from(["exact", "uniform", "adaptive"]))
@settings(max_examples=150, deadline=None)
def test_every_settled_answer_contains_the_truth_and_is_as_narrow_as_promised(script, policy: str) -> None:
    first, steps = script
    play = Play(first, policy)
    for step in steps:
        play.step(step)
        for answer in play.coordinator.answers():
            query = play.queries[answer.query]
            expected = truth(query, play.values)
            slack = 1e-9 * query.within + 1e-11 * max(abs(expected), 100.0)
            assert answer.low is not None
            assert answer.high is not None
            assert answer.low - slack <= expected <= answer.high + slack
            if answer.settled:
                assert answer.high - answer.low <= 2 * query.within + slack
    assert {answer.query for answer in play.coordinator.answers()} == set(play.queries)


@given(scripts(), st.sampled_from(["uniform", "adaptive"]))
@settings(max_examples=100, deadline=None)
def test_bounds_kept_row_by_row_are_those_of_a_recomputation(script, policy: str) -> None:
    first, steps = script
    play = Play(first, policy)
    for step in steps:
        play.step(step)
        for answer in play.coordinator.answers():
            query = play.queries[answer.query]
            held = {item: play.coordinator.believed(item) for item in query.weights}
            if query.fn == "count":
                assert answer.value == len(held)
                continue
            ends = [(c - w / 2, c + w / 2) for c, w in held.values()]
            if query.fn in ("min", "max"):
                pick = min if query.fn == "min" else max
                assert (answer.low, answer.high) == (pick(low for low, _ in ends), pick(high for _, high in ends))
                continue
            share = len(held) if query.fn == "avg" else 1
            value = sum(query.weights[item] * centre for item, (centre, _) in held.items()) / share
            half = sum(abs(query.weights[i]) * w for i, (_, w) in held.items() if query.weights[i]) / 2 / share
            assert answer.value == pytest.approx(value, abs=1e-9)
            assert (answer.high - answer.low) / 2 == pytest.approx(half, abs=1e-9)


def test_a_glitch_of_any_size_leaves_no_trace_in_a_sum() -> None:
    names = [f"i{n}" for n in range(50)]
    c = Coordinator([Aggregate.over("s", "sum", names, 5)], values=dict.fromkeys(names, 0.1))
    for glitch in (1e12, 1e18, 1e300, -1e250):
        c.update("i7", glitch, 1)
        c.update("i7", 0.1, 2)
        assert c.answers()[0].value == pytest.approx(5.0, abs=1e-9)


def test_a_million_items_fit_one_query() -> None:
    count = 1_000_000
    c = Coordinator([Aggregate.over("s", "avg", map(str, range(count)), 5)])
    indices = np.arange(count)
    c.update_many(
        indices, np.ones(count), np.zeros(count, np.int64), sequences=indices + 1, grants=c.grant_log.newest(indices)
    )
    assert c.answers()[0].value == pytest.approx(1.0)
    assert c.answers()[0].settled
