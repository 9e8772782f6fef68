import numpy as np
import pytest

from tolerant.filters import FormChoice, aggregation_costs, cheaper_form

SUMS = {"a": {"v0": 1.0, "v1": 1.0}, "b": {"v0": 1.0, "v2": 1.0}}


def steps(*sizes):
    return {f"v{k}": size for k, size in enumerate(sizes)}


def deltas(first, second):
    return {"a": first / 2, "b": second / 2}


@pytest.mark.parametrize(
    ("sizes", "widths", "per_item", "per_query"),
    [
        ((1, 1, 1), (100, 2), "8.0004", "2.0008"),
        ((1, 1, 1), (2, 2), "11.542", "4.000"),
        ((1, 1, 1), (2, 6), "8.160", "2.222"),
        ((1, 0.1, 0.1), (2, 2), "2.0554", "2.0200"),
        ((1, 1e-6, 1e-6), (2, 3), "1.0003", "1.4444"),
    ],
)
def test_the_worked_example(sizes, widths, per_item, per_query):
    found = aggregation_costs(steps(*sizes), SUMS, deltas(*widths))
    digits = len(per_item.split(".")[1])
    assert [f"{cost:.{digits}f}" for cost in found] == [per_item, per_query]


def test_weights_count_by_their_square_in_a_sum_and_by_their_size_in_a_row():
    per_item, per_query = aggregation_costs({"x": 1.0, "y": 2.0}, {"net": {"x": 2.0, "y": -1.0}}, {"net": 5.0})
    assert per_query == pytest.approx(4 * (4 * 1 + 4) / 100)
    # 2x + y ≤ 10: x = 10·(1/2)^⅓/d, y = 10·4^⅓/d with d = 2·(1/2)^⅓ + 4^⅓.
    divisor = 2 * 0.5 ** (1 / 3) + 4 ** (1 / 3)
    expected = 4 / (10 * 0.5 ** (1 / 3) / divisor) ** 2 + 16 / (10 * 4 ** (1 / 3) / divisor) ** 2
    assert per_item == pytest.approx(expected, rel=1e-5)


def test_what_stands_still_is_free_and_what_may_not_err_has_no_price():
    assert aggregation_costs(steps(0, 0, 0), SUMS, deltas(0, 2)) == (0, 0)
    assert aggregation_costs(steps(1, 0, 0), SUMS, deltas(0, 2)) == (np.inf, np.inf)
    assert aggregation_costs({"x": 1.0}, {}, {}) == (0, 0)


def test_a_form_stays_unless_the_other_saves_more_than_a_fifth():
    assert cheaper_form("items", 1.0, 0.79) == "queries"
    assert cheaper_form("items", 1.0, 0.81) == "items"
    assert cheaper_form("queries", 0.79, 1.0) == "items"
    assert cheaper_form("queries", 0.81, 1.0) == "queries"
    assert cheaper_form("items", np.inf, np.inf) == "items"


def test_the_choice_follows_the_measured_steps_every_fifty_periods():
    choice = FormChoice(SUMS, deltas(2, 3), period=2)
    rng = np.random.default_rng(0)
    all_move = [choice.tick({f"v{k}": rng.normal() for k in range(3)} | {"other": 9.0}) for _ in range(100)]
    assert all_move == [False] * 99 + [True]
    assert choice.form == "queries"
    shared_moves = [choice.tick({"v0": rng.normal()}) for _ in range(100)]
    assert shared_moves == [False] * 99 + [True]
    assert choice.form == "items"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": {"v0": 1.0, "v1": 1.0}}, "'v2'"),
        ({"steps": steps(1, -1, 1)}, "'v1'"),
        ({"within": {"a": 1.0}}, "'b'"),
        ({"within": {"a": 1.0, "b": np.nan}}, "within.*'b'"),
        ({"weights": {"a": {"v0": np.inf}, "b": {}}}, "'v0' of query 'a'"),
    ],
)
def test_bad_arguments_say_which_and_why(change, message):
    with pytest.raises(ValueError, match=message):
        aggregation_costs(**({"steps": steps(1, 1, 1), "weights": SUMS, "within": deltas(2, 2)} | change))


def test_a_form_that_does_not_exist_and_a_period_that_is_none():
    with pytest.raises(ValueError, match="form"):
        cheaper_form("rows", 1, 2)
    with pytest.raises(ValueError, match="period"):
        FormChoice(SUMS, deltas(2, 2), period=0)
