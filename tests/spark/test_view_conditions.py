"""`WHEN …`: a view is brought up to date with every moment at which its condition becomes true, and that is told."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_view_pipeline import START, TABLES, VIEWS, LocalViews
from view_duck import recomputed, same_rows

from tolerant.client import Client, ConditionMet
from tolerant.relations import Changes
from tolerant.spark.views.shard import Applied
from tolerant.spark.views.watch import Fired, Watch
from tolerant.sql import parse
from tolerant.streams import SECOND

PLENTY = "(SELECT COUNT(*) FROM supply WHERE a > 1) >= 2"
MEAN = f"(SELECT AVG(c) FROM demand) > 1.5 AND NOT {PLENTY} OR (SELECT SUM(a) FROM supply WHERE product = 'p') = 3"


def created(name, when, refresh="1 s"):
    return parse(f"CREATE QUERY {name} AS {VIEWS[name]} REFRESH WITHIN '{refresh}' WHEN {when}")


def truth(when, rows):
    """Whether the condition holds of these rows, by DuckDB."""
    return recomputed(f"SELECT {when} AS holds", TABLES, {name: list(of.values()) for name, of in rows.items()})[0][0]


# -- the condition alone: against the obvious --------------------------------------------------------------------------

ROWS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 2, 5]), st.sampled_from(["supply", "demand"]), st.integers(0, 3),
              st.sampled_from("pq"), st.none() | st.integers(0, 3)),
    max_size=30,
)  # fmt: skip


def played(moves):
    """The changes of each moment, as (at, [(table, old row, new row)]), and the tables after it."""
    held, at, found = {"supply": {}, "demand": {}}, START, []
    for wait, table, key, product, level in moves:
        at += wait * SECOND // 2
        row = None
        if level is not None:
            row = {"id": key, "product": product}
            row |= {"a": level, "price": level / 2} if table == "supply" else {"c": float(level)}
        if not found or found[-1][0] != at:
            found.append((at, [], None))
        found[-1][1].append((table, held[table].get(key), row))
        held[table].pop(key, None)
        if row is not None:
            held[table][key] = row
        found[-1] = (*found[-1][:2], {name: dict(of) for name, of in held.items()})
    return found


def applied(moments):
    """As the shard hands them over, a moment a release."""
    step, found = 0, []
    for at, changes, _ in moments:
        signed = [(table, sign, row) for table, old, new in changes for sign, row in ((False, old), (True, new)) if row]
        through = step + len(signed)
        for table, sign, row in signed:
            step += 1
            one = np.ones(1, np.int64)
            columns = {name: np.array([value], object if isinstance(value, str) else None)
                       for name, value in row.items()}  # fmt: skip
            change = Changes(np.array([sign]), np.array(["k"], object), one * at, one.astype(np.int32), ("s",), one,
                             columns)  # fmt: skip
            found.append(Applied(table, change, one * step, through, at - 1))
    return found


def expected(when, moments, apart, end):
    """When it must be told: event times."""
    last, armed, found = None, True, []
    states = [(at, bool(truth(when, tables))) for at, _, tables in moments]
    for index, (at, holds) in enumerate(states):
        until = states[index + 1][0] if index + 1 < len(states) else end + 1
        armed = armed or not holds
        moment = at if last is None else max(at, last + apart)
        if holds and armed and moment < until:
            found.append(moment)
            last, armed = moment, False
    return found


@settings(max_examples=25, deadline=None)
@given(ROWS, st.sampled_from([PLENTY, MEAN]), st.lists(st.integers(0, 60), max_size=4))
def test_a_condition_is_told_when_it_becomes_true_however_the_log_is_cut(moves, when, cuts):
    moments = played(moves)
    end = (moments[-1][0] if moments else START) + 3 * SECOND
    trigger = created("grouped", when).select.when
    changes = applied(moments)

    def heard(ends):
        watch, found = Watch(trigger, SECOND), watch_begun(trigger)
        for first, last in zip([0, *ends], [*ends, len(changes)], strict=True):
            part = changes[first:last]
            found += watch.take(part)
            if part:
                found += watch.passed(int(part[-1].changes.at[0]))
            record = watch.record()
            watch = Watch(trigger, SECOND)
            watch.resume(json.loads(json.dumps(record)))
        return found + watch.passed(end)

    # A transaction is never cut: it is released as a whole.
    whole = sorted({min(cut, len(changes)) for cut in cuts})
    whole = [cut for cut in whole if cut in (0, len(changes)) or changes[cut - 1].through != changes[cut].through]
    assert [one.at for one in heard([])] == expected(when, moments, SECOND, end)
    assert heard(whole) == heard([])


def watch_begun(trigger):
    return Watch(trigger, SECOND).begin({}, START - 1, 0)


def test_a_condition_that_comes_and_goes_is_told_once_in_the_time_of_a_refresh():
    trigger = created("grouped", "(SELECT COUNT(*) FROM supply) > 0").select.when
    moves = [(1, "supply", 0, "p", 1), *[(1, "supply", 0, "p", level) for level in (None, 1, None, 1, None, 1)]]
    fired = Watch(trigger, 2 * SECOND).take(applied(played(moves)))
    assert [(one.at - START) / SECOND for one in fired] == [0.5, 2.5]
    assert fired[0] == Fired(START + SECOND // 2, 1)


# -- through the pipeline ----------------------------------------------------------------------------------------------

STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["supply", "demand"]), st.integers(0, 3), st.sampled_from("pq"),
              st.integers(0, 3)),
    st.tuples(st.just("drop"), st.sampled_from(["supply", "demand"]), st.integers(0, 3)),
    st.just(("tick",)),
    st.just(("quiet",)),
    st.just(("restart",)),
    st.just(("save",)),
)  # fmt: skip


class LateViews(LocalViews):
    """Also keeps what the tables were, by event time; `lazy`: time passes and the pipeline does not look."""

    lazy = False

    def read(self, cut=None):
        if not self.lazy:
            super().read(cut)

    def remember(self):
        held = {name: [dict(row) for row in rows.values()] for name, rows in self.current.items()}
        self.past = [*getattr(self, "past", []), (self.now, held)]

    def view_at(self, view, at):
        empty = {name: [] for name in self.current}
        held = next((tables for when, tables in reversed(self.past) if when <= at), empty)
        return recomputed(VIEWS[view], TABLES, held)


def run(steps, folder, cut):
    """What somebody who listens from the beginning hears: notices, each with the view that it leaves."""
    pipeline = LateViews(folder, created("grouped", PLENTY))
    pipeline.past = []
    pipeline.tick()
    listener = Client(pipeline.log).subscribe("grouped")
    for index, step in enumerate([*steps, ("tick",), ("tick",), ("tick",)]):
        match step:
            case ("put", *what):
                pipeline.now += 1000
                pipeline.put(*what)
                pipeline.remember()
            case ("drop", *what):
                pipeline.now += 1000
                pipeline.drop(*what)
                pipeline.remember()
            case ("restart",):
                pipeline.restart()
            case ("save",):
                pipeline.shard.save()
            case _:
                pipeline.lazy = step == ("quiet",) or (cut and index % 3 != 0 and index < len(steps))
                pipeline.tick()
                pipeline.lazy = False
    while listener.poll():
        pass
    told, held = [], []
    for change in listener.ready():
        if isinstance(change, ConditionMet):
            told.append((change.at, held := list(held)))
        else:
            row = list(change.row.values())
            held.append(row) if change.kind == "insert" else held.remove(row)
    return pipeline, told


@settings(max_examples=10, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=30))
def test_every_notice_has_the_view_of_its_moment_whatever_the_batches(steps):
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        pipeline, told = run(steps, Path(one), cut=False)
        _, again = run(steps, Path(other), cut=True)
    assert [at for at, _ in told] == [at for at, _ in again]
    for (at, rows), (_, otherwise) in zip(told, again, strict=True):
        assert same_rows(rows, pipeline.view_at("grouped", at))
        assert same_rows(otherwise, rows)


def test_a_condition_that_holds_from_the_start_is_told_at_once(tmp_path):
    pipeline = LocalViews(tmp_path)
    for key in range(3):
        pipeline.put("supply", key, "p", 2)
    pipeline.put("demand", 0, "p", 1)
    pipeline.tick()
    from tolerant.client import StatementClient

    StatementClient(pipeline.log).send(created("grouped", PLENTY))
    pipeline.tick()
    pushes = [push["kind"] for push in pipeline.pushes("grouped")]
    assert pushes == ["create", "notice"]
    pipeline.check_view("grouped")
    status = json.loads(pipeline.log.latest("status.demand+supply@views", "view/grouped").body)
    assert (status["notices"], status["holds"], status["when"]) == (1, True, PLENTY)


def test_a_view_without_a_condition_says_nothing_unasked(tmp_path):
    pipeline = LocalViews(tmp_path, parse(f"CREATE QUERY grouped AS {VIEWS['grouped']} REFRESH WITHIN '1 s'"))
    for key in range(3):
        pipeline.put("supply", key, "p", 2)
        pipeline.tick()
    assert "notice" not in [push["kind"] for push in pipeline.pushes("grouped")]


@pytest.mark.parametrize("name", ["grouped", "joined"])
def test_requests_and_notices_live_side_by_side(tmp_path, name):
    pipeline = LocalViews(tmp_path, created(name, PLENTY))
    pipeline.tick()
    for key in range(8):
        pipeline.put("supply", key, "p", key % 3)
        pipeline.put("demand", key, "p", 2)
        pipeline.ask(name, f"r{key}")
        pipeline.tick()
    pipeline.refresh(name)
    pipeline.check_view(name)
    kinds = [push["kind"] for push in pipeline.pushes(name)]
    assert kinds.count("notice") == 1
    assert kinds.count("refresh") == 9
