import json

import numpy as np
import pytest

from side_by_side import Comparison, Figure, Timing, compare, report


def test_methods_take_turns_and_warm_ups_do_not_count():
    turns = []
    comparison = compare("t", {"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, rounds=2, warmups=1)
    assert turns == ["a", "b"] * 3
    assert [len(timing.seconds) for timing in comparison.timings] == [2, 2]


def test_ratio_is_of_the_best_rounds():
    comparison = Comparison("t", (Timing("ours", (2.0, 1.0)), Timing("theirs", (9.0, 5.0))))
    assert comparison.ratio("ours", "theirs") == 5.0
    assert "ours is 5.00× as fast" in comparison.text(work=10)


def test_no_rounds_are_refused():
    with pytest.raises(ValueError, match="rounds"):
        compare("t", {"a": lambda: None}, rounds=0)


def test_a_bar_that_is_missed_by_numpy_is_missed(tmp_path):
    missed = Figure("delay", np.float64(4.0), "s", "≤ 3 s", np.float64(4.0) <= 3.0)
    assert not report("try", {}, [missed], out=tmp_path)
    (kept,) = json.loads((tmp_path / "bench-try.json").read_text())["figures"]
    assert (kept["value"], kept["holds"]) == (4.0, False)


def test_report_prints_and_keeps_the_figures(tmp_path, capsys):
    figures = [
        Figure("speed", 6.0, "×", "≥ 5", True),
        Figure("delay", 4.0, "s", "≤ 3 s", False),
        Figure("size", 1.0, "MB"),
    ]
    assert not report("try", {"rows": 3}, figures, out=tmp_path)
    printed = capsys.readouterr().out
    assert "holds" in printed
    assert "MISSED" in printed
    kept = json.loads((tmp_path / "bench-try.json").read_text())
    assert [figure["value"] for figure in kept["figures"]] == [6.0, 4.0, 1.0]
    assert kept["machine"]["cores"]


def test_a_missing_bar_is_not_a_missed_one(tmp_path):
    assert report("try", {}, [Figure("size", 1.0, "MB")], out=tmp_path)
