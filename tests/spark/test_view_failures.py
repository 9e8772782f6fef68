"""A view that fails is tried once more, then refused; the other views, and the pipeline, go on."""

import json

import pytest
from test_view_pipeline import HOME, Engine, LocalViews, create

from tolerant.cli.explain_view import refused_views, view_figures
from tolerant.client import Client, StatementClient, load_catalogue
from tolerant.sql import parse
from tolerant.transport.rows import unpack
from tolerant.transport.views import read_view
from tolerant.views.view_groups import ViewGroups

ODD = (
    "CREATE QUERY odd AS SELECT COUNT(*) AS n FROM supply r JOIN demand s ON r.id = s.id GROUP BY {}"
    " REFRESH WITHIN '5 s'"
)
BY_PRODUCT = parse(ODD.format("r.product"))


class Unlucky(Engine):
    """Fails at the statements in which `text` stands, `times` often; gives groups the types that they have."""

    text, times, error = None, 0, RuntimeError
    broken = False

    def run(self, sql, sources, limit=1e9):
        if self.times and self.text in sql:
            self.times -= 1
            raise self.error(f"attempt {self.times}")
        return super().run(sql, sources, limit)

    def is_wide(self, field):
        return super().is_wide(field) and not field.name.startswith("k")

    def columns(self, plan, tables):
        if self.broken:
            raise self.error("no columns")
        return super().columns(plan, tables)

    def check(self):
        if self.broken:
            raise RuntimeError("the engine is broken")


def pipeline_of(folder, *queries, **costs):
    return LocalViews(folder, *queries, engine=Unlucky, **costs)


def fill(pipeline, rows=3):
    for key in range(rows):
        pipeline.put("supply", key, "pq"[key % 2], key)
        pipeline.put("demand", key, "pq"[key % 2], key)
    pipeline.tick()


def status(pipeline, view):
    return json.loads(pipeline.log.latest(f"status.{HOME.name}", f"view/{view}").body)


def check_refused(pipeline, *reasons):
    """`odd` is gone, everybody can see why, and `grouped` is right, now and after restarts."""
    assert "odd" not in load_catalogue(pipeline.log).queries
    assert all(reason in status(pipeline, "odd")["refused"] for reason in reasons)
    assert any(all(reason in text for reason in ("odd is REFUSED", *reasons)) for text in pipeline.told)
    assert read_view(pipeline.log, "odd") == ({}, {})
    for _ in range(2):
        pipeline.put("supply", len(pipeline.current["supply"]), "p", 1)
        pipeline.refresh("grouped")
        pipeline.check_view("grouped")
        pipeline.restart()
    statements = [row["key"] for entry in pipeline.log.read("queries") for row in unpack(entry.payload).to_pylist()]
    assert statements.count("odd") == 2  # it was created and dropped, once each


@pytest.mark.parametrize("key", ["r.id * 1.5", "CAST(r.price AS DECIMAL(10, 2))"])
def test_a_key_that_cannot_be_written_ends_its_view_alone(tmp_path, key):
    pipeline = pipeline_of(tmp_path, create("grouped"), parse(ODD.format(key)))
    pipeline.tick()
    fill(pipeline)
    pipeline.refresh("odd")
    check_refused(pipeline, "bringing it up to date failed twice: TypeError", "Decimal is not JSON serializable")


def test_a_key_that_cannot_be_written_is_refused_in_the_reply(tmp_path):
    pipeline = pipeline_of(tmp_path, create("grouped"))
    fill(pipeline)
    sent = StatementClient(pipeline.log).send(parse(ODD.format("r.id * 1.5")))
    pipeline.tick()
    (reply,) = [reply for reply in pipeline.replies() if reply["request"] == sent.request]
    assert not reply["accepted"]
    assert reply["message"].startswith("making it failed twice: TypeError")
    check_refused(pipeline, "making it failed twice")


def test_what_fails_once_is_done_again(tmp_path):
    pipeline = pipeline_of(tmp_path, create("grouped"), create("all"))
    pipeline.tick()
    for round_ in range(4):
        fill(pipeline, rows=3 + round_)
        pipeline.engine.text, pipeline.engine.times = "d0", 1
        for view in ("grouped", "all"):
            pipeline.refresh(view)
            pipeline.check_view(view)
        assert not pipeline.engine.times
    assert sum("it is done again" in text for text in pipeline.told) == 4
    pipeline.restart()
    pipeline.refresh("all")
    pipeline.check_view("all")
    asked = [push for push in pipeline.pushes("grouped") if push["request"]]
    assert len(asked) == 4


def test_what_fails_again_is_refused(tmp_path):
    pipeline = pipeline_of(tmp_path, create("grouped"), BY_PRODUCT)
    fill(pipeline)
    pipeline.refresh("odd")
    pipeline.put("supply", 7, "p", 1)
    pipeline.engine.text, pipeline.engine.times = "d0", 2
    pipeline.tick()
    pipeline.ask("odd")
    pipeline.read()
    check_refused(pipeline, "bringing it up to date failed twice: RuntimeError: attempt 0")


def test_a_push_that_takes_too_long_is_cancelled_and_its_view_refused(tmp_path):
    pipeline = pipeline_of(tmp_path, BY_PRODUCT)
    fill(pipeline)
    pipeline.engine.setups = (61.0, 61.0)
    before = pipeline.time.elapsed()
    pipeline.put("supply", 9, "p", 1)
    pipeline.refresh("odd")
    assert 120 <= pipeline.time.elapsed() - before < 125
    pipeline.engine.setups = (0.04, 0.08)
    StatementClient(pipeline.log).send(create("grouped"))
    pipeline.tick()
    check_refused(
        pipeline, "failed twice: TookTooLong: pushing 4 changes of supply took longer than 60 s, and was cancelled"
    )


def test_a_view_that_takes_too_long_to_make_is_refused_at_once(tmp_path):
    pipeline = pipeline_of(tmp_path, create("grouped"))
    fill(pipeline)
    pipeline.engine.full = 301.0
    StatementClient(pipeline.log).send(BY_PRODUCT)
    pipeline.tick()
    pipeline.engine.full = 0.02
    check_refused(pipeline, "computing the view from its tables took longer than 300 s, and was cancelled")


def test_timing_that_fails_twice_after_a_restart_ends_the_view(tmp_path):
    pipeline = pipeline_of(tmp_path, BY_PRODUCT, create("grouped"))
    fill(pipeline)
    for times in (1, 2):
        pipeline.restart()
        pipeline.engine.text, pipeline.engine.times = '"r"."id" = "s"."id"', times
        pipeline.tick()
        assert ("odd" in load_catalogue(pipeline.log).queries) == (times == 1)
    check_refused(pipeline, "timing it failed twice: RuntimeError")


def test_timing_again_that_fails_twice_ends_the_view(tmp_path):
    pipeline = pipeline_of(tmp_path, BY_PRODUCT, create("grouped"))
    fill(pipeline)
    pipeline.engine.factor = 20.0  # no promise can be kept any more
    for key in range(20, 40):
        pipeline.put("supply", key, "p", 1)
        pipeline.put("demand", key, "p", 1)
        pipeline.refresh("odd")
        pipeline.time.advance(30)
    assert any("odd will be LATE" in text for text in pipeline.told)
    pipeline.engine.text, pipeline.engine.times = "d0", 1000
    pipeline.time.advance(30)
    pipeline.tick()
    pipeline.engine.times, pipeline.engine.factor = 0, 1.0
    assert "odd" not in load_catalogue(pipeline.log).queries
    assert "timing it failed twice" in status(pipeline, "odd")["refused"]


def test_a_condition_is_told_once_whatever_fails_meanwhile(tmp_path):
    when = "(SELECT COUNT(*) FROM supply) > 2"
    odd = parse(ODD.format("r.product").replace("'5 s'", f"'5 s' WHEN {when}"))
    pipeline = pipeline_of(tmp_path, odd)
    fill(pipeline, 2)
    pipeline.engine.text, pipeline.engine.times = "d0", 1
    fill(pipeline, 3)
    assert not pipeline.engine.times
    assert [push["kind"] for push in pipeline.pushes("odd") if push["kind"] == "notice"] == ["notice"]
    fill(pipeline, 4)
    assert [push["kind"] for push in pipeline.pushes("odd") if push["kind"] == "notice"] == ["notice"]


def break_engine(engine, error):
    engine.text, engine.times, engine.error, engine.broken = "d0", 10, error, True


@pytest.mark.parametrize("error", [OSError, RuntimeError])
def test_no_view_is_blamed_for_the_machine(tmp_path, error):
    pipeline = pipeline_of(tmp_path, BY_PRODUCT)
    fill(pipeline)
    break_engine(pipeline.engine, error)
    pipeline.put("supply", 9, "p", 1)
    for _ in range(3):
        with pytest.raises(error):
            pipeline.refresh("odd")
        pipeline.restart()
        break_engine(pipeline.engine, error)
    pipeline.restart()
    pipeline.refresh("odd")
    assert "odd" in load_catalogue(pipeline.log).queries
    assert Client(pipeline.log).view("odd").rows


@pytest.mark.parametrize("error", [ValueError, RuntimeError])
def test_a_view_that_a_newer_version_refuses_does_not_keep_it_from_starting(tmp_path, monkeypatch, error):
    pipeline = pipeline_of(tmp_path, create("grouped"), BY_PRODUCT)
    fill(pipeline)
    columns = Unlucky.columns

    def choosy(self, plan, tables):
        if len(plan.outputs) == 1:
            raise error("no such types any more")
        return columns(self, plan, tables)

    monkeypatch.setattr(Unlucky, "columns", choosy)
    pipeline.restart()
    pipeline.tick()
    check_refused(pipeline, "no such types any more")


def test_a_view_that_no_longer_stands_is_left_out(tmp_path):
    pipeline = pipeline_of(tmp_path, create("grouped"), BY_PRODUCT)
    fill(pipeline)
    checkpoint = pipeline.shard._records | {"stranger": dict(pipeline.shard._records["odd"])}
    assert pipeline.shard._admission.resume(checkpoint, []) == []
    assert set(pipeline.shard._state.live) == {"grouped", "odd"}


def test_sums_of_whole_numbers_go_round_at_64_bits():
    """As Spark's do when the view is computed again: what has 65 bits could not be published."""
    groups = ViewGroups(keys=0, arguments=1, summed=(0,), everything=True)
    for count, change in ((1, 2**62), (1, 2**62), (1, 2**62), (-1, -(2**62))):
        groups.merge({"n": [count], "c0": [count], "s0": [change]})
    assert groups.value((), "sum", 0) == -(2**63)
    groups.merge({"n": [-1], "c0": [-1], "s0": [-(2**62)]})
    assert groups.value((), "sum", 0) == 2**62


def test_status_says_which_views_were_refused_and_why(tmp_path):
    pipeline = pipeline_of(tmp_path, BY_PRODUCT, create("grouped"))
    fill(pipeline)
    pipeline.engine.text, pipeline.engine.times = '"r"."id" = "s"."id"', 2
    pipeline.put("supply", 9, "p", 1)
    pipeline.refresh("odd")
    expected = {"odd": "bringing it up to date failed twice: RuntimeError: attempt 0"}
    assert refused_views(pipeline.log, HOME.name, load_catalogue(pipeline.log)) == expected
    assert view_figures(pipeline.log, HOME.name, "odd") is None
    StatementClient(pipeline.log).send(BY_PRODUCT)
    assert refused_views(pipeline.log, HOME.name, load_catalogue(pipeline.log)) == {}
    pipeline.refresh("odd")
    assert view_figures(pipeline.log, HOME.name, "odd")["refreshes"] == 1


def test_a_view_over_rows_that_were_there_is_resumed_before_anything_is_pushed(tmp_path, recwarn):
    pipeline = pipeline_of(tmp_path, create("grouped"))
    fill(pipeline)
    StatementClient(pipeline.log).send(create("all"))
    pipeline.tick()
    pipeline.restart()
    assert set(pipeline.shard._state.live) == {"grouped", "all"}
    assert not [warning for warning in recwarn if "cannot be read" in str(warning.message)]
    pipeline.refresh("all")
    pipeline.check_view("all")
