"""The pipeline of views without Spark (DuckDB runs its SQL): statements, requests, crashes, what clients see."""

import itertools
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_view_pushes import DEMAND, SUPPLY, VIEWS
from view_duck import DuckEngine, recomputed, same_rows

from tolerant.client import Client, send
from tolerant.edge import Table
from tolerant.spark.views import deltas, live
from tolerant.spark.views.pipeline import ViewPipeline
from tolerant.sql import parse
from tolerant.sql.homes import Views
from tolerant.streams import SECOND
from tolerant.transport import Fence
from tolerant.transport.changes import clock_row, topic_of
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import unpack
from tolerant.transport.views import REQUESTS, pushes_topic, requests_topic

TABLES = (DEMAND, SUPPLY)
HOME = Views(TABLES)
START = 1_000_000 * SECOND


class Broken(Exception):
    """Made by the test."""


class Engine(DuckEngine):
    """With costs that are made up, and crashes on cue."""

    dialect = "duckdb"
    crash_in = None

    def run(self, sql, sources):
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in < 0:
                raise Broken
        return super().run(sql, sources)

    def columns(self, sql, tables):
        found = []
        for table in tables:
            own = ", ".join(f"{c.name} {c.type.replace('STRING', 'VARCHAR')}" for c in table.columns)
            self.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table.name} ({own})")
        names = {"VARCHAR": "STRING", "INTEGER": "INT", "HUGEINT": "BIGINT"}
        for row in self.connection.execute(f"DESCRIBE {sql}").fetchall():
            found.append(names.get(row[1], row[1]))
        for table in tables:
            self.connection.execute(f"DROP TABLE {table.name}")
        return found


class ViewShop:
    """Two tables, a log, and the pipeline of the views over both; time is moved by hand."""

    def __init__(self, folder, *queries):
        self.log, self.now, self.folder, self.epoch = MemoryLog(), START, folder, 0
        for statement in (*TABLES, *queries):
            send(self.log, statement)
        self.tables = {table.name: Table(table, self.log, "shop", clock=lambda: self.now) for table in TABLES}
        self.rows = {table.name: {} for table in TABLES}
        self.restart()

    def restart(self):
        self.epoch += 1
        self.log.next_epoch("pipeline/views", "x")
        self.engine = Engine()
        self.pipeline = ViewPipeline(
            lambda: self.engine, self.log, HOME, self.folder, "checkpoint", Fence("pipeline/views", self.epoch)
        )
        self.pipeline.begin()

    def put(self, table, key, product, level):
        row = {"id": key, "product": product}
        row |= {"a": level, "price": level / 2} if table == "supply" else {"c": float(level)}
        self.tables[table].update(row)
        self.rows[table][key] = row

    def drop(self, table, key):
        self.tables[table].delete(key)
        self.rows[table].pop(key, None)

    def tick(self):
        for table in TABLES:
            self.tables[table.name].flush()
        self.now += SECOND
        for table in TABLES:
            self.log.append(topic_of(table.name), clock_row(table.columns, self.now, 1, "checkpoint"))
        self.work()

    def work(self):
        while self.pipeline.step():
            pass

    def ask(self, view, request="r"):
        import pyarrow as pa

        rows = [{"view": view, "request": request, "at": 0}]
        self.log.append(requests_topic(HOME.name), pa.RecordBatch.from_pylist(rows, schema=REQUESTS))

    def refresh(self, view):
        self.tick()
        self.ask(view)
        self.work()

    def truth(self, view):
        return recomputed(VIEWS[view], TABLES, {name: list(rows.values()) for name, rows in self.rows.items()})

    def check(self, view):
        found = Client(self.log).view(view)
        assert same_rows([list(row.values()) for row in found.rows], self.truth(view))

    def pushes(self, view):
        return [row for entry in self.log.read(pushes_topic(view)) for row in unpack(entry.payload).to_pylist()]

    def replies(self):
        return [row for entry in self.log.read("replies") for row in unpack(entry.payload).to_pylist()]


def create(name, refresh="5 s"):
    return parse(f"CREATE QUERY {name} AS {VIEWS[name]} REFRESH WITHIN '{refresh}'")


@pytest.fixture(autouse=True)
def quick_costs(monkeypatch):
    """Costs that do not depend on the machine: tables in their order cost 0.4 s, 0.8 s, and little a row."""

    def measured(self, table, log):
        setup = 0.4 * (1 + self.tables.index(table))
        return live.Measured(live.SIZES, [setup + 0.0001 * size for size in live.SIZES])

    def learn(self, done):
        for table, rows in done.rows.items():
            if rows:
                place = self.tables.index(table)
                self.scheduler.pushed(place, rows, float(self.scheduler.costs[place](rows)))

    monkeypatch.setattr(live.LiveView, "_measured", measured)
    monkeypatch.setattr(live.LiveView, "learn", learn)


STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(["supply", "demand"]), st.integers(0, 4), st.sampled_from("pq"),
              st.integers(0, 4)),
    st.tuples(st.just("drop"), st.sampled_from(["supply", "demand"]), st.integers(0, 4)),
    st.just(("tick",)),
    st.just(("refresh",)),
    st.just(("restart",)),
    st.just(("save",)),
    st.tuples(st.just("crash"), st.integers(0, 2)),
)  # fmt: skip


@settings(max_examples=12, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40), st.sampled_from(["grouped", "joined", "all"]))
def test_a_refreshed_view_is_right_whatever_was_pushed_before_and_through_crashes(steps, name):
    with tempfile.TemporaryDirectory() as folder:
        shop = ViewShop(Path(folder), create(name, "1 s"))
        held = []
        listener = None
        for step in [*steps, ("refresh",)]:
            match step:
                case ("put", *what):
                    shop.put(*what)
                case ("drop", *what):
                    shop.drop(*what)
                case ("tick",):
                    shop.tick()
                case ("restart",):
                    shop.restart()
                case ("save",):
                    shop.pipeline.save()
                case ("crash", runs):
                    shop.engine.crash_in = runs
                    try:
                        shop.tick()
                        shop.ask(name)
                        shop.work()
                    except Broken:
                        shop.restart()
                        shop.work()
                    shop.engine.crash_in = None
                case _:
                    shop.refresh(name)
                    shop.check(name)
                    if listener is None:
                        listener = Client(shop.log).subscribe(name)
        held = [list(row.row.values()) for row in Client(shop.log).subscribe(name).ready()]
        assert same_rows(held, shop.truth(name))
        heard = []
        while listener.poll():
            pass
        for change in listener.ready():
            row = list(change.row.values())
            heard.append(row) if change.kind == "insert" else heard.remove(row)
        assert same_rows(heard, shop.truth(name))


def test_files_are_made_one_only_behind_what_is_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(deltas, "MOST_FILES", 2)
    shop = ViewShop(tmp_path, create("grouped"))
    shop.tick()
    keys = itertools.count()

    def change(count):
        for key in itertools.islice(keys, count):
            shop.put("supply", key, "p", key % 3)
            shop.put("demand", key, "p", key % 5)
            shop.refresh("grouped")

    record = shop.pipeline._record

    def crash(outputs):
        if outputs:
            raise Broken
        record(outputs)

    change(4)
    monkeypatch.setattr(shop.pipeline, "_record", crash)
    with pytest.raises(Broken):
        change(1)
    shop.restart()
    change(5)
    shop.check("grouped")


def test_tables_are_pushed_in_their_own_time(tmp_path):
    shop = ViewShop(tmp_path, create("grouped", "1 s"))  # setups 0.4 and 0.8: only one table may have changes pending
    shop.tick()
    for key in range(20):
        shop.put("supply", key, "p", key % 3)
        shop.put("demand", key, "p", key % 5)
        shop.tick()
    pushed = [push for push in shop.pushes("grouped") if push["kind"] == "push"]
    counts = {name: sum(name in push["tables"] for push in pushed) for name in ("supply", "demand")}
    assert counts["supply"] >= 15
    assert counts["demand"] <= 3
    shop.refresh("grouped")
    shop.check("grouped")
    last = shop.pushes("grouped")[-1]
    assert (last["kind"], last["request"], last["within"]) == ("refresh", "r", 1.0)
    status = json.loads(shop.log.latest(f"status.{HOME.name}", "view/grouped").body)
    assert [table["pending"] for table in status["tables"]] == [0, 0]
    assert status["refreshes"] == 1


def test_nothing_is_said_of_a_view_between_refreshes(tmp_path):
    shop = ViewShop(tmp_path, create("grouped", "1 s"))
    shop.tick()
    for key in range(3):
        shop.put("supply", key, "p", 1)
        shop.put("demand", key, "p", 1)
        shop.tick()
    assert not Client(shop.log).view("grouped").rows
    assert not shop.log.read("answers.grouped")
    shop.refresh("grouped")
    (row,) = Client(shop.log).view("grouped").rows
    assert row == {"product": "p", "n": 9, "total": 9, "mean": 1.0, "least": 1.0, "most": 1}


def test_a_promise_that_cannot_be_kept_is_refused(tmp_path):
    shop = ViewShop(tmp_path)
    sent = send(shop.log, create("grouped", "500 ms"))
    shop.tick()
    (reply,) = [reply for reply in shop.replies() if reply["request"] == sent.request]
    assert not reply["accepted"]
    assert "pushing changes of demand takes 0.80 s" in reply["message"]
    assert "grouped" not in __import__("tolerant.client", fromlist=["standing"]).standing(shop.log).queries
    shop.restart()
    shop.tick()
    shop.work()


def test_a_view_is_made_of_rows_that_were_there_and_dropped_without_a_trace(tmp_path):
    shop = ViewShop(tmp_path)
    shop.put("supply", 1, "p", 2)
    shop.put("demand", 1, "p", 3)
    shop.tick()
    sent = send(shop.log, create("grouped"))
    shop.tick()
    assert [reply["message"] for reply in shop.replies() if reply["request"] == sent.request] == [
        "query grouped created"
    ]
    shop.check("grouped")
    send(shop.log, parse("DROP QUERY grouped"))
    shop.tick()
    assert Client(shop.log).view("grouped") is None
    send(shop.log, create("grouped", "6 s"))
    shop.put("supply", 2, "p", 2)
    shop.refresh("grouped")
    shop.check("grouped")


def test_a_fresh_checkpoint_says_the_same(tmp_path):
    shop = ViewShop(tmp_path / "one", create("grouped"), create("all"))
    for key in range(6):
        shop.put("supply", key, "pq"[key % 2], key)
        shop.put("demand", key, "pq"[key % 2], key)
        shop.tick()
    shop.refresh("grouped")
    shop.folder = tmp_path / "two"
    shop.log.next_epoch("pipeline/views", "y")
    shop.epoch += 2
    shop.engine = Engine()
    fence = Fence("pipeline/views", shop.epoch - 0)
    shop.log.next_epoch("pipeline/views", "y")
    shop.pipeline = ViewPipeline(lambda: shop.engine, shop.log, HOME, shop.folder, "another", fence)
    shop.pipeline.begin()
    shop.drop("supply", 0)
    for name in ("grouped", "all"):
        shop.refresh(name)
        shop.check(name)


def test_costs_that_have_outgrown_the_promise_are_told(tmp_path):
    shop = ViewShop(tmp_path, create("grouped", "1 s"))
    shop.tick()
    kept = shop.pipeline._live["grouped"]
    for _ in range(30):
        for size in live.SIZES:
            kept.scheduler.pushed(1, size, 3.0)
    assert [table["outgrown"] for table in kept.costs()] == [False, True]
