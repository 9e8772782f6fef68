"""Who reads compacted topics back, each with good records, a forger of others, and what must stay true beside them."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable

import numpy as np
from forged_records import RecordForger, other_snapshot
from stages import Bounded

from tolerant.cli.figures import stream_figures, table_figures
from tolerant.cli.status import stream_report
from tolerant.client import StatementClient, load_catalogue
from tolerant.client.answer_listener import current_answers
from tolerant.client.missing_replies import why_no_reply
from tolerant.client.row_select import select_rows
from tolerant.edge.polling import StreamPoller
from tolerant.edge.polling.stream_poller import SCHEMA
from tolerant.edge.source_core import SourceCore
from tolerant.edge.source_transport import SourceTransport
from tolerant.kernels.versions import version
from tolerant.kinds.ranges.listener import table_rows
from tolerant.kinds.views.refresh import view_rows
from tolerant.queries import Answer
from tolerant.spark.occupancy import live_owner
from tolerant.sql import CreateTable, parse
from tolerant.streams import SECOND, sum_key
from tolerant.transport.common import registration, wall_clock
from tolerant.transport.conflicts import Conflict, conflict_body, open_conflicts
from tolerant.transport.heartbeats import Heartbeat, heartbeat_batch, outage, pipelines
from tolerant.transport.log import Fence
from tolerant.transport.memory import MemoryLog
from tolerant.transport.plans import Wanted, plan_body, plan_key, read_announcements
from tolerant.transport.quarantine import NamedRow, Quarantined, WaitingRow, quarantined, record
from tolerant.transport.records import Record, records_of
from tolerant.transport.rows import Grant, compacted, current_body, grants_batch
from tolerant.transport.sums import Sums, sums_body, sums_key
from tolerant.transport.topics import EPOCHS, HEARTBEATS, POSITIONS
from tolerant.transport.views import HEADER, read_view

SAFE = "1000000007"
"""Nobody forges a key or a value like this."""
STREAM = "CREATE STREAM traffic (host STRING, rate DOUBLE) KEY (host)"
QUERY = "CREATE QUERY q AS SELECT SUM(rate) FROM traffic GROUP BY host WITHIN 1"
STOCK = "CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id)"
AREA = "CREATE QUERY area(low) AS SELECT * FROM stock WHERE x BETWEEN low AND 5"
TOTAL = "CREATE QUERY v AS SELECT id, SUM(x) AS t FROM stock GROUP BY id REFRESH WITHIN '5 s'"


class Reader:
    """A log with true records; `forgers`: by topic, what makes others. `read` reads all, and checks the true ones."""

    statements: tuple[str, ...] = (STREAM, QUERY)

    def __init__(self, seed: int) -> None:
        self.log, self.seed = MemoryLog(), seed
        self.forgers: dict[str, RecordForger] = {}
        for text in self.statements:
            StatementClient(self.log).send(parse(text))

    def forge(self, topic: str, *good: Record) -> None:
        """Forge records for a topic from good ones, after these."""
        self.forgers[topic] = RecordForger(self.seed + len(self.forgers), good)
        for row in good:
            self.log.append(topic, compacted([row]))

    def keep(self, topic: str, key: str, version: int, body: bytes) -> None:
        """Append a true record."""
        self.log.append(topic, compacted([(key, version, body)]))

    def put(self, topic: str) -> None:
        """Append a forged record, as anybody may; a log refuses an epoch that no row can carry."""
        try:
            self.log.append_packed([(topic, self.forgers[topic].payload())])
        except ValueError:
            assert topic == EPOCHS

    def read(self) -> None:
        raise NotImplementedError


class Edge(Reader):
    """A source that reads grants, sums and conflicts: it goes on, and takes what is true."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        stream = load_catalogue(self.log).streams["traffic"]
        self.now, self.grants = 10 * SECOND, 0
        self.core = SourceCore("edge", 1, stream.options)
        self.post = SourceTransport(self.core, self.log, stream, threading.Condition(), lambda: self.now)
        self.handles = self.core.register(["forged", "items/0", "zz", SAFE])
        self.values = np.zeros(4)
        self.core.offer(self.handles, self.values, self.now)
        self.post.exchange()
        bodies = grants_batch([Grant("a", 4.0, 0.1, self.now, 1, False), Grant("b", 1.0, 0.0, self.now, 1, True)])
        good = [("zz", version(1, 1), body) for body in bodies.column("body").to_pylist()]
        self.forge("grants.traffic", *good, ("forged", version(1, 2), good[0][2]))
        sums = Sums((sum_key(0, 1),), ("zz", "forged"), ((0, 1),), ((1.0, 2.0),), (3.0,), (None, 1.0), False)
        self.forge("sums.traffic", (sums_key("edge", 0), version(1, 1), sums_body([sums])),
                   (sums_key("edge", 1), version(1, 1), sums_body([sums, sums])))  # fmt: skip
        conflict = Conflict("zz", "other", "edge", self.now)
        self.forge("conflicts.traffic", ("zz", 5, conflict_body(conflict)), ("forged", 5, conflict_body(conflict)))
        self.keep("conflicts.traffic", SAFE, 5, conflict_body(Conflict(SAFE, "other", "nobody", self.now)))

    def read(self) -> None:
        self.grants += 1
        self.now += SECOND
        grant = grants_batch([Grant(SAFE, 1.0 + self.grants, 0.0, self.now, version(1, self.grants), False)])
        self.log.append("grants.traffic", grant)
        assert self.post.exchange()
        self.values += 7.0
        self.core.advance(self.now)
        self.core.offer(self.handles, self.values, self.now)
        assert self.post.exchange()
        assert self.core.filter_of(SAFE).width == 1.0 + self.grants
        assert [one.owner for one in open_conflicts(self.log, "traffic") if one.item == SAFE] == ["other"]


class Plans(Reader):
    """What aggregators are to answer."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        wanted = Wanted("D1", 0, 7, "sum", {"a": 1.0}, 0.5)
        most = Wanted("D1", 1, 7, "max", {"a": 1.0, "b": 2.0}, 0.5, 3.0)
        self.forge("grants.n", (plan_key("q", ""), 7, plan_body([wanted])), (plan_key("q", "g"), 7, plan_body([most])))
        self.keep("grants.n", plan_key(SAFE, ""), 7, plan_body([wanted]))
        self.expected = [wanted]

    def read(self) -> None:
        plans = [one for entry in self.log.read("grants.n") for one in read_announcements(entry.payload)]
        assert [list(one.wanted) for one in plans if one.query == SAFE] == [self.expected]


class Answers(Reader):
    """Current answers of a query."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.answer = Answer("q", 5, 1.0, 2.0, 3.0, group=SAFE)
        row = {
            "query": "q",
            "group": "",
            "at": 5,
            "low": 1.0,
            "value": 2.0,
            "high": 3.0,
            "stale": False,
            "settling": True,
        }
        self.forge("current.q", ("", 5, current_body(row)), ("g", 5, current_body(row | {"group": "g", "low": None})))
        self.keep("current.q", SAFE, 5, current_body(row | {"group": SAFE, "settling": False}))

    def read(self) -> None:
        assert [answer for answer in current_answers(self.log, "q") if answer.group == SAFE] == [self.answer]


class Rows(Reader):
    """Rows of a table, and of a view over it."""

    statements = (STOCK, AREA, TOTAL)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        table = load_catalogue(self.log).tables["stock"]
        assert isinstance(table, CreateTable)
        self.table = table
        self.forge("rows.stock", ("1", 4, b"[1,2.5]"), ("2", 4, b"[2,null]"))
        self.keep("rows.stock", SAFE, 4, f"[{SAFE},2.5]".encode())
        columns = [["id", "BIGINT"], ["t", "DOUBLE"]]
        header = json.dumps({"columns": columns, "at": 5, "step": 1}).encode()
        self.forge("current.v", ("[1]", 1, b"[[1,2.5]]"), ("[2]", 1, b"[[2,null],[2,3.0]]"))
        self.keep("current.v", f"[{SAFE}]", 1, f"[[{SAFE},2.5]]".encode())
        self.keep("current.v", HEADER, 2**63 - 1, header)
        self.forge("status.stock", ("summary/0", 1, json.dumps({"watermark": 5, "rows": 2, "late": 0}).encode()))

    def read(self) -> None:
        rows, _ = table_rows(self.log, self.table)
        assert [row["x"] for row in rows if row["id"] == int(SAFE)] == [2.5]
        header, groups = read_view(self.log, "v")
        if header:  # a forged one may have the last version there is, too
            assert groups.get(f"[{SAFE}]", [[int(SAFE), 2.5]]) == [[int(SAFE), 2.5]]
        view_rows(self.log, "v")
        select_rows(self.log, "SELECT id FROM stock LIMIT 5")
        why_no_reply(self.log, self.log.end(), 1.0)
        table_figures(self.log, "stock")


class Status(Reader):
    """What a pipeline says of itself."""

    statements = ()

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        stage = Bounded(0)
        stage.finish()
        self.log = stage.log
        self.forge("status.traffic", *records_of(self.log, "status.traffic"))

    def read(self) -> None:
        stream_figures(self.log, "traffic")
        stream_report(self.log, load_catalogue(self.log), "traffic")


class Owners(Reader):
    """Epochs, positions and heartbeats."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.beat = Heartbeat(SAFE, wall_clock(), wall_clock())
        self.forge(EPOCHS, ("source/traffic/edge", 1, b"here"), ("pipeline/traffic", 3, b"checkpoint"))
        self.forge(POSITIONS, ("checkpoint", 7, registration("traffic", ["updates.traffic"])))
        heart = heartbeat_batch([(Heartbeat("traffic", wall_clock(), wall_clock()), 1)]).to_pylist()[0]["body"]
        self.forge(HEARTBEATS, ("traffic", 1, heart), ("forged", 1, heart))
        self.log.register(SAFE, SAFE, [f"updates.{SAFE}"])
        self.epoch = self.log.next_epoch(f"pipeline/{SAFE}", SAFE)
        self.log.append(HEARTBEATS, heartbeat_batch([(self.beat, 1)]))

    def read(self) -> None:
        self.epoch += 1
        assert self.log.next_epoch(f"pipeline/{SAFE}", SAFE) == self.epoch
        self.log.trim(f"updates.{SAFE}", 2**62)
        self.log.trim(POSITIONS, 2**62)
        assert self.log.latest(POSITIONS, SAFE) is not None
        for pipeline in ("traffic", "forged", *pipelines(self.log)):
            live_owner(self.log, pipeline, set())
            outage(self.log, pipeline, wall_clock())
        assert outage(self.log, SAFE, self.beat.at) is None


class Quarantine(Reader):
    """Entries that a pipeline skips."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        fence = Fence("pipeline/traffic", self.log.next_epoch("pipeline/traffic"))
        rows, waiting = (NamedRow("update", "a", "edge", 3),), (WaitingRow("a", "edge", 3),)
        for position, named, held in ((7, rows, None), (8, None, waiting)):
            record(self.log, "traffic", Quarantined("updates.traffic", position, "why", 1, named, held, b"x"), fence)
        self.forge("quarantine.traffic", *records_of(self.log, "quarantine.traffic"))
        self.safe = Quarantined("updates.traffic", int(SAFE), "why", 1, rows, waiting, b"x")
        record(self.log, "traffic", self.safe, fence)

    def read(self) -> None:
        assert [one for one in quarantined(self.log, "traffic") if one.position == int(SAFE)] == [self.safe]


QUOTES = """CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol) FROM 'http://h/quote/{symbol}'
  WITH (path = '$.price', max_interval = 10)"""
PRICES = "CREATE QUERY total AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B', 'C') WITHIN 1 FIDELITY 0.9"


class Models(Reader):
    """The model of a polled stream, whatever its arrays hold: a poller takes it or leaves it, and goes on."""

    statements = (QUOTES, PRICES)

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.now = 1_000_000 * SECOND
        poller = self._poller()
        poller.restore()
        for tick in range(999_960, 1_000_000):
            for item in poller.poller.due(tick):
                poller.poller.pulled(item, float(tick % 7), tick)
        poller.save()
        (self.good,) = records_of(self.log, "models.quotes")
        self.forgers["models.quotes"] = RecordForger(seed, [self.good])
        self.rng, self.taken = random.Random(seed), 0

    def _poller(self) -> StreamPoller:
        return StreamPoller("quotes", self.log, clock=lambda: self.now)

    def put(self, topic: str) -> None:
        key, number, body = self.good
        if body is None or self.rng.random() < 0.2:
            super().put(topic)
        else:
            self.keep(topic, key, number, other_snapshot(self.rng, SCHEMA, body))

    def read(self) -> None:
        poller = self._poller()
        poller.restore()
        self.taken += any(poller.poller.last_pull(item) for item in "ABC")
        assert sorted(poller.poller.items) == ["A", "B", "C"]
        for tick in range(1_000_000, 1_000_003):
            for item in poller.poller.due(tick):
                poller.poller.pulled(item, float(tick % 5), tick)
        (answer,) = poller.poller.answers()
        assert answer is not None


READERS: dict[str, Callable[[int], Reader]] = {
    "edge": Edge,
    "plans": Plans,
    "answers": Answers,
    "rows": Rows,
    "status": Status,
    "owners": Owners,
    "quarantine": Quarantine,
    "models": Models,
}
