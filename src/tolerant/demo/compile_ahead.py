"""Compiles the hot loops ahead of their first use: `python -m tolerant.demo.compile_ahead`, run by `tools/venv.sh`.

A short demo in one process, sources and shard and simulations, so that every loop meets the arrays that it will meet.
The machine code is kept on disk, and a pipeline's first answer does not wait for the compiler.
"""

from __future__ import annotations

import numpy as np

from tolerant.client import StatementClient, load_catalogue
from tolerant.demo.sources import time_of
from tolerant.demo.sums import aggregates, simulated
from tolerant.demo.traffic import STREAM, Shape, generate, statements
from tolerant.edge import Source, Table
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.kinds.joins.shard import PairShard
from tolerant.retention import Keeper, Lookups
from tolerant.sql import CreateQuery, JoinInput, parse_many
from tolerant.streams import SECOND, Stream
from tolerant.traces import Trace
from tolerant.transport import Log, MemoryLog
from tolerant.transport.changes import clock_row
from tolerant.transport.log import START
from tolerant.transport.rows import clock_batch
from tolerant.transport.topics import QUERIES, changes_topic, updates_topic


def warm(shape: Shape | None = None) -> None:
    """Run everything that is compiled, on a small trace."""
    shape = shape or Shape(ticks=60, hosts=2)
    trace, log = generate(shape), MemoryLog()
    create, queries = statements(shape)
    _say(log, create)
    stream = load_catalogue(log).streams[STREAM]
    _play(log, stream, trace, queries)
    selected = [statement for statement in parse_many(queries) if isinstance(statement, CreateQuery)]
    asked = aggregates(selected, stream, trace.items)
    for policy in ("exact", "uniform", "adaptive", "predictive"):
        simulated(policy, policy, trace, asked, shape.period)
    _join()
    _keep()


def _play(log: Log, stream: Stream, trace: Trace, queries: str) -> None:
    shard, position, now = BoundedShard(stream, 0, 1, "warm"), START, time_of(0)
    with Source(STREAM, log, name="warm", clock=lambda: now) as source:
        handles = source.register(trace.items)
        for tick in range(trace.ticks):
            now = time_of(tick)
            source.set_many(handles, trace.values[tick])
            source.advance(now)
            log.append(updates_topic(STREAM), clock_batch(now))
            if tick == 1:
                _say(log, queries)
            entries = log.read([updates_topic(STREAM), QUERIES], position)
            position = entries[-1].position
            log.append_packed([(output.topic, output.payload) for output in shard.take(entries)])
    BoundedShard(stream, 0, 1, "warm").restore(shard.snapshot(), [])


_JOINS = """
CREATE TABLE r (id BIGINT, b DOUBLE) KEY (id);
CREATE TABLE s (id BIGINT, b DOUBLE) KEY (id);
CREATE QUERY near AS SELECT * FROM r JOIN s ON s.b - r.b BETWEEN -1 AND 1;
CREATE QUERY same AS SELECT * FROM r JOIN s ON r.b = s.b WHERE r.id BETWEEN 0 AND 9 AND s.id BETWEEN 0 AND 9;
"""


def _join() -> None:
    """A few rows of two tables that come, join and go."""
    log, now = MemoryLog(), time_of(0)
    _say(log, _JOINS)
    pair = JoinInput.of(*load_catalogue(log).tables.values())
    with Table("r", log, "warm", clock=lambda: now) as r, Table("s", log, "warm", clock=lambda: now) as s:
        for feeder in (r, s):
            feeder.insert_many({"id": [1, 2, 3], "b": [1.0, 2.0, 9.0]})
        now += SECOND
        r.delete(1)
    now += SECOND
    for table in pair.tables:
        log.append(changes_topic(table.name), clock_row(table.columns, now))
    shard = PairShard(pair)
    shard.take(log.read([QUERIES, *(changes_topic(table.name) for table in pair.tables)]))
    PairShard(pair).restore(shard.snapshot(), [])


def _keep() -> None:
    """Rows whose keys rise, wander and stand still, with room for a few."""
    rng, line = np.random.default_rng(0), np.arange(300)
    for keys in (line, rng.integers(-2, 3, 300).cumsum(), rng.integers(0, 5, 300)):
        keeper = Keeper(10)
        values = np.stack([keys, keys - rng.integers(0, 4, 300)], axis=1).ravel()
        keeper.take(np.arange(600), np.arange(600) % 2, values)
        Keeper.load(*keeper.state())
        lookups = Lookups.bounded(10)
        lookups.take(keys)
        Lookups.load(*lookups.state())


def _say(log: Log, text: str) -> None:
    StatementClient(log).register(text)


if __name__ == "__main__":
    warm()
