"""The comparison of two commits: which figures belong together, and what becomes of the rounds."""

import pytest

from compare_commits import Row, paired, rows, table

OLD = {("values a second", "1/s"): 100.0, ("time", "s"): 2.0}
NEW = {("values per second", "1/s"): 110.0, ("time", "s"): 3.0}


def test_reworded_figures_are_compared_by_their_order():
    assert paired(OLD, NEW) == [
        (("values a second", "1/s"), ("values per second", "1/s")),
        (("time", "s"), ("time", "s")),
    ]


def test_figures_of_one_commit_only_are_left_out():
    assert paired({("gone", "×"): 1.0, **OLD}, NEW) == [(("time", "s"), ("time", "s"))]


def test_a_figure_is_the_median_of_its_rounds():
    rounds = [({("time", "s"): old}, {("time", "s"): new}) for old, new in ((2.0, 3.0), (4.0, 4.0), (2.0, 1.0))]
    assert rows("b", rounds) == [Row("b", "time", "s", 2.0, 3.0, 1.5, 0.5, 1.5)]


def test_the_table_has_one_figure_per_cell():
    lines = table([Row("b", "time", "s", 2.0, 3000.0, 1500.0, 1.0, 2000.0)], "abc", "def").splitlines()
    assert lines[2] == "| `b` | time | s | 2 | 3,000 | 1500.00 | 1.00 | 2000.00 |"
    assert {line.count("|") for line in lines} == {9}


@pytest.mark.parametrize("old", [{}, {("time", "s"): 0.0}])
def test_a_figure_that_cannot_be_compared_is_left_out(old):
    assert rows("b", [(old, {("time", "s"): 1.0})]) == []
