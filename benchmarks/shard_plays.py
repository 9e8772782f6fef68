"""A short play of one shard per kind of query, without Spark: what `start_costs.py` times and a test counts.

Run in a process of its own, `play(kind)` prints the compiled functions that it loaded, the seconds that this took, and
how often something had to be compiled because no earlier process had.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from tolerant.client import StatementClient
from tolerant.kernels.compiled import _numba
from tolerant.kinds import shard_factory
from tolerant.pipeline.hosting import Hosted
from tolerant.sql import AppendOnlyJoinInput, Catalogue, JoinInput
from tolerant.streams import SECOND
from tolerant.transport import MemoryLog
from tolerant.transport.changes import clock_row
from tolerant.transport.pulls import Pull, pulls_batch
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import changes_topic, updates_topic

_TABLES = """
CREATE TABLE orders (id BIGINT, part BIGINT, price DOUBLE) KEY (id);
CREATE TABLE lines (id BIGINT, part BIGINT, amount DOUBLE) KEY (id);
"""
_QUERIES = {
    "tables": """
CREATE QUERY area(low, high) AS SELECT * FROM orders WHERE price BETWEEN low AND high;
CREATE QUERY cheapest(low, high) AS SELECT MIN(price) FROM orders WHERE part BETWEEN low AND high;
SUBSCRIBE area(1, 3);
SUBSCRIBE cheapest(1, 3);
""",
    "joins": """
CREATE QUERY matched(a1, a2, c1, c2) AS SELECT * FROM orders JOIN lines ON orders.part = lines.part
WHERE orders.price BETWEEN a1 AND a2 AND lines.amount BETWEEN c1 AND c2;
SUBSCRIBE matched(0, 9, 0, 9);
""",
    "kept_joins": "CREATE QUERY kept AS SELECT * FROM orders JOIN lines ON orders.part = lines.part KEEP 3 ROWS;",
}


def bounded() -> None:
    """A stream with tolerances, and a source."""
    from tolerant.demo.prepare import warm

    warm()


def network() -> None:
    """A stream that two aggregators answer for."""
    from tolerant.planning import Network
    from tolerant.testing.networks import SimulatedNetwork

    tree = Network({"top": {"x": 0.5, "y": 0.0}, "low": {"x": 2.0, "y": 0.3}}, parents={"low": "top"})
    SimulatedNetwork(2, tree, faults=False).run(10)


def polled() -> None:
    """A polled stream, of which some values have been pulled."""
    log = MemoryLog()
    StatementClient(log).register(
        "CREATE STREAM quotes (symbol STRING, price DOUBLE) KEY (symbol)"
        " FROM 'http://host/{symbol}' WITH (path = '$.p');"
        "CREATE QUERY total AS SELECT SUM(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 2 FIDELITY 0.9;"
        "CREATE QUERY most AS SELECT MAX(price) FROM quotes WHERE symbol IN ('A', 'B') WITHIN 2 FIDELITY 0.9"
    )
    for tick in range(1_000, 1_020):
        at = tick * SECOND
        log.append("pulls.quotes", pulls_batch([Pull(item, tick, at, "value", tick % 7.0, "", "p") for item in "AB"]))
        log.append(updates_topic("quotes"), clock_batch(at + SECOND, 1, "play"))
    stream = _catalogue(log).streams["quotes"]
    _apply(shard_factory(stream, 1, "play")(0), log, ["queries", updates_topic("quotes"), "pulls.quotes"])


def tables() -> None:
    """A table with subscriptions to ranges."""
    _rows("tables", lambda known: known.tables["orders"])


def joins() -> None:
    """Two tables that are joined."""
    _rows("joins", lambda known: JoinInput.of(known.tables["orders"], known.tables["lines"]))


def kept_joins() -> None:
    """Two tables that are joined with room for some rows."""
    _rows("kept_joins", lambda known: AppendOnlyJoinInput.of(known.tables["orders"], known.tables["lines"]))


KINDS = {play.__name__: play for play in (bounded, polled, network, tables, joins, kept_joins)}


def _rows(kind: str, relation_of: Callable[[Catalogue], Any]) -> None:
    from tolerant.edge import Table

    log = MemoryLog()
    StatementClient(log).register(_TABLES + _QUERIES[kind])
    known = _catalogue(log)
    relation = relation_of(known)
    moments = count(1_000 * SECOND, SECOND)
    names = ("orders", "lines")
    for name in names:
        column = known.tables[name].columns[-1].name
        with Table(name, log, name="feeder", clock=lambda: next(moments)) as table:
            for step in range(12):
                table.insert({"id": step, "part": step % 3, column: float(step)})
                if kind != "kept_joins" and step % 5 == 4:
                    table.delete(step)
                table.flush()
    now = next(moments)
    for name in names:
        log.append(changes_topic(name), clock_row(known.tables[name].columns, now, 1, "play"))
    subscriptions = f"subscriptions.{getattr(relation, 'name', 'orders')}"
    _apply(shard_factory(relation, 1, "play")(0), log, ["queries", subscriptions, *map(changes_topic, names)])


def _catalogue(log: MemoryLog) -> Catalogue:
    return StatementClient(log).catalogue()


def _apply(shard: Hosted, log: MemoryLog, topics: list[str]) -> None:
    for entry in log.read(topics):
        shard.apply([entry])
    shard.snapshot()


def play(kind: str) -> None:
    """Play, and print: compiled functions that were loaded, seconds for that, those that had to be compiled."""
    _numba()
    from numba.core.dispatcher import Dispatcher

    loaded, compiled, seconds, depth = 0, 0, 0.0, 0
    original = Dispatcher.compile

    def timed(self: Any, signature: Any) -> Any:
        nonlocal loaded, compiled, seconds, depth
        before, misses, depth = time.process_time(), sum(self.stats.cache_misses.values()), depth + 1
        try:
            return original(self, signature)
        finally:
            depth -= 1
            if depth == 0:
                seconds += time.process_time() - before
                loaded += 1
                compiled += sum(self.stats.cache_misses.values()) > misses

    Dispatcher.compile = timed  # type: ignore[assignment]
    KINDS[kind]()
    print(loaded, seconds, compiled)


if __name__ == "__main__":
    play(sys.argv[1])
