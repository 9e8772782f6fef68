"""What it costs that a source vouches for filters that change by themselves, and what the first `set` costs.

    python benchmarks/lease_heartbeats.py [--quick]

Plays the demo's traffic through sources and one shard, a tick per second, the log read every tick; with and without the
heartbeats of `SourceCore._owes_a_row`, for several sizes of sources.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from tolerant.client import StatementClient
from tolerant.demo.traffic import Shape, generate, statements
from tolerant.edge import Source
from tolerant.edge.source_core import SourceCore
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.sql import CreateStream, parse_many
from tolerant.streams import SECOND
from tolerant.transport import MemoryLog
from tolerant.transport.rows import clock_batch, read_grants, unpack

START = 1_000_000 * SECOND


def played(ticks: int, items_per_source: int, moves_from: float, vouches: bool) -> dict[str, float]:
    """Messages by kind, and the share of answers that were settled after the first tenth of the time."""
    shape = Shape(ticks=ticks)
    trace, log = generate(shape), MemoryLog()
    for text in statements(shape):
        for statement in parse_many(text):
            StatementClient(log).send(statement)
            if isinstance(statement, CreateStream):
                stream = statement.stream
    busy = np.flatnonzero(np.diff(trace.values, axis=0).any(axis=0))
    shard = BoundedShard(stream, 0, 1, "c")
    if not vouches:
        shard._engine.liveness.record_lived = lambda items: items[:0]
    parts = [busy[begin : begin + items_per_source] for begin in range(0, len(busy), items_per_source)]
    cores = [SourceCore(f"s{number}", 1, stream.options, moves_from=moves_from) for number in range(len(parts))]
    position = granted = 0
    settled = answers = 0
    for tick in range(ticks):
        now = START + tick * SECOND
        grants = []
        for entry in log.read(f"grants.{stream.name}", granted):
            batch = unpack(entry.payload)
            grants += read_grants(batch.filter(batch.column("body").is_valid()))
            granted = entry.position
        for core, part in zip(cores, parts, strict=True):
            if not vouches:
                core._owes_a_row = lambda: False
            core.offer(core.register([trace.items[item] for item in part]), trace.values[tick, part], now)
            core.grant(grants, now + 100_000)
            core.advance(now + 100_000)
            rows = core.drain()
            if rows is not None:
                log.append(f"updates.{stream.name}", rows)
        for offset in (200_000, 600_000, 999_999):
            log.append(f"updates.{stream.name}", clock_batch(now + offset, 1, "c"))
        entries = log.read((f"updates.{stream.name}", "queries"), position)
        position = entries[-1].position
        outputs = shard.apply(entries)
        for output in outputs:
            if output.topic.startswith("answers.") and tick > ticks // 10:
                flags = unpack(output.payload).select(["stale", "settling"]).to_pylist()
                answers += len(flags)
                settled += sum(not (one["stale"] or one["settling"]) for one in flags)
        log.append_packed([(output.topic, output.payload) for output in outputs])
    counters = shard._engine.counters
    found = {kind: getattr(counters, kind) for kind in ("update", "heartbeat", "ack", "hello", "grants")}
    return found | {"items": len(busy), "settled": settled / max(answers, 1)}


def first_sets() -> tuple[float, float]:
    """Seconds that the first and the second `set` of a source take."""
    log = MemoryLog()
    for statement in parse_many("CREATE STREAM s (k STRING, v DOUBLE) KEY (k)"):
        StatementClient(log).send(statement)
    took = []
    with Source("s", log, "here") as source:
        for value in (1.0, 2.0):
            began = time.perf_counter()
            source.set("x", value)
            took.append(time.perf_counter() - began)
    return took[0], took[1]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    ticks = 200 if parser.parse_args().quick else 1_000
    first, second = first_sets()
    print(f"first set {1e3 * first:.2f} ms, second {1e3 * second:.2f} ms: {first / second:.1f} times")
    print(f"{'items per source':>16} {'':>28} {'updates':>8} {'beats':>7} {'all':>7} {'settled':>8}")
    for size in (1, 10, 40):  # of 100 that change at all
        for label, moves_from, vouches in (
            ("extrapolates to the lease", 0.0, False),
            ("vouches", 0.0, True),
            ("vouches, moves if it pays", 1.0, True),
        ):
            found = played(ticks, size, moves_from, vouches)
            every = sum(found[kind] for kind in ("update", "heartbeat", "ack", "hello", "grants"))
            print(
                f"{size:>16} {label:>28} {found['update']:>8} {found['beat']:>7} {every:>7} {found['settled']:>8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
