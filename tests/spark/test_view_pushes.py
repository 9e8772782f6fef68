"""Views kept by pushes against views worked out anew, by DuckDB on small tables: any changes, any order of pushes."""

import math
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from view_duck import DuckEngine, recomputed, same_rows

from tolerant.relations import Changes, Relation
from tolerant.spark.views import deltas
from tolerant.spark.views.deltas import DeltaLog
from tolerant.spark.views.maintained import Maintained
from tolerant.sql import parse
from tolerant.sql.view_select import plan_of

SUPPLY = parse("CREATE TABLE supply (id BIGINT, product STRING, a INT, price DOUBLE) KEY (id)")
DEMAND = parse("CREATE TABLE demand (id BIGINT, product STRING, c DOUBLE) KEY (id)")
REGION = parse("CREATE TABLE region (product STRING, name STRING) KEY (product)")
TABLES = {table.name: table for table in (SUPPLY, DEMAND, REGION)}
VIEWS = {
    "joined": "SELECT * FROM supply r JOIN demand s ON r.product = s.product WHERE s.c > 1",
    "projected": "SELECT r.product, a FROM supply r JOIN demand s ON r.product = s.product",
    "distinct": "SELECT DISTINCT product, a FROM supply",
    "grouped": (
        "SELECT r.product, COUNT(*) AS n, SUM(a) AS total, AVG(c) AS mean, MIN(c) AS least, MAX(a) AS most"
        " FROM supply r, demand s WHERE r.product = s.product GROUP BY r.product"
    ),
    "all": "SELECT MIN(price), MAX(c), COUNT(*), SUM(a * c) FROM supply r JOIN demand s ON r.product = s.product",
    "nulls": "SELECT COUNT(NULLIF(a, 1)), SUM(NULLIF(a, 1)), MIN(NULLIF(a, 1)) FROM supply WHERE price < 2",
    "hidden": "SELECT SUM(c) AS total FROM demand GROUP BY product, c > 1",
    "itself": "SELECT r.a, COUNT(*) AS n, MIN(s.price) FROM supply r JOIN supply s ON r.a = s.a GROUP BY r.a",
    "three": (
        "SELECT g.name, SUM(c) AS total, MAX(price) AS top FROM supply r JOIN demand s ON r.product = s.product"
        " JOIN region g ON g.product = r.product GROUP BY g.name"
    ),
    "counted": "SELECT COUNT(*) FROM supply",
}


class Workshop:
    """Tables whose changes go into delta logs, and one view of them."""

    def __init__(self, sql, folder):
        self.engine = DuckEngine()
        self.sql = sql
        self.plan = plan_of(sql, list(TABLES.values()), "duckdb")
        self.relations = {name: Relation(table.columns) for name, table in TABLES.items()}
        self.folder, self.steps, self.said = folder, 0, 0
        self.logs = {name: DeltaLog(folder / name, table.columns) for name, table in TABLES.items()}
        self.view = Maintained(self.plan, self.logs, self.engine)

    def change(self, table, key, row):
        """Put a row in the place of the one with this key; None: it goes."""
        self.said += 1
        definition = TABLES[table]
        columns = {
            c.name: np.array([row[c.name] if row else ("" if c.type == "STRING" else 0)], deltas_type(c))
            for c in definition.columns
        }
        one = Changes(
            np.array([row is not None]), np.array([str(key)], object), np.array([self.said]),
            np.zeros(1, np.int32), ("shop",), np.array([self.said]), columns,
        )  # fmt: skip
        effects = self.relations[table].apply(one)
        if len(effects):
            steps = self.steps + 1 + np.arange(len(effects))
            self.steps += len(effects)
            self.logs[table].take(effects, steps)

    def push(self, *tables):
        for table in tables:
            self.logs[table].flush()
        return self.view.push({table: self.logs[table].last for table in tables})

    def rows(self):
        found = {}
        for name, relation in self.relations.items():
            arrays = {column: values.tolist() for column, values in relation.rows().items()}
            found[name] = [dict(zip(arrays, row, strict=True)) for row in zip(*arrays.values(), strict=True)]
        return found

    def check(self):
        assert same_rows(self.view.rows(), recomputed(self.sql, TABLES.values(), self.rows()))

    def reopen(self):
        """The delta logs from their files; what was in no file comes again, as the log's replay brings it."""
        waiting = {name: log._waiting for name, log in self.logs.items()}
        self.logs = {name: DeltaLog(self.folder / name, table.columns) for name, table in TABLES.items()}
        for name, log in self.logs.items():
            log._waiting = waiting[name]
            if log._waiting:
                log.last = log._waiting[-1].column(deltas.VERSION)[-1].as_py()
        self.view._logs = self.logs


def deltas_type(column):
    return {"STRING": object, "INT": np.int32, "BIGINT": np.int64, "DOUBLE": np.float64}[column.type]


def row_of(table, key, chance):
    product = chance.choice("pqr")
    match table:
        case "supply":
            return {"id": key, "product": product, "a": chance.randint(0, 2), "price": chance.choice([0.5, 1.25, 3.0])}
        case "demand":
            return {"id": key, "product": product, "c": chance.choice([0.5, 1.5, 2.5])}
        case _:
            return {"product": "pqr"[key % 3], "name": chance.choice(["north", "south"])}


STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(list(TABLES)), st.integers(0, 4), st.integers(0, 10**6)),
    st.tuples(st.just("drop"), st.sampled_from(list(TABLES)), st.integers(0, 4)),
    st.tuples(st.just("push"), st.sets(st.sampled_from(list(TABLES)), min_size=1)),
    st.just(("refresh",)),
    st.just(("reopen",)),
    st.just(("compact",)),
)


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=5, deadline=None)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_a_view_is_what_a_full_recomputation_says_after_any_changes_and_pushes(name, steps):
    with tempfile.TemporaryDirectory() as folder:
        play(Workshop(VIEWS[name], Path(folder)), steps)


def play(shop, steps):
    for step in [*steps, ("refresh",)]:
        match step:
            case ("put", table, key, seed):
                key = key % 3 if table == "region" else key
                row = row_of(table, key, random.Random(seed))
                shop.change(table, row["product"] if table == "region" else key, row)
            case ("drop", table, key):
                shop.change(table, "pqr"[key % 3] if table == "region" else key, None)
            case ("push", tables):
                shop.push(*(table for table in shop.plan.tables if table in tables))
            case ("refresh",):
                shop.push(*shop.plan.tables)
                shop.check()
                before = shop.view.rows()
                assert not shop.push(*shop.plan.tables).touched  # pushing twice is harmless
                assert shop.view.rows() == before
            case ("reopen",):
                shop.reopen()
            case ("compact",):
                for table in shop.plan.tables:
                    deltas.MOST_FILES, kept = 1, deltas.MOST_FILES
                    shop.logs[table].compact(shop.view.absorbed[table])
                    deltas.MOST_FILES = kept


def test_extremes_are_worked_out_anew_only_where_they_went(tmp_path):
    least = "SELECT r.product, MIN(c) FROM supply r JOIN demand s ON r.product = s.product GROUP BY r.product"
    shop = Workshop(least, tmp_path)
    for key, (product, c) in enumerate([("p", 1.0), ("p", 2.0), ("q", 1.0), ("q", 5.0)]):
        shop.change("demand", key, {"id": key, "product": product, "c": c})
    for key, product in enumerate("pq"):
        shop.change("supply", key, {"id": key, "product": product, "a": 1, "price": 1.0})
    shop.push("supply", "demand")
    shop.change("demand", 3, None)  # not the least of its group
    assert shop.push("demand").recomputed == 0
    shop.change("demand", 0, None)  # the least of p
    assert shop.push("demand").recomputed == 1
    shop.check()
    shop.change("supply", 0, {"id": 0, "product": "p", "a": 1, "price": 7.0})  # a column that the view does not read
    runs = len(shop.engine.runs)
    assert not shop.push("supply").touched
    assert len(shop.engine.runs) == runs


@pytest.mark.parametrize(
    ("select", "values"),
    [
        ("SELECT COUNT(*) AS n, MIN(c) AS least, POW(c, 0.5) AS root FROM demand GROUP BY POW(c, 0.5)", [2, -4.0]),
        ("SELECT DISTINCT POW(c, 0.5) AS root FROM demand", []),
    ],
)
def test_rows_whose_key_is_no_number_are_one_group(tmp_path, select, values):
    shop = Workshop(select, tmp_path)
    for key, c in enumerate([-1.0, -4.0]):
        shop.change("demand", key, {"id": key, "product": "p", "c": c})
    for key, c in ((2, -2.0), (2, None), (0, None), (1, -9.0), (1, None)):
        shop.push("demand")
        if key == 2 and c:
            ((*others, root),) = shop.view.rows()
            assert others == values
            assert math.isnan(root)
        shop.change("demand", key, None if c is None else {"id": key, "product": "p", "c": c})
    shop.push("demand")
    assert shop.view.rows() == []


def test_full_computation_and_pushes_agree(tmp_path):
    chance = random.Random(3)
    shop = Workshop(VIEWS["three"], tmp_path)
    for _ in range(60):
        table = chance.choice(list(TABLES))
        key = chance.randrange(3 if table == "region" else 12)
        row = row_of(table, key, chance)
        shop.change(table, row["product"] if table == "region" else key, row)
    shop.push(*shop.plan.tables)
    pushed = shop.view.rows()
    shop.view.compute(dict(shop.view.absorbed))
    assert same_rows(shop.view.rows(), pushed)


def test_a_small_file_behind_a_large_one_is_not_compacted_alone(tmp_path):
    """It would be written under its own name and then removed as the old file."""
    shop = Workshop(VIEWS["grouped"], tmp_path)
    steps = [("put", "supply", 0, 0), ("put", "supply", 0, 1), ("refresh",), ("put", "supply", 0, 0), ("refresh",)]
    play(shop, [*steps, ("put", "demand", 0, 0), ("compact",), ("reopen",)])
