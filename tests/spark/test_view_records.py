"""What a pipeline of views wrote about itself, forged: the views are computed again, with a warning, and are right."""

import json

import pytest
from test_view_pipeline import HOME, LocalViews, create
from test_view_pushes import VIEWS

from tolerant.client import Client
from tolerant.spark.views.checkpoint import read_checkpoint, read_groups, read_published
from tolerant.sql import parse
from tolerant.transport.records import BadRecord
from tolerant.transport.rows import compacted
from tolerant.transport.topics import current_topic
from tolerant.views.view_groups import ViewGroup

STATUS, GROUPS, COMMIT = f"status.{HOME.name}", f"rows.{HOME.name}", "commit"
WHEN = "WHEN (SELECT SUM(c) FROM demand) > 3"
WATCHED = parse(f"CREATE QUERY grouped AS {VIEWS['grouped']} REFRESH WITHIN '5 s' {WHEN}")
JUNK = (b"", b"null", b"[]", b"{}", b"\xff\xfe", b"[" * 100_000, b"7", b'[["x"]]', b'"text"')


@pytest.fixture
def pipeline(tmp_path):
    pipeline = LocalViews(tmp_path, create("grouped"), create("joined"))
    pipeline.put("supply", 1, "p", 1)
    pipeline.put("demand", 1, "p", 2)
    pipeline.tick()
    pipeline.shard.save()
    pipeline.put("supply", 2, "q", 3)
    pipeline.put("demand", 2, "q", 4)
    pipeline.refresh("grouped")
    pipeline.put("demand", 3, "q", 1)
    pipeline.tick()
    return pipeline


def forge(pipeline, topic, key, body):
    """Append a record that is newer than the one there is, and older than those of the next epoch."""
    record = pipeline.log.latest(topic, key)
    pipeline.log.append(topic, compacted([(key, record.version + 1 if record else 1, body)]))


def check_all(pipeline, *views):
    for view in views:
        pipeline.refresh(view)
        pipeline.check_view(view)


def check_recovers(pipeline):
    """It begins with a warning; the views are right, and after another restart, without a warning, still are."""
    with pytest.warns(BadRecord):
        pipeline.restart()
    pipeline.read()
    pipeline.put("supply", 1, "q", pipeline.runs % 5)
    check_all(pipeline, "grouped", "joined")
    pipeline.restart()
    pipeline.put("demand", pipeline.runs % 4, "p", 5)
    check_all(pipeline, "grouped", "joined")


def commit(pipeline):
    return json.loads(pipeline.log.latest(STATUS, COMMIT).body)


@pytest.mark.parametrize("body", [None, b"", b"\xff\xfe", b"[" * 100_000, b"[7]"], ids=lambda body: repr(body)[:20])
def test_where_the_views_stand_cannot_be_read(pipeline, body):
    forge(pipeline, STATUS, COMMIT, body)
    check_recovers(pipeline)


def test_where_the_views_stand_says_what_cannot_be(pipeline):
    """In the end also what a second pipeline says that ran in between, on a checkpoint of its own."""
    held = commit(pipeline)
    for forged in (
        {"batch": 10**6},
        {"position": 10**9},
        {"position": "x"},
        {"views": 7},
        {"views": {"nobody": {}}},
        {"making": [[]]},
        {"waiting": [["grouped", "r", "x"]]},
        {"checkpoint": "another"},
    ):
        body = json.dumps(held | forged).encode()
        with pytest.raises((ValueError, LookupError, TypeError)):
            read_checkpoint(body, "checkpoint", held["batch"], pipeline.log.end()).views["grouped"]
    forge(pipeline, STATUS, COMMIT, body)
    check_recovers(pipeline)


def test_what_is_known_of_a_view_cannot_be_read(tmp_path):
    """Only this view is computed again; a condition begins anew with it."""
    pipeline = LocalViews(tmp_path, WATCHED, create("joined"))
    pipeline.put("demand", 1, "p", 2)
    pipeline.refresh("grouped")
    known = commit(pipeline)["views"]["grouped"]
    for forged in (
        {"absorbed": {}},
        {"absorbed": {"demand": 10**9, "supply": 0}},
        {"absorbed": 7},
        {"figures": {"pushes": "x"}},
        {"figures": None},
        {"scheduler": "x"},
        {"scheduler": "AAAA"},
        {"watch": [[], [], True, None, 0, 0]},
        {"watch": [["x"], [1], True, None, 0, 0]},
        {"watch": [[1], ["x"], True, None, 0, 0]},
        {"watch": 7},
        {"fired": [7]},
        {"fired": [["x", 1, 1]]},
        {"beside": ["x", 1]},
        {"beside": []},
    ):
        with pytest.raises((ValueError, LookupError, TypeError)):
            pipeline.shard._admission.resumed(WATCHED, known | forged)
    body = commit(pipeline)
    body["views"]["grouped"] |= forged
    forge(pipeline, STATUS, COMMIT, json.dumps(body).encode())
    with pytest.warns(BadRecord, match="'grouped'"):
        pipeline.restart()
    assert list(pipeline.shard._state.live) == ["joined"]
    pipeline.read()
    pipeline.put("demand", 2, "p", 5)
    check_all(pipeline, "grouped", "joined")
    assert [push["kind"] for push in pipeline.pushes("grouped")].count("notice") == 1


def test_groups_are_checked():
    good = b"[1,[1],[2.5],[]]"
    assert read_groups({'["p"]': good}, 1, 1, 0) == {("p",): ViewGroup(1, [1], [2.5], [])}
    for body in (*JUNK, b'[1,[1],["x"],[]]', b"[1,[1],[1],[1]]", b"[1,[true],[1],[]]", b"[1,[1],[1]]"):
        with pytest.raises((ValueError, TypeError, RecursionError)):
            read_groups({'["p"]': body}, 1, 1, 0)
    for text in ("", "junk", "7", "[[1]]", '["p","p"]', '[ "p"]', '{"p":1}', "[" * 100_000):
        with pytest.raises((ValueError, TypeError, RecursionError)):
            read_groups({text: good}, 1, 1, 0)


@pytest.mark.parametrize(("key", "body"), [('["p"]', b"null"), ('["p"]', b'["x",[],[],[]]'), ("junk", b"[1,[],[],[]]")])
def test_a_group_cannot_be_read(pipeline, key, body):
    forge(pipeline, GROUPS, f"grouped/{key}", body)
    check_recovers(pipeline)


def test_published_rows_are_checked():
    columns = [("product", "STRING"), ("n", "BIGINT")]
    good, bad = {'["p"]': b'[["p",1]]'}, dict.fromkeys(("junk", "7", "[[1]]", '["p","q"]'), b'[["p",1]]')
    bad |= {f'["{n}"]': body for n, body in enumerate((b"x", b"7", b'[["p"]]', b"[7]", b'[["p","x"]]', b"[[1,1]]"))}
    assert read_published(good, columns, 1) == ({("p",): [["p", 1]]}, [])
    assert read_published(good | bad, columns, 1) == ({("p",): [["p", 1]]}, [*bad])


@pytest.mark.parametrize(("key", "body"), [('["p"]', b'[["p"]]'), ("junk", b"7")])
def test_a_published_group_cannot_be_read(pipeline, key, body):
    forge(pipeline, current_topic("grouped"), key, body)
    with pytest.warns(BadRecord):
        Client(pipeline.log).view("grouped")  # what is there to read
    check_recovers(pipeline)


def test_a_crash_while_a_view_is_computed_again_loses_nothing(pipeline):
    forge(pipeline, GROUPS, "grouped/junk", b"junk")
    for _ in range(2):
        with pytest.warns(BadRecord):
            pipeline.restart()
        pipeline.shard.step()
        assert "grouped" in commit(pipeline)["making"]
        forge(pipeline, GROUPS, "joined/junk", b"junk")  # this too, the second time
    pipeline.restart()
    pipeline.read()
    check_all(pipeline, "grouped", "joined")


def test_a_snapshot_of_the_tables_that_was_cut_short_is_not_needed(pipeline):
    pipeline.shard.save()
    file = pipeline.folder / "tables.snapshot"
    file.write_bytes(file.read_bytes()[:100])
    check_recovers(pipeline)
    pipeline.shard.save()
    file.write_bytes(b"x")
    check_recovers(pipeline)
