"""A growing table looked up in one that does not fit: complete results, few rows held, whatever the batches."""

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kept_shard import drain

from tolerant.cli.explain_joins import standing_join
from tolerant.cli.statement_output import submit
from tolerant.client import Client, StatementClient, kept_share, load_catalogue
from tolerant.edge import load_lookup
from tolerant.kinds.kept_joins.lookup_join import fetch_from
from tolerant.kinds.kept_joins.select import KeepJoinSelect
from tolerant.kinds.kept_joins.shard import AppendOnlyJoinShard
from tolerant.pipeline.join_codes import codes
from tolerant.retention import Lookups
from tolerant.sql import StatementError
from tolerant.testing import LocalPipeline
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import compacted

HOME = "orders~parts"
ORDERS = "CREATE TABLE orders (id BIGINT, part BIGINT, note STRING) KEY (id);"
PARTS = "CREATE TABLE parts (id BIGINT, name STRING, price DOUBLE) KEY (id) FROM 'parts.{kind}';"
LOOKED = "CREATE QUERY looked AS SELECT * FROM orders JOIN parts ON orders.part = parts.id KEEP {rows} ROWS;"


class LookupPipeline(LocalPipeline):
    """Orders that grow, and parts that stand in a file."""

    def __init__(self, folder, text):
        self.folder, self.number = folder, 0
        super().__init__(text, now=10**12)

    def send(self, text):
        for statement in self.statements.missing(self.statements.parse(text), self.folder):
            submit(self.statements, statement, self.folder)

    def new_shard(self):
        return AppendOnlyJoinShard(self.relation, fetch=fetch_from(self.log))

    def order(self, part):
        self.now += 1000
        self.number += 1
        self.table("orders").insert(id=self.number, part=part, note=f"é{part}")

    def results(self):
        return [
            (row["row.orders.id"], row["row.orders.note"], row["row.parts.id"], row["row.parts.name"],
             row["row.parts.price"]) for row in self.rows("answers.looked")
        ]  # fmt: skip


def written(folder, parts, kind="parquet"):
    columns = {"id": list(parts), "name": [f"ü{n}" for n in parts], "price": [n / 4 for n in parts]}
    if kind == "parquet":
        pq.write_table(pa.table(columns), folder / "parts.parquet")
    else:
        lines = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
        (folder / "parts.csv").write_text("\n".join(["id,name,price", *lines]), encoding="utf-8")


def pipeline_of(folder, parts, rows, kind="parquet"):
    written(folder, parts, kind)
    return LookupPipeline(folder, ORDERS + PARTS.format(kind=kind) + LOOKED.format(rows=rows))


def expected(orders, parts):
    return [(n, f"é{p}", p, f"ü{p}", p / 4) for n, p in enumerate(orders, 1) if p in parts]


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"null", b"[]", b"[" * 100_000, b'{"a":1}', b'[2,"u","x"]', b"[2,7,0.5]", b"[2]"]
)
@pytest.mark.filterwarnings("ignore::tolerant.transport.records.BadRecord")
def test_a_row_of_the_file_that_cannot_be_read_is_not_there(tmp_path, body):
    pipeline = pipeline_of(tmp_path, range(4), 2)
    (topic,) = (topic for topic in pipeline.log.topics() if topic.startswith("rows.parts"))
    pipeline.log.append(topic, compacted([("2", 10**6, body)]))
    for part in (1, 2, 3):
        pipeline.order(part)
    for _ in range(3):
        pipeline.tick()
    assert pipeline.results() == expected([1, 2, 3], {1, 3})


STEPS = st.one_of(
    st.tuples(st.just("order"), st.integers(0, 9)),
    st.tuples(st.just("order"), st.integers(0, 2)),
    st.tuples(st.just("tick"), st.sampled_from([None, 1, 2])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("fold")),
)


@settings(deadline=None, max_examples=30)
@given(steps=st.lists(STEPS, max_size=40), rows=st.integers(1, 6), turned=st.booleans())
def test_every_result_is_found_and_what_is_said_depends_on_the_log_alone(tmp_path_factory, steps, rows, turned):
    folder, parts, orders = tmp_path_factory.mktemp("shop"), set(range(8)), []
    written(folder, parts)
    select = "parts JOIN orders ON orders.part = parts.id" if turned else "orders JOIN parts ON orders.part = parts.id"
    pipeline = LookupPipeline(
        folder,
        ORDERS + PARTS.format(kind="parquet") + f"CREATE QUERY looked AS SELECT * FROM {select} KEEP {rows} ROWS;",
    )
    for step in steps:
        match step:
            case ("order", part):
                pipeline.order(part)
                orders.append(part)
            case ("tick", cut):
                pipeline.tick(cut=cut)
            case ("restart",):
                pipeline.restart()
            case ("fold",):
                pipeline.take_snapshot()
    pipeline.tick()
    assert pipeline.results() == expected(orders, parts)
    (query,) = pipeline.shard._queries.values()
    assert query.held == len(query._rows) <= rows
    hits = Lookups.bounded(rows).take(codes(np.array(orders, np.int64)))
    assert (query._lookups.asked, query._lookups.hits) == (len(orders), hits.sum())
    again = pipeline.new_shard()
    again.restore(pipeline.shard.snapshot())
    assert again.snapshot() == pipeline.shard.snapshot()
    anew = pipeline.new_shard()
    said = [output for entry in pipeline.log.read(pipeline.topics) for output in anew.apply([entry])]
    answers = [e.payload for e in pipeline.log.read("answers.looked")]
    assert [o.payload for o in said if o.topic == "answers.looked"] == answers


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_share_of_rows_that_were_held(tmp_path, kind):
    pipeline = pipeline_of(tmp_path, range(500), 40, kind)
    orders = (np.random.default_rng(5).zipf(1.3, 2000) % 600).tolist()
    for k, part in enumerate(orders):
        pipeline.order(part)
        if k % 97 == 0:
            pipeline.tick()
    for _ in range(12):
        pipeline.tick()
    assert pipeline.results() == expected(orders, set(range(500)))
    said, hits = kept_share(pipeline.log, "looked"), Lookups.bounded(40).take(orders).sum()
    assert said.found == len(pipeline.results())
    assert said.share == hits / 2000
    assert 0 < said.error < 0.02
    assert len(set(orders)) - 40 <= said.fetched <= 2000 - hits
    assert pipeline.rows("answers.looked")[-1]["share"] == said.share
    status = json.loads(pipeline.log.latest(f"status.{HOME}", "summary/0").body)
    figures = status["figures"]["looked"]
    assert (figures["rows"], figures["kept"], figures["fetched"]) == (2000, 40, said.fetched)
    assert status["rows"] == 40
    catalogue = load_catalogue(pipeline.log)
    query = catalogue.queries["looked"]
    told = standing_join(pipeline.log, query, KeepJoinSelect.of(query).lookup_table(catalogue).name)
    assert (told.keep, told.kept, told.looked_up, told.share) == (40, 40, "parts", said.share)


def test_rows_are_those_of_the_file_as_it_was_when_the_query_was_created(tmp_path):
    pipeline = pipeline_of(tmp_path, range(3), 1)
    pipeline.order(2)
    pipeline.tick()
    written(tmp_path, range(1, 5))
    with pytest.raises(StatementError, match="with other rows in the file"):
        StatementClient(pipeline.log).missing(StatementClient(pipeline.log).parse(LOOKED.format(rows=1)), tmp_path)
    pipeline.order(0)
    pipeline.order(4)
    pipeline.tick()
    pipeline.send("DROP QUERY looked;" + LOOKED.format(rows=1))
    pipeline.order(0)
    pipeline.order(4)
    pipeline.tick()
    assert [row[2] for row in pipeline.results()] == [2, 0, 4]


def test_one_who_dies_and_resumes_hears_every_result_once(tmp_path):
    chance, pipeline, heard = random.Random(1), pipeline_of(tmp_path, range(6), 2), []
    pipeline.tick()
    place = Client(pipeline.log).subscribe("looked").position
    for _ in range(60):
        kind = chance.choice(["order", "order", "tick", "anew", "listen"])
        if kind == "order":
            pipeline.order(chance.randrange(8))
        elif kind == "tick":
            pipeline.tick()
        elif kind == "anew":  # another pipeline says everything again
            said = pipeline.new_shard().apply(
                [e for e in pipeline.log.read(pipeline.topics) if e.position <= pipeline.position]
            )
            pipeline.log.append_packed([(o.topic, o.payload) for o in said if o.topic == "answers.looked"])
        else:
            changes = drain(Client(pipeline.log).subscribe("looked", position=str(place)))
            dealt = changes[: chance.randint(0, len(changes))]
            heard += [change.row["orders.id"] for change in dealt]
            place = dealt[-1].position if dealt else place
    pipeline.tick()
    rest = drain(Client(pipeline.log).subscribe("looked", position=str(place)))
    heard += [change.row["orders.id"] for change in rest]
    assert heard == list(dict.fromkeys(row[0] for row in pipeline.results()))
    assert all(change.looked_up for change in rest)


@pytest.mark.parametrize("type_name", ["STRING", "BOOLEAN", "DOUBLE", "INT"])
def test_keys_of_every_type_are_looked_up(tmp_path, type_name):
    make = {"STRING": lambda n: f'"é{n}', "BOOLEAN": lambda n: n == 1, "DOUBLE": lambda n: n / 3, "INT": lambda n: n}
    keys = list(dict.fromkeys(make[type_name](n) for n in range(5)))
    pq.write_table(pa.table({"k": keys, "v": list(range(len(keys)))}), tmp_path / "t.parquet")
    pipeline = LookupPipeline(
        tmp_path,
        f"CREATE TABLE orders (id BIGINT, part {type_name.replace('INT', 'BIGINT')}) KEY (id);"
        f"CREATE TABLE parts (k {type_name}, v BIGINT) KEY (k) FROM 't.parquet';"
        "CREATE QUERY looked AS SELECT * FROM orders JOIN parts ON orders.part = parts.k KEEP 2 ROWS;",
    )
    asked = [make[type_name](n % 7) for n in range(40)]
    for n, key in enumerate(asked):
        pipeline.table("orders").insert(id=n, part=key)
        if n % 9 == 0:
            pipeline.tick()
            pipeline.take_snapshot() if n % 2 else pipeline.restart()
    pipeline.tick()
    found = [(row["row.orders.id"], row["row.parts.v"]) for row in pipeline.rows("answers.looked")]
    assert found == [(n, keys.index(key)) for n, key in enumerate(asked) if key in keys]


def test_a_text_whose_code_is_that_of_another_is_fetched(tmp_path, monkeypatch):
    pipeline = pipeline_of(tmp_path, range(6), 3)
    monkeypatch.setattr("tolerant.kinds.kept_joins.lookup_join.codes", lambda values: np.asarray(values, np.int64) // 2)
    orders = [0, 1, 0, 1, 2, 3, 9, 8, 9, 0, 0]
    for k, part in enumerate(orders):
        pipeline.order(part)
        if k > 5:
            pipeline.tick()
    assert pipeline.results() == expected(orders, set(range(6)))


def test_statements_that_cannot_be_looked_up(tmp_path):
    written(tmp_path, range(3))
    log = MemoryLog()
    text = "CREATE TABLE r (id BIGINT, part DOUBLE) KEY (id);" + PARTS.format(kind="parquet")
    join = "CREATE QUERY q AS SELECT * FROM r JOIN parts ON r.part = parts.id KEEP 5 ROWS;"
    with pytest.raises(StatementError, match=r"looked up by parts\.id, which is BIGINT; r\.part is DOUBLE"):
        StatementClient(log).parse(text + join)
    log = MemoryLog()
    text = ORDERS + PARTS.format(kind="parquet").replace("parts.parquet", "nowhere.parquet") + LOOKED.format(rows=5)
    with pytest.raises(StatementError, match=r"there is no file nowhere\.parquet"):
        StatementClient(log).missing(StatementClient(log).parse(text), tmp_path)


def test_rows_of_a_file_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "parts.csv").write_text("id,name,price\n1,a,2.5\nx,b,1\n2,c,nan\n3,d,4\n", encoding="utf-8")
    pipeline = LookupPipeline(tmp_path, ORDERS + PARTS.format(kind="csv") + LOOKED.format(rows=5))
    loaded = load_lookup(pipeline.log, load_catalogue(pipeline.log).tables["parts"], tmp_path / "parts.csv", "again")
    assert (loaded.inserted, loaded.refused) == (2, 2)
    for part in (1, 2, 3):
        pipeline.order(part)
    pipeline.tick()
    assert [row[2] for row in pipeline.results()] == [1, 3]
