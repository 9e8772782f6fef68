import numpy as np

from tolerant.demo.audit import Audit, audit, held, truth
from tolerant.queries import Aggregate, Answer
from tolerant.traces import Trace

TRACE = Trace(("a", "b"), np.array([[1.0, 2.0], [2.0, 2.0], [5.0, 2.0]]))
TIMES = np.array([10, 20, 30])
QUERY = Aggregate.over("q", "sum", ["a", "b"], within=1.0)


def answer(at, value, half=1.0, **flags):
    return Answer("q", at, value - half, value, value + half, **flags)


def check(*answers):
    return audit({("q", ""): QUERY}, answers, TRACE, TIMES)


def test_truth_of_each_function():
    def of(fn, weights=None):
        return truth(Aggregate("q", fn, weights or {"a": 1, "b": 1}, within=1), TRACE).tolist()

    assert of("sum", {"a": 2, "b": -1}) == [0, 2, 8]
    assert of("avg") == [1.5, 2, 3.5]
    assert of("min") == [1, 2, 2]
    assert of("max") == [2, 2, 5]
    assert of("count") == [2, 2, 2]


def test_an_answer_stands_until_the_next():
    stands = held([answer(10, 3.0), answer(25, 7.0)], TIMES)
    assert stands.value.tolist() == [3.0, 3.0, 7.0]
    assert stands.settled.all()


def test_nothing_stands_before_the_first_answer():
    assert held([answer(20, 3.0)], TIMES).standing.tolist() == [False, True, True]
    assert not held([], TIMES).standing.any()


def test_kept_promises_are_counted():
    assert check(answer(10, 3.5), answer(30, 7.0)) == Audit(answers=2, checks=3, violations=0, unsettled=0)


def test_an_answer_that_misses_the_truth_is_found():
    assert check(answer(10, 3.5)).violations == 1  # the truth at 30 is 7


def test_an_answer_that_is_too_wide_is_found():
    assert check(answer(10, 3.0, half=1.5), answer(20, 4.0), answer(30, 7.0)).violations == 1


def test_unsettled_answers_promise_nothing():
    found = check(answer(10, 99.0, stale=True), answer(20, 99.0, settling=True))
    assert (found.checks, found.violations, found.unsettled) == (0, 0, 3)
