"""The committed run of the benchmark is what the documentation shows, and kept every promise that it judged."""

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("aiohttp")

import polling_outages

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def figures():
    return {figure["name"]: figure for figure in json.loads((DOCS / "polling-outages.json").read_text())["figures"]}


def test_the_table_in_the_documentation_is_that_of_the_run(figures):
    values = {name: figure["value"] for name, figure in figures.items()}
    assert polling_outages.table(values) in (DOCS / "polling.md").read_text()


def test_the_run_was_in_full_and_missed_nothing(figures):
    record = json.loads((DOCS / "polling-outages.json").read_text())
    assert record["inputs"]["ticks"] == sum(polling_outages.PHASES.values())
    assert record["inputs"]["worlds"] == polling_outages.SEEDS
    assert all(figure["holds"] is not False for figure in figures.values())
    judged = [name for name in figures if "worst window" in name]
    assert [figures[name]["holds"] for name in judged] == [True] * len(polling_outages.PHASES)


def seen(*ticks):
    """What two queries of an item each answered, tick by tick: None, or (value, fidelity); the truth is 0."""
    answers = [
        [None if a is None else {"value": a[0], "fidelity": a[1], "stale": False, "settling": False} for a in tick]
        for tick in ticks
    ]
    count, members = len(ticks), [polling_outages.np.array([0])] * 2
    zeros = [polling_outages.np.zeros(1)] * count
    return polling_outages.Seen(members, answers, zeros, [0] * count, ["after it"] * count)


def test_a_window_is_judged_by_its_settled_answers():
    within = polling_outages.WITHIN
    judged = polling_outages.judge(seen([(0.0, 0.9), None], [(2 * within, 0.9), (within, 0.5)]), range(2))
    assert (judged.settled, judged.right, judged.all) == (3, 2, 4)
    assert judged.share - judged.claim == pytest.approx(2 / 3 - 2.3 / 3)
    assert math.isnan(polling_outages.judge(seen([None, None]), range(1)).share)


def test_a_window_that_falls_short_is_missed_in_full_and_told_in_quick(capsys):
    wrong, right = [(9.0, 0.9)] * 2, [(0.0, 0.9)] * 2
    length = polling_outages.FIRST + polling_outages.WINDOW
    world = seen(*[right] * (length - 4), *[wrong] * 4)
    (missed,) = [f for f in polling_outages.figures_of([world], False) if "worst window" in f.name]
    assert missed.holds is False
    (told,) = [f for f in polling_outages.figures_of([world], True) if "worst window" in f.name]
    assert told.holds is None
    assert "window from tick 60 (after it): 60 settled, 0.867 right, 0.900 claimed" in capsys.readouterr().out
