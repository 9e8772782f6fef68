import json
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tolerant.experiments import Chart, Experiment, Result, Verdict, load, names, run
from tolerant.experiments.adaptive_filters.filters_fig7 import judge, measure
from tolerant.experiments.harness.registry import modules

POINTS = [{"x": x, "y": float(x * x), "who": who, "where": "here"} for x in (1, 2, 3) for who in ("a", "b")]


def result(reproduced=True):
    experiment = Experiment(
        figure="Figure 0",
        claim="squares grow",
        grid=lambda quick: [],
        measure=lambda parameters: [],
        judge=lambda rows: Verdict(True, ""),
        chart=Chart(x="x", y="y", series="who", panel="where"),
    )
    return Result("squares", experiment, quick=True, rows=POINTS, verdict=Verdict(reproduced, "they do"), seconds=1.0)


def test_every_experiment_declares_what_it_reproduces():
    assert "filters-fig7" in names()
    for name in names():
        experiment = load(name)
        assert experiment.figure
        assert experiment.claim
        assert experiment.grid(True)
        assert len(experiment.grid(True)) <= len(experiment.grid(False))


def test_an_unknown_experiment_is_named_with_those_there_are():
    with pytest.raises(ValueError, match=r"no-such.*filters-fig7"):
        load("no-such")


def verdicts(text, pattern):
    """(figure, experiment, verdict) of each table row that names an experiment."""
    return {
        (figure, re.sub(r"_|\.py", "-", name).strip("-"), verdict)
        for figure, name, verdict in re.findall(pattern, text)
    }


def test_the_readmes_list_every_experiment_with_the_verdict_that_the_papers_page_records():
    folders = {Path(find_spec(module).origin).parent for module in modules().values()}
    listed = set()
    for folder in folders:
        rows = verdicts((folder / "README.md").read_text(), r"\| (.+?) \| \[`(\w+\.py)`\]\(\2\) \| (.+?) \|")
        names_here = {name for name, module in modules().items() if Path(find_spec(module).origin).parent == folder}
        assert {name for _, name, _ in rows} == names_here
        listed |= rows
    page = Path(__file__).parents[2] / "docs" / "papers.md"
    assert listed == verdicts(page.read_text(), r"\| (.+?) \| `([a-z]+-\w+)` \| (.+?) \|")


def test_a_verdict_reads_as_a_sentence():
    assert str(Verdict(True, "they do")) == "reproduced: they do"
    assert str(Verdict(False, "they do")) == "NOT reproduced: they do"


def test_results_are_kept_as_json_and_picture(tmp_path):
    data, picture = result().save(tmp_path / "new")
    kept = json.loads(data.read_text())
    assert kept["rows"] == POINTS
    assert kept["verdict"] == {"reproduced": True, "finding": "they do"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def rows_of(ratio, *, rest=3000, violations=0):
    base = {"rest": rest, "delta": 0.5, "violations": violations}
    return [
        {**base, "policy": "uniform", "messages_per_second": 10.0},
        {**base, "policy": "adaptive", "messages_per_second": 10.0 * ratio},
        {**base, "policy": "predictive", "messages_per_second": 5.0},
    ]


def test_the_verdict_follows_the_rows():
    assert judge(rows_of(0.6)).reproduced
    assert not judge(rows_of(0.9)).reproduced
    assert not judge(rows_of(0.6, violations=1)).reproduced


def test_one_regime_that_fails_is_enough():
    assert not judge(rows_of(0.6) + rows_of(2.0, rest=270)).reproduced


def test_hosts_that_never_rest_are_reported_but_not_judged():
    verdict = judge(rows_of(0.6) + rows_of(9.0, rest=0))
    assert verdict.reproduced
    assert "all hosts active: 9.00" in verdict.finding


def test_measure_breaks_no_promise():
    rows = measure({"regime": "", "rest": 300, "delta": 0.5, "hosts": 20, "ticks": 400, "warmup": 50})
    assert [row["policy"] for row in rows] == ["exact", "uniform", "adaptive", "predictive"]
    assert all(row["violations"] == 0 for row in rows)


@pytest.mark.spark
def test_an_experiment_runs_as_a_spark_job(tmp_path):
    from tolerant.spark.session import session

    spark = session("local[2]")
    reports = []
    result_of_run = run("filters-fig7", spark, quick=True, progress=lambda done, total: reports.append((done, total)))
    grid = load("filters-fig7").grid(True)
    assert reports[0] == (0, len(grid))
    assert reports[-1] == (len(grid), len(grid))
    # In the order of the grid, whichever worker was first.
    assert [(row["rest"], row["delta"]) for row in result_of_run.rows[::4]] == [(p["rest"], p["delta"]) for p in grid]
    assert all(row["violations"] == 0 for row in result_of_run.rows)
    result_of_run.save(tmp_path)
