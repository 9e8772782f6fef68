"""Every kind of shard with true sources and a truth to check it against, and a door for forged payloads.

A stage lives for an episode of some hundred payloads. It says whether it is still of use (`is_sound`): a forged clock
row that was accepted makes true rows late, by what the protocol promises, so that nothing can be claimed afterwards.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.append(str(Path(__file__).parents[1] / "spark"))

from mutations import Forger, good_rows, of_updates, seed_of
from rig import TRAFFIC, Rig
from test_kept_shard import LINES, ORDERS, GrowingShop, keep
from test_looked_up_shard import LookupShop
from test_pair_shard import PairShop
from test_polled_shard import QUOTES_TEXT, TOTAL, Exchange
from test_table_shard import AREA, STOCK, Shop

from tolerant.queries import Answer
from tolerant.spark.splitter import Split
from tolerant.spark.spreading import PairSplit
from tolerant.spark.views.shard import ViewShard
from tolerant.sql import Pair, parse
from tolerant.sql.homes import Views
from tolerant.sql.subscriptions import subscription_row
from tolerant.streams import SECOND
from tolerant.testing.networks import NetworkWorld
from tolerant.transport.changes import changes_schema, topic_of
from tolerant.transport.plans import REPORTS, reports_topic
from tolerant.transport.pulls import PULLS
from tolerant.transport.rows import pack, unpack
from tolerant.transport.subscriptions import subscriptions_schema
from tolerant.transport.views import REQUESTS, requests_topic


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
        self.rig = Rig(
            f"CREATE QUERY total AS SELECT SUM(rate) FROM traffic WHERE {own} WITHIN 5",
            f"CREATE QUERY most AS SELECT MAX(rate) FROM traffic WHERE {own} WITHIN 2",
            stream=f"{TRAFFIC} WITH (policy = '{self.policy}')",
        )
        self.log = self.rig.log
        self.rig.start("edge")
        self.values = dict.fromkeys(self.hosts, 10.0)
        self.journal: list[tuple[int, dict[str, float]]] = []
        self.checked = {"total": 0, "most": 0}
        self.settled = 0
        self.kinds = put_in("updates.traffic", of_updates(seed, self.now))
        for _ in range(5):
            self.step()

    @property
    def now(self) -> int:
        return self.rig.now

    def step(self) -> None:
        for host in self.hosts:
            self.values[host] += self.rng.gauss(0, 1)
        self.rig.set("edge", **self.values)
        self.journal.append((self.rig.sources["edge"].clock, dict(self.values)))
        self.rig.tick()
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
        return (self.rig.shard.horizon or 0) <= self.rig.now

    def finish(self) -> None:
        for _ in range(15):
            self.step()
        if self.is_sound and not self.rig.shard._rival:
            assert self.rig.answers("total")[-1].settled
            assert self.settled > 5
        again = type(self.rig.shard)(self.rig.stream, 0, 1, "checkpoint")
        snapshot = self.rig.shard.snapshot()
        again.restore(snapshot, [])
        assert again.snapshot() == snapshot


class Adaptive(Bounded):
    """The same under the adaptive policy, whose filters shrink."""

    policy = "adaptive"


class SplitRows(Stage):
    """Rows on their way to one of two shards: none is lost that can be read."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.stream = parse(f"{TRAFFIC} WITH (shards = 2, shard = host)").stream
        self.pair = PairSplit(Pair((LINES, ORDERS), "@2.ad21f06c", ("part", "part")))
        rows = put_in("updates.traffic", of_updates(seed, self.now))
        self.kinds = rows | {"changes": ("changes.orders", _changes(seed, ORDERS, self.now))}

    now = 10**12
    is_sound = True

    def put(self, topic: str, payload: bytes) -> None:
        splitter = self.pair if topic == "changes.orders" else Split(self.stream)
        for shard, part in splitter.parts(topic, payload):
            assert shard in (0, 1)
            if part != payload:
                unpack(part)

    def step(self) -> None:
        """Nothing waits."""


def _changes(seed: int, table: Any, at: int) -> Forger:
    schema = changes_schema(table.columns)
    return Forger(seed, schema, [*good_rows(schema, at)])


class Rows(Stage):
    """Tables whose true rows must be held as they were put, whatever else comes."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.expected: dict[str, dict[str, dict[str, Any]]] = {}

    shop: Any

    @property
    def now(self) -> int:
        return int(self.shop.now)

    @property
    def is_sound(self) -> bool:
        return (self.shop.shard.horizon or 0) <= self.shop.now

    def step(self) -> None:
        if self.is_sound:
            for name, table in self.tables().items():
                self._change(name, table)
        for _ in range(2):
            self.shop.tick()
        if self.is_sound:
            self.check()

    def tables(self) -> dict[str, Any]:
        raise NotImplementedError

    def row(self, number: int) -> dict[str, Any]:
        raise NotImplementedError

    def _change(self, name: str, table: Any) -> None:
        held = self.expected.setdefault(name, {})
        number = 10**9 + self.rng.randrange(30)
        self.shop.now += 1000
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
        for side in self.shop.shard._sides:
            rows, keys = side.relation.rows(), side.relation.keys().tolist()
            found = {
                text: {name: column[place].item() if hasattr(column[place], "item") else column[place]
                       for name, column in rows.items()}
                for place, text in enumerate(keys)
            }  # fmt: skip
            for text, row in self.expected.get(side.table.name, {}).items():
                assert found[text] == row
            own = {text for text in found if text.isdecimal() and len(text) == 10}
            assert own == set(self.expected.get(side.table.name, {}))

    def finish(self) -> None:
        snapshot = self.shop.shard.snapshot()
        again = self.shop.born()
        again.restore(snapshot, [])
        assert again.snapshot() == snapshot


class Tables(Rows):
    """One table, queries for ranges and for an aggregate, and subscriptions to both."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        lowest = parse("CREATE QUERY lowest(low, high) AS SELECT MIN(y) FROM stock WHERE x BETWEEN low AND high")
        self.shop = Shop(AREA, lowest)
        self.log = self.shop.log
        self.shop.tick()
        self.shop.subscribe(parse("SUBSCRIBE area(0, 10)"))
        self.shop.subscribe(parse("SUBSCRIBE lowest(0, 10)"))
        schema = subscriptions_schema({"low": "DOUBLE", "high": "DOUBLE"})
        row = subscription_row(parse("SUBSCRIBE area(1, 3)"), AREA, STOCK)
        self.kinds = {
            "changes": ("changes.stock", _changes(seed, STOCK, self.now)),
            "subscriptions": ("subscriptions.stock", Forger(seed + 1, schema, [pack(row), *good_rows(schema, 5)])),
            **put_in("changes.stock", of_updates(seed + 2, self.now)),
        }
        self.step()

    def tables(self) -> dict[str, Any]:
        return {"stock": self.shop.table}

    def values(self, name: str) -> dict[str, Any]:
        return {"name": self.rng.choice("xyz"), "x": float(self.rng.randrange(12)), "y": self.rng.randrange(9)}


class Joined(Rows):
    """Two tables and joins of both, with subscriptions."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        from test_joins_shard import QUERIES, TABLES

        self.shop = PairShop(QUERIES["matched"], QUERIES["near"], tables=TABLES)
        self.log = self.shop.log
        self.shop.tick()
        names = {"matched": 4, "near": 2}
        self.kinds = {
            "changes": (topic_of("supply"), _changes(seed, TABLES[0], self.now)),
            "other changes": (topic_of("demand"), _changes(seed + 1, TABLES[1], self.now)),
        }
        for number, name in enumerate(names):
            schema = subscriptions_schema(dict.fromkeys(QUERIES[name].parameters, "DOUBLE"))
            home = f"subscriptions.{self.shop.pair.name}"
            self.kinds[f"subscriptions {name}"] = home, Forger(seed + 2 + number, schema, [*good_rows(schema, 5)])
        self.step()

    def tables(self) -> dict[str, Any]:
        return dict(self.shop.tables)

    def values(self, name: str) -> dict[str, Any]:
        level = {"a": float(self.rng.randrange(4))} if name == "supply" else {"c": float(self.rng.randrange(4))}
        return {"product": self.rng.choice("pq"), **level, "b": self.rng.randrange(8) / 4}


class Kept(Stage):
    """Two tables that only grow: every pair of true rows is found once, there being room for all."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.shop = GrowingShop(keep(100_000), tables=(ORDERS, LINES))
        self.log = self.shop.log
        self.shop.tick()
        self.orders: list[tuple[int, int]] = []
        self.lines: list[tuple[int, int]] = []
        self.kinds = {
            "changes": ("changes.orders", _changes(seed, ORDERS, self.now)),
            "other changes": ("changes.lines", _changes(seed + 1, LINES, self.now)),
        }

    @property
    def now(self) -> int:
        return int(self.shop.now)

    @property
    def is_sound(self) -> bool:
        return (self.shop.shard.horizon or 0) <= self.shop.now

    def step(self) -> None:
        for name, held in (("orders", self.orders), ("lines", self.lines)):
            self.shop.now += 1000
            number, part = 10**9 + len(self.orders) + len(self.lines), 10**6 + self.rng.randrange(6)
            more = {"note": "n"} if name == "orders" else {"amount": 1.0}
            self.shop.tables[name].insert(id=number, part=part, **more)
            held.append((number, part))
        for _ in range(2):
            self.shop.tick()

    def finish(self) -> None:
        if self.is_sound:
            true = {(one, other) for one, part in self.orders for other, same in self.lines if part == same}
            ids = {one for one, _ in [*self.orders, *self.lines]}
            said = [pair for pair in self.shop.pairs() if set(pair) <= ids]
            assert len(said) == len(true)
            assert set(said) == true


class LookedUp(Stage):
    """Orders looked up in a file of parts: every true order finds its part."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        import tempfile

        import pyarrow.parquet as pq
        from test_looked_up_shard import LOOKED, PARTS
        from test_looked_up_shard import ORDERS as TEXT

        with tempfile.TemporaryDirectory() as folder:
            parts = pa.table({"id": list(range(20)), "name": [f"p{k}" for k in range(20)], "price": [1.0] * 20})
            pq.write_table(parts, f"{folder}/parts.parquet")
            text = TEXT + PARTS.format(kind="parquet") + LOOKED.format(rows=5)
            self.shop = LookupShop(Path(folder), text)
        self.log, self.wanted = self.shop.log, []
        self.shop.tick()
        orders = next(table for table in self.shop.pair.tables if table.name == "orders")
        self.kinds = {"changes": ("changes.orders", _changes(seed, orders, self.now))}

    @property
    def now(self) -> int:
        return int(self.shop.now)

    @property
    def is_sound(self) -> bool:
        return (self.shop.shard.horizon or 0) <= self.shop.now

    def step(self) -> None:
        self.shop.order(self.rng.randrange(25))
        for _ in range(2):
            self.shop.tick()


class Polled(Stage):
    """A polled stream: what it answers is what a shard answers that reads none of what is forged."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.shop, self.twin = Exchange(QUOTES_TEXT, TOTAL), Exchange(QUOTES_TEXT, TOTAL)
        self.log = self.shop.log
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
        return self.shop.now * SECOND

    @property
    def is_sound(self) -> bool:
        return self.shop.shard.horizon == self.twin.shard.horizon

    def step(self) -> None:
        for symbol in self.prices:
            self.prices[symbol] += self.rng.gauss(0, 1)
            if self.rng.random() < 0.7:
                for shop in (self.shop, self.twin):
                    shop.pull(symbol, self.prices[symbol])
        for shop in (self.shop, self.twin):
            shop.tick()
        if self.is_sound:
            said, expected = (
                [row for entry in shop.log.read("answers.total") for row in unpack(entry.payload).to_pylist()]
                for shop in (self.shop, self.twin)
            )
            assert said == expected
            self.answers = len(said)


class Networked(Stage):
    """A network of aggregators, whose settled answers hold the truth."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = NetworkWorld(seed % 10_000, faults=False)
        self.log = self.world.log
        self.world.run(2)
        self.kinds = {
            "reports": (reports_topic("prices"), Forger(seed, REPORTS, [*good_rows(REPORTS, self.now)])),
            **put_in("updates.prices", of_updates(seed + 1, self.now)),
            **{f"fed {name}": ("feeds.prices", one) for name, one in of_updates(seed + 9, self.now).items()},
        }

    @property
    def now(self) -> int:
        return self.world.now

    @property
    def is_sound(self) -> bool:
        return (self.world.shard.horizon or 0) <= self.world.now

    def step(self) -> None:
        self.world.run(0.2)

    def finish(self) -> None:
        self.world.run(1)
        if self.is_sound:
            assert self.world.violations() == []


class Viewed(Rows):
    """The tables of views, and requests for them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        views = Views((LINES, ORDERS))
        self.shop = ViewTables(views)
        self.log = self.shop.log
        self.kinds = {
            "requests": (requests_topic(views.name), Forger(seed, REQUESTS, [*good_rows(REQUESTS, self.now)])),
            "changes": ("changes.orders", _changes(seed + 1, ORDERS, self.now)),
            "other changes": ("changes.lines", _changes(seed + 2, LINES, self.now)),
            "strangers": ("changes.forged", _changes(seed + 3, LINES, self.now)),
        }
        self.step()

    def tables(self) -> dict[str, Any]:
        return dict(self.shop.tables)

    def values(self, name: str) -> dict[str, Any]:
        part = self.rng.randrange(5)
        return {"part": part, **({"note": "n"} if name == "orders" else {"amount": 0.5})}


class ViewTables(PairShop):
    """Two tables with the shard of their views."""

    def __init__(self, views: Views) -> None:
        self.views = views
        super().__init__(tables=views.tables)
        self.topics = ["queries", "changes.orders", "changes.lines", "changes.forged", requests_topic(views.name)]

    def born(self) -> ViewShard:
        return ViewShard(self.views)


STAGES: dict[str, type[Stage]] = {
    "bounded": Bounded,
    "adaptive": Adaptive,
    "split": SplitRows,
    "tables": Tables,
    "joined": Joined,
    "kept": Kept,
    "looked_up": LookedUp,
    "polled": Polled,
    "networked": Networked,
    "views": Viewed,
}


def stage(name: str, episode: int) -> Stage:
    """A new one, the same for the same number."""
    return STAGES[name](seed_of(name) + 1000 * episode)
