"""Many subscriptions resumed from positions of their own: in one call, against one by one.

A table changes while subscriptions to ranges of it, for rows and for a SUM, stand; each has kept a position from
another moment. The log is in memory and the pipeline is the shard itself, so that what is timed is the client alone.
Both ways must hear the same.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from side_by_side import Figure, arguments, report
from tolerant.client import Client, Position, StatementClient, Subscription, load_catalogue
from tolerant.edge import Table
from tolerant.kinds.tables.shard import TableShard
from tolerant.sql import CreateTable, Subscribe, subscription_row
from tolerant.transport import MemoryLog
from tolerant.transport.changes import clock_row

STATEMENTS = """
CREATE TABLE stock (id BIGINT, x DOUBLE) KEY (id);
CREATE QUERY area(low, high) AS SELECT * FROM stock WHERE x BETWEEN low AND high;
CREATE QUERY total(low, high) AS SELECT SUM(x) FROM stock WHERE x BETWEEN low AND high;
"""
Heard = list[list[object]]
KEYS, SECONDS, CHANGES = 500, 100, 20


def main() -> None:
    quick = arguments(__doc__ or "").quick
    sizes = (50, 100, 200) if quick else (200, 600, 2000)
    figures = []
    for query in ("area", "total"):
        small = history(query, 5)
        resume_together(small[0], query, *small[1:])  # compiled code is loaded before anything is timed
        for size in sizes:
            log, ranges, positions = history(query, size)
            together, changes = timed(resume_together, log, query, ranges, positions)
            alone, expected = timed(resume_alone, log, query, ranges, positions)
            assert changes == expected, "both ways must hear the same"
            name = f"{query}, {size:,} subscriptions"
            figures += [
                Figure(f"{name}: one by one", alone, "s"),
                Figure(f"{name}: in one call", together, "s"),
                Figure(f"{name}: times as fast", alone / together, "×"),
            ]
    report("resume-many", {"keys": KEYS, "seconds": SECONDS, "changes per second": CHANGES}, figures)


def history(query: str, size: int) -> tuple[MemoryLog, list[tuple[float, float]], list[Position]]:
    """A log with the subscriptions and the changes since, their ranges, and a position for each."""
    chance, log, now = random.Random(1), MemoryLog(), 1_000_000_000
    StatementClient(log).register(STATEMENTS)
    definition = next(
        found for found in StatementClient(MemoryLog()).parse(STATEMENTS) if isinstance(found, CreateTable)
    )
    ranges = [(float(number), number + chance.uniform(0.0, 5.0)) for number in range(size)]
    catalogue = load_catalogue(log)
    template, tables = catalogue.queries[query], catalogue.tables_of(catalogue.queries[query])
    for ends in ranges:
        statement = Subscribe(query, ends)
        log.append("subscriptions.stock", subscription_row(statement, template, tables))
        StatementClient(log).send(statement)
    shard, position, marks = TableShard(definition), 0, []
    table = Table(definition, log, "shop", clock=lambda: now)
    for _ in range(SECONDS):
        for _ in range(CHANGES):
            table.update(id=chance.randrange(KEYS), x=chance.uniform(0.0, size))
        table.flush()
        now += 1_000_000
        log.append("changes.stock", clock_row(definition.columns, now, 1, "checkpoint"))
        entries = log.read(["queries", "changes.stock", "subscriptions.stock"], position)
        position = entries[-1].position
        outputs = shard.apply(entries)
        log.append_packed([(output.topic, output.payload) for output in outputs])
        marks.append(Position(log.end(), mark=shard._steps))
    return log, ranges, [chance.choice(marks) for _ in ranges]


def resume_together(log: MemoryLog, query: str, ranges: list[tuple[float, float]], positions: list[Position]) -> Heard:
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
    return [heard(one) for one in Client(log).subscriptions(query, positions=positions, low=lows, high=highs)]


def resume_alone(log: MemoryLog, query: str, ranges: list[tuple[float, float]], positions: list[Position]) -> Heard:
    client = Client(log)
    every = [
        client.subscribe(query, position=position, low=low, high=high)
        for position, (low, high) in zip(positions, ranges, strict=True)
    ]
    return [heard(one) for one in every]


def heard(subscription: Subscription) -> list[object]:
    while subscription.poll():
        pass
    return [change.position for change in subscription.ready()]


def timed(work: Callable[..., Heard], *arguments: object) -> tuple[float, Heard]:
    begun = time.perf_counter()
    changes = work(*arguments)
    return time.perf_counter() - begun, changes


if __name__ == "__main__":
    main()
