"""Every kind of shard with true sources and a truth to check it against, and a door for forged payloads.

A stage lives for an episode of some hundred payloads. It says whether it is still of use (`is_sound`): a forged clock
row that is a little ahead, or that another forged one bears out, moves time and makes true rows late, by what the
protocol promises, so that nothing can be claimed afterwards. One that is alone and far ahead ends no episode.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.append(str(Path(__file__).parents[1] / "spark"))

from encoded_statements import valid
from mutations import FORGED, Forger, good_rows, of_updates, seed_of
from stream_pipeline import START, TRAFFIC, StreamPipeline
from sum_substitution_play import Play
from test_kept_shard import LINES, ORDERS, AppendOnlyPipeline, keep
from test_lookup_join_shard import LookupPipeline
from test_pair_shard import PairPipeline
from test_polled_shard import QUOTES_TEXT, TOTAL, PolledPipeline
from test_table_shard import AREA, STOCK, StockPipeline

from tolerant.filters.form_choice import QUERIES as SUMS
from tolerant.kernels.versions import version
from tolerant.kinds.bounded.sum_phases import Phase
from tolerant.pipeline.clocks import longest_jump
from tolerant.pipeline.partitioning import PairSplit
from tolerant.pipeline.splitter import Split
from tolerant.queries import Answer
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import JoinInput, parse
from tolerant.sql.pipeline_inputs import Views
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND, sum_key
from tolerant.testing import LocalPipeline
from tolerant.testing.networks import SimulatedNetwork
from tolerant.transport.changes import COMMON, changes_schema, read_changes
from tolerant.transport.plans import REPORTS
from tolerant.transport.pulls import PULLS
from tolerant.transport.rows import STATEMENTS, UPDATES, pack, unpack, updates_batch
from tolerant.transport.subscriptions import subscriptions_schema
from tolerant.transport.topics import QUERIES, changes_topic, refreshes_topic, reports_topic
from tolerant.transport.views import REQUESTS


class Stage:
    """What all have. `kinds`: of each kind of row the topic that it is put into, and its forger."""

    kinds: dict[str, tuple[str, Forger]]
    log: Any

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    @property
    def now(self) -> int:
        """The true time."""
        raise NotImplementedError

    def put(self, topic: str, payload: bytes) -> None:
        """Append a payload, as anybody may."""
        self.log.append_packed([(topic, payload)])

    def step(self) -> None:
        """Let the true sources act, time pass and the shard read; check what it says."""
        raise NotImplementedError

    @property
    def is_sound(self) -> bool:
        """Whether no forged clock row has been taken for the time."""
        raise NotImplementedError

    def finish(self) -> None:
        """Check what must be so in the end: above all that the pipeline goes on."""


def _is_ahead(payload: bytes, now: int, jump: int) -> bool:
    """Whether a clock row in it moves time by itself, and makes rows late which are still on their way."""
    try:
        columns = unpack(payload).select(["kind", "at"]).to_pydict().values()
    except (ValueError, KeyError):
        return False
    return any(kind == "clock" and at is not None and now < at <= now + jump for kind, at in zip(*columns, strict=True))


def put_in(topic: str, forgers: dict[str, Forger]) -> dict[str, tuple[str, Forger]]:
    """All of them for one topic."""
    return {name: (topic, forger) for name, forger in forgers.items()}


class Bounded(Stage):
    """A stream with a source whose values walk; SUM and MAX of its items, which must be inside every settled answer."""

    policy = "predictive"
    hosts = ("a", "b", "c")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        own = "host IN ('a', 'b', 'c')"
        self.pipeline = StreamPipeline(
            f"CREATE QUERY total AS SELECT SUM(rate) FROM traffic WHERE {own} WITHIN 5",
            f"CREATE QUERY most AS SELECT MAX(rate) FROM traffic WHERE {own} WITHIN 2",
            stream=f"{TRAFFIC} WITH (policy = '{self.policy}')",
        )
        self.log = self.pipeline.log
        self.pipeline.start_source("edge")
        self.values = dict.fromkeys(self.hosts, 10.0)
        self.journal: list[tuple[int, dict[str, float]]] = []
        self.checked = {"total": 0, "most": 0}
        self.settled = 0
        self.kinds = put_in("updates.traffic", of_updates(seed, self.now))
        for _ in range(5):
            self.step()

    @property
    def now(self) -> int:
        return self.pipeline.now

    def step(self) -> None:
        for host in self.hosts:
            self.values[host] += self.rng.gauss(0, 1)
        self.pipeline.set("edge", **self.values)
        self.journal.append((self.pipeline.sources["edge"].clock, dict(self.values)))
        self.pipeline.tick()
        if self.is_sound:
            self._check("total", math.fsum)
            self._check("most", max)

    def _check(self, query: str, of: Callable[[Any], float]) -> None:
        entries = self.log.read(f"answers.{query}", self.checked[query])
        for answer in (Answer(**row) for entry in entries for row in unpack(entry.payload).to_pylist()):
            known = [values for at, values in self.journal[-20:] if at <= answer.at]
            if answer.settled and known:
                truth = of(known[-1].values())
                assert answer.low - 1e-6 <= truth <= answer.high + 1e-6, (query, answer, truth)
                self.settled += 1
        self.checked[query] = entries[-1].position if entries else self.checked[query]

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.watermark or 0) <= self.pipeline.now

    def finish(self) -> None:
        for _ in range(15):
            self.step()
        if self.is_sound and not self.pipeline.shard._foreign_epoch:
            assert self.pipeline.answers("total")[-1].settled
            assert self.settled > 5
        again = type(self.pipeline.shard)(self.pipeline.stream, 0, 1, "checkpoint")
        snapshot = self.pipeline.shard.snapshot()
        again.restore(snapshot)
        assert again.snapshot() == snapshot


class Adaptive(Bounded):
    """The same under the adaptive policy, whose filters shrink."""

    policy = "adaptive"


class Summed(Stage):
    """A source that filters the sum of its items instead of the items, whose average is inside every settled answer."""

    hosts = ("a", "b", "c", "d")

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        average = "CREATE QUERY q AS SELECT AVG(rate) FROM traffic WHERE host IN ('a', 'b', 'c', 'd') WITHIN 1"
        self.play = Play(average, form=SUMS)
        self.log, self.pipeline = self.play.pipeline.log, self.play.pipeline
        self.play.start("edge")
        self.readings = dict.fromkeys(self.hosts, 10.0)
        self.checked = self.settled = 0
        self.answer: Answer | None = None
        for _ in range(15):
            self.step()
        assert Phase.FORMED in self.play.phases()
        sums = updates_batch(
            kind="update", keys=[sum_key(0, 999)], at=[self.now], source=FORGED, sequence=[version(1, 1)],
            through=self.now, value=[1.0],
        )  # fmt: skip
        kinds = of_updates(seed, self.now) | {"sums": Forger(seed + 5, UPDATES, [pack(sums)])}
        self.kinds = put_in("updates.traffic", kinds)

    @property
    def now(self) -> int:
        return self.pipeline.now

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.watermark or 0) <= self.pipeline.now + SECOND

    def step(self) -> None:
        for host in self.hosts:
            self.readings[host] += self.rng.gauss(0, 1)
        self.play.tick({"edge": dict(self.readings)})
        entries = self.log.read("answers.q", self.checked)
        for answer in (Answer(**row) for entry in entries for row in unpack(entry.payload).to_pylist()):
            self.answer = answer
            self._check((answer.at - START) // SECOND - 1)
        self.checked = entries[-1].position if entries else self.checked
        self._check(((self.pipeline.shard.watermark or 0) - START) // SECOND - 1)

    def _check(self, tick: int) -> None:
        """The answer that stands holds the truth of a tick."""
        if self.answer and self.answer.settled and self.is_sound and 0 <= tick < len(self.play.truth):
            truth = math.fsum(self.play.truth[tick].values()) / len(self.hosts)
            assert self.answer.low - 1e-6 <= truth <= self.answer.high + 1e-6, (self.answer, truth)
            self.settled += 1

    def finish(self) -> None:
        before = self.settled
        for _ in range(15):
            self.step()
        if self.is_sound and not self.pipeline.shard._foreign_epoch:
            assert self.settled > before
            assert Phase.FORMED in self.play.phases()
        self.play.restore()


class SplitRows(Stage):
    """Rows on their way to one of two shards: none is lost that can be read."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stream = parse(f"{TRAFFIC} WITH (shards = 2, shard = host)").stream
        self.pair = PairSplit(JoinInput((LINES, ORDERS), 2, "ad21f06c", ("part", "part")))
        rows = put_in("updates.traffic", of_updates(seed, self.now))
        self.kinds = rows | {"changes": ("changes.orders", _changes(seed, ORDERS, self.now))}

    now = 10**12
    is_sound = True

    def put(self, topic: str, payload: bytes) -> None:
        splitter = self.pair if topic == "changes.orders" else Split(self.stream)
        parts = splitter.parts(topic, payload)
        assert all(shard in (0, 1) for shard, _ in parts)
        assert len({shard for shard, _ in parts}) == len(parts) > 0
        if any(part != payload for _, part in parts):
            check = _check_changes if topic == "changes.orders" else _check_updates
            check(unpack(payload), [unpack(part) for _, part in parts])
        elif topic == "changes.orders":
            assert len(parts) == 2

    def step(self) -> None:
        """Nothing waits."""


def _texts(batch: pa.RecordBatch, of: int) -> list[tuple[str, str]]:
    """(kind, everything else) of each row; without `through`, which the last row of a source may tell for others. Of
    many rows in the whole (`of`) only what tells them apart.
    """
    if of > 50:
        batch = batch.select(["kind", "key", "source", "sequence"])
    return [(str(row.pop("kind")), repr([row[name] for name in row if name != "through"])) for row in batch.to_pylist()]


def _check_updates(batch: pa.RecordBatch, parts: list[pa.RecordBatch]) -> None:
    """Every row is in one part, and rows for all are in all; what is there besides is a heartbeat."""
    size = len(batch)
    whole = Counter(_texts(batch, size))
    for_all = Counter({row: count for row, count in whole.items() if row[0] in ("clock", "heartbeat")})
    assert len(parts) == 2 or not for_all
    own: Counter[tuple[str, str]] = Counter()
    for part in (Counter(_texts(one, size)) for one in parts):
        assert part >= for_all
        own += part - for_all
    added = own - (whole - for_all)
    assert own >= whole - for_all
    assert {kind for kind, _ in added} <= {"heartbeat"}


def _check_changes(batch: pa.RecordBatch, parts: list[pa.RecordBatch]) -> None:
    """Every part has all rows; each inserted row is whole in one of them, each other row in all."""
    usable = read_changes(batch, ORDERS.columns)
    spread = set(usable.rows[usable.changes.insert].tolist())
    common = [name for name, _ in COMMON]
    size = len(batch)
    whole, copies = _texts(batch, size), [_texts(part, size) for part in parts]
    assert all(part.select(common).to_pylist() == batch.select(common).to_pylist() for part in parts)
    for row, text in enumerate(whole):
        assert (any if row in spread else all)(copy[row] == text for copy in copies)


def _changes(seed: int, table: Any, at: int) -> Forger:
    schema = changes_schema(table.columns)
    return Forger(seed, schema, [*good_rows(schema, at)])


def _held_rows(side: Any) -> dict[str, dict[str, Any]]:
    """The rows that a shard has of a table, by key."""
    columns = {name: column.tolist() for name, column in side.relation.rows().items()}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return dict(zip(side.relation.keys().tolist(), rows, strict=True))


def _is_true(key: str) -> bool:
    """Whether a key is that of a true row: nobody forges numbers between 10⁹ and 10⁹ + 10⁶."""
    return key.isdecimal() and len(key) == 10 and key.startswith("1000")


class Rows(Stage):
    """Tables whose true rows must be held as they were put, whatever else comes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.expected: dict[str, dict[str, dict[str, Any]]] = {}

    pipeline: Any

    @property
    def now(self) -> int:
        return int(self.pipeline.now)

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.watermark or 0) <= self.pipeline.now

    def step(self) -> None:
        if self.is_sound:
            for name, table in self.tables().items():
                self._change(name, table)
        for _ in range(2):
            self.pipeline.tick()
        if self.is_sound:
            self.check()

    def tables(self) -> dict[str, Any]:
        raise NotImplementedError

    def row(self, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def _change(self, name: str, table: Any) -> None:
        held = self.expected.setdefault(name, {})
        number = 10**9 + self.rng.randrange(30)
        self.pipeline.now += 1000
        if self.rng.random() < 0.3 and str(number) in held:
            table.delete(number)
            del held[str(number)]
        else:
            row = {"id": number, **self.values(name)}
            table.update(row)
            held[str(number)] = row

    def values(self, name: str) -> dict[str, Any]:
        raise NotImplementedError

    def check(self) -> None:
        for side in self.pipeline.shard._sides:
            found = {text: row for text, row in _held_rows(side).items() if _is_true(text)}
            assert found == self.expected.get(side.table.name, {})

    def finish(self) -> None:
        snapshot = self.pipeline.shard.snapshot()
        again = self.pipeline.new_shard()
        again.restore(snapshot)
        assert again.snapshot() == snapshot


class Tables(Rows):
    """One table, queries for ranges and for an aggregate, and subscriptions to both."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        lowest = parse("CREATE QUERY lowest(low, high) AS SELECT MIN(y) FROM stock WHERE x BETWEEN low AND high")
        self.pipeline = StockPipeline(AREA, lowest)
        self.log = self.pipeline.log
        self.pipeline.tick()
        self.pipeline.subscribe(parse("SUBSCRIBE area(0, 10)"))
        self.pipeline.subscribe(parse("SUBSCRIBE lowest(0, 10)"))
        schema = subscriptions_schema({"low": "DOUBLE", "high": "DOUBLE"})
        row = subscription_row(parse("SUBSCRIBE area(1, 3)"), AREA, STOCK)
        self.kinds = {
            "changes": ("changes.stock", _changes(seed, STOCK, self.now)),
            "subscriptions": ("subscriptions.stock", Forger(seed + 1, schema, [pack(row), *good_rows(schema, 5)])),
            **put_in("changes.stock", of_updates(seed + 2, self.now)),
        }
        self.step()

    def tables(self) -> dict[str, Any]:
        return {"stock": self.pipeline.table()}

    def values(self, name: str) -> dict[str, Any]:
        return {"name": self.rng.choice("xyz"), "x": float(self.rng.randrange(12)), "y": self.rng.randrange(9)}


class Joined(Rows):
    """Two tables and joins of both, with subscriptions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        from test_joins_shard import QUERIES, TABLES

        self.pipeline = PairPipeline(QUERIES["matched"], QUERIES["near"], tables=TABLES)
        self.log = self.pipeline.log
        self.pipeline.tick()
        names = {"matched": 4, "near": 2}
        self.kinds = {
            "changes": (changes_topic("supply"), _changes(seed, TABLES[0], self.now)),
            "other changes": (changes_topic("demand"), _changes(seed + 1, TABLES[1], self.now)),
        }
        for number, name in enumerate(names):
            schema = subscriptions_schema(dict.fromkeys(QUERIES[name].parameters, "DOUBLE"))
            home = f"subscriptions.{self.pipeline.relation.name}"
            self.kinds[f"subscriptions {name}"] = home, Forger(seed + 2 + number, schema, [*good_rows(schema, 5)])
        self.step()

    def tables(self) -> dict[str, Any]:
        return {table.name: self.pipeline.table(table.name) for table in self.pipeline.relation.tables}

    def values(self, name: str) -> dict[str, Any]:
        level = {"a": float(self.rng.randrange(4))} if name == "supply" else {"c": float(self.rng.randrange(4))}
        return {"product": self.rng.choice("pq"), **level, "b": self.rng.randrange(8) / 4}


class Spread(Rows):
    """Joins over two tables whose rows are spread over three shards, by values or by ranges: every true row is whole in
    a shard that it belongs to, and subscriptions have been told of every pair of true rows.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        from test_joins_shard import PARAMETERS, QUERIES, TABLES
        from test_spread_joins import RANGED, SpreadJoins

        self.query, known = self.rng.choice((("matched", ""), ("near", RANGED)))
        self.pipeline = SpreadJoins((self.query,), 3, known)
        self.log = self.pipeline.log
        self.pipeline.tick()
        self.subscribed = {}
        for values in PARAMETERS[self.query]:
            self.pipeline.join(self.query, values)
            (row,) = unpack(self.log.read(self.pipeline.topics[-1])[-1].payload).to_pylist()
            self.subscribed[row["id"]] = values
        schema = subscriptions_schema(dict.fromkeys(QUERIES[self.query].parameters, "DOUBLE"))
        self.kinds = {
            "changes": (changes_topic("supply"), _changes(seed, TABLES[0], self.now)),
            "other changes": (changes_topic("demand"), _changes(seed + 1, TABLES[1], self.now)),
            "subscriptions": (self.pipeline.topics[-1], Forger(seed + 2, schema, [*good_rows(schema, 5)])),
        }
        self.step()

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.shards[0].watermark or 0) <= self.pipeline.now

    def tables(self) -> dict[str, Any]:
        return {table.name: self.pipeline.table(table.name) for table in self.pipeline.relation.tables}

    def values(self, name: str) -> dict[str, Any]:
        return Joined.values(self, name)

    def check(self) -> None:
        for name, true in self.expected.items():
            found: dict[str, dict[str, Any]] = {}
            for shard in self.pipeline.shard.shards:
                found |= _held_rows(next(side for side in shard._sides if side.table.name == name))
            assert {text: row for text, row in found.items() if _is_true(text)} == true

    def finish(self) -> None:
        super().finish()
        if self.is_sound:
            from test_joins_shard import results

            rows = {name: self.expected.get(name, {}) for name in ("supply", "demand")}
            told: dict[int, set[tuple[int, int]]] = {number: set() for number in self.subscribed}
            # A row that moves to another shard goes in one and comes in the other, in any order: `at` has the order.
            for row in sorted(self.pipeline.rows(f"answers.{self.query}"), key=lambda row: (row["at"], row["kind"])):
                pair = row["row.supply.id"], row["row.demand.id"]
                for number in set(row["subscriptions"]) & told.keys():
                    if all(_is_true(str(one)) for one in pair):
                        assert (pair in told[number]) == (row["kind"] == "delete")
                        told[number] ^= {pair}
            for number, values in self.subscribed.items():
                assert told[number] == results(self.query, values, rows).keys()


class Kept(Stage):
    """Two tables that only grow: every pair of true rows is found once, there being room for all."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.pipeline = self.make_pipeline()
        self.log = self.pipeline.log
        self.pipeline.tick()
        self.orders: list[tuple[int, int]] = []
        self.lines: list[tuple[int, int]] = []
        self.kinds = {
            "changes": ("changes.orders", _changes(seed, ORDERS, self.now)),
            "other changes": ("changes.lines", _changes(seed + 1, LINES, self.now)),
        }

    def make_pipeline(self) -> Any:
        return AppendOnlyPipeline(keep(100_000), tables=(ORDERS, LINES))

    @property
    def now(self) -> int:
        return int(self.pipeline.now)

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.watermark or 0) <= self.pipeline.now

    def step(self) -> None:
        for name, held in (("orders", self.orders), ("lines", self.lines)):
            self.pipeline.now += 1000
            number, part = 10**9 + len(self.orders) + len(self.lines), 10**6 + self.rng.randrange(6)
            more = {"note": "n"} if name == "orders" else {"amount": 1.0}
            self.pipeline.table(name).insert(id=number, part=part, **more)
            held.append((number, part))
        for _ in range(2):
            self.pipeline.tick()

    def finish(self) -> None:
        if self.is_sound:
            true = {(one, other) for one, part in self.orders for other, same in self.lines if part == same}
            ids = {one for one, _ in [*self.orders, *self.lines]}
            said = [pair for pair in self.pipeline.pairs() if set(pair) <= ids]
            assert len(said) == len(true)
            assert set(said) == true


class KeptSpread(Kept):
    """The same with the rows that are kept spread over three shards: `KEEP n ROWS … WITH (shards = 3)`."""

    def make_pipeline(self) -> Any:
        from test_spread_shards import SpreadPipeline, spread

        return SpreadPipeline(spread(100_000, 3))

    @property
    def is_sound(self) -> bool:
        return max(shard.watermark or 0 for shard in self.pipeline.shard.shards) <= self.pipeline.now

    def finish(self) -> None:
        super().finish()
        again = self.pipeline.new_shard()
        snapshots = self.pipeline.shard.snapshot()
        again.restore(snapshots)
        assert again.snapshot() == snapshots


class LookedUp(Stage):
    """Orders looked up in a file of parts: every true order finds its part."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        import tempfile

        import pyarrow.parquet as pq
        from test_lookup_join_shard import LOOKED, PARTS
        from test_lookup_join_shard import ORDERS as TEXT

        with tempfile.TemporaryDirectory() as folder:
            parts = pa.table({"id": list(range(20)), "name": [f"p{k}" for k in range(20)], "price": [1.0] * 20})
            pq.write_table(parts, f"{folder}/parts.parquet")
            text = TEXT + PARTS.format(kind="parquet") + LOOKED.format(rows=5)
            self.pipeline = LookupPipeline(Path(folder), text)
        self.log, self.pipeline.number, self.orders = self.pipeline.log, 10**9, dict[int, int]()
        self.pipeline.tick()
        orders = next(table for table in self.pipeline.relation.tables if table.name == "orders")
        self.kinds = {"changes": ("changes.orders", _changes(seed, orders, self.now))}

    @property
    def now(self) -> int:
        return int(self.pipeline.now)

    @property
    def is_sound(self) -> bool:
        return (self.pipeline.shard.watermark or 0) <= self.pipeline.now

    def step(self) -> None:
        part = self.rng.randrange(25)
        self.pipeline.order(part)
        self.orders[self.pipeline.number] = part
        for _ in range(2):
            self.pipeline.tick()

    def finish(self) -> None:
        if self.is_sound:
            found = [(row[0], row[2], row[3]) for row in self.pipeline.results() if row[0] in self.orders]
            assert sorted(found) == [(order, part, f"p{part}") for order, part in self.orders.items() if part < 20]


class Polled(Stage):
    """A polled stream: what it answers is what a shard answers that reads none of what is forged."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.pipeline, self.twin = PolledPipeline(QUOTES_TEXT, TOTAL), PolledPipeline(QUOTES_TEXT, TOTAL)
        self.log = self.pipeline.log
        self.kinds = {
            "pulls": ("pulls.quotes", Forger(seed, PULLS, [*good_rows(PULLS, self.now)])),
            **put_in("updates.quotes", of_updates(seed + 1, self.now)),
        }
        self.prices = dict.fromkeys("ABC", 100.0)
        self.answers = 0
        for _ in range(3):
            self.step()
        assert self.answers

    @property
    def now(self) -> int:
        return self.pipeline.now

    @property
    def is_sound(self) -> bool:
        return self.pipeline.shard.watermark == self.twin.shard.watermark

    def step(self) -> None:
        for symbol in self.prices:
            self.prices[symbol] += self.rng.gauss(0, 1)
            if self.rng.random() < 0.7:
                for pipeline in (self.pipeline, self.twin):
                    pipeline.pull(symbol, self.prices[symbol])
        for pipeline in (self.pipeline, self.twin):
            pipeline.tick()
        if self.is_sound:
            said, expected = (
                [row for entry in pipeline.log.read("answers.total") for row in unpack(entry.payload).to_pylist()]
                for pipeline in (self.pipeline, self.twin)
            )
            assert said == expected
            self.answers = len(said)


class Networked(Stage):
    """A network of aggregators, whose settled answers hold the truth."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.simulation = SimulatedNetwork(seed % 10_000, faults=False)
        self._hurried = False
        self.log = self.simulation.log
        self.simulation.run(2)
        self.kinds = {
            "reports": (reports_topic("prices"), Forger(seed, REPORTS, [*good_rows(REPORTS, self.now)])),
            **put_in("updates.prices", of_updates(seed + 1, self.now)),
            **{f"fed {name}": ("feeds.prices", one) for name, one in of_updates(seed + 9, self.now).items()},
        }

    @property
    def now(self) -> int:
        return self.simulation.now

    @property
    def is_sound(self) -> bool:
        return not self._hurried and (self.simulation.shard.watermark or 0) <= self.simulation.now

    def put(self, topic: str, payload: bytes) -> None:
        self._hurried |= _is_ahead(payload, self.now, longest_jump(self.simulation.stream.options))
        super().put(topic, payload)

    def step(self) -> None:
        self.simulation.run(0.2)

    def finish(self) -> None:
        self.simulation.run(1)
        if self.is_sound:
            assert self.simulation.violations() == []


class Viewed(Rows):
    """The tables of views, and requests for them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        views = Views((LINES, ORDERS))
        self.pipeline = ViewTables(views)
        self.log = self.pipeline.log
        self.kinds = {
            "requests": (refreshes_topic(views.name), Forger(seed, REQUESTS, [*good_rows(REQUESTS, self.now)])),
            "changes": ("changes.orders", _changes(seed + 1, ORDERS, self.now)),
            "other changes": ("changes.lines", _changes(seed + 2, LINES, self.now)),
            "strangers": ("changes.forged", _changes(seed + 3, LINES, self.now)),
        }
        self.step()

    def tables(self) -> dict[str, Any]:
        return {table.name: self.pipeline.table(table.name) for table in self.pipeline.relation.tables}

    def values(self, name: str) -> dict[str, Any]:
        part = self.rng.randrange(5)
        return {"part": part, **({"note": "n"} if name == "orders" else {"amount": 0.5})}


class ViewTables(LocalPipeline):
    """Two tables with the shard of their views, which also reads a table that is not theirs."""

    def __init__(self, views: Views) -> None:
        super().__init__(views.tables, pipeline=views.name, make_shard=lambda: ViewShard(views), now=START)
        self.topics.append("changes.forged")


_STATEMENT = {"kind": FORGED, "key": FORGED, "request": FORGED, "text": ""}

STAGES: dict[str, type[Stage]] = {
    "bounded": Bounded,
    "adaptive": Adaptive,
    "summed": Summed,
    "split": SplitRows,
    "tables": Tables,
    "joined": Joined,
    "spread": Spread,
    "kept": Kept,
    "kept_spread": KeptSpread,
    "looked_up": LookedUp,
    "polled": Polled,
    "networked": Networked,
    "views": Viewed,
}


def stage(name: str, episode: int) -> Stage:
    """A new one, the same for the same number."""
    made = STAGES[name](seed_of(name) + 1000 * episode)
    if name != "split":  # statements go to every shard as they are
        bodies = [body for body in valid() if '"Drop"' not in body]  # a table that is dropped has no rows
        rows = [pack(pa.RecordBatch.from_pylist([_STATEMENT | {"body": body}], STATEMENTS)) for body in bodies]
        made.kinds["statements"] = QUERIES, Forger(seed_of(name) + episode, STATEMENTS, rows)
    return made
