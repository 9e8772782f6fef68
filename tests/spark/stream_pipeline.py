"""A pipeline of one shard without Spark: a log in memory, sources' cores and a shard, moved by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from tolerant.edge.source_core import SourceCore
from tolerant.kinds.bounded.shard import BoundedShard
from tolerant.queries import Answer
from tolerant.sql import CreateStream, encode, parse
from tolerant.streams import SECOND, Stream
from tolerant.transport.memory import MemoryLog
from tolerant.transport.rows import STATEMENTS, clock_batch, read_grants, unpack

START = 1_000_000 * SECOND
TRAFFIC = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)"
CHECKPOINT = "checkpoint"


def key(host: str, kind: str = "in") -> str:
    return json.dumps([host, kind], separators=(",", ":"))


class Rig:
    """Time starts at START; `tick` moves it on by a second, delivers grants, and lets the shard read."""

    def __init__(self, *statements: str, stream: str = TRAFFIC) -> None:
        self.log = MemoryLog()
        created = parse(stream)
        assert isinstance(created, CreateStream)
        self.stream: Stream = created.stream
        self.now = START
        self.shard: Any = BoundedShard(self.stream, 0, 1, CHECKPOINT)
        self.sources: dict[str, SourceCore] = {}
        self.position = 0
        self.granted: dict[str, int] = {}
        for text in (stream, *statements):
            self.say(text)

    def say(self, text: str) -> None:
        statement = parse(text)
        row = {"kind": statement.kind, "key": statement.about, "request": text, "text": text, "body": encode(statement)}
        self.log.append("queries", pa.RecordBatch.from_pylist([row], STATEMENTS))

    def start(self, name: str, epoch: int = 1) -> SourceCore:
        self.sources[name] = SourceCore(name, epoch, self.stream.options)
        self.granted[name] = 0
        return self.sources[name]

    def set(self, source: str, **values: float) -> None:
        core = self.sources[source]
        handles = core.register([key(host) for host in values])
        core.offer(handles, np.array(list(values.values()), np.float64), self.now)
        self.flush(source)

    def flush(self, source: str) -> None:
        batch = self.sources[source].drain()
        if batch is not None:
            self.log.append(f"updates.{self.stream.name}", batch)

    def clock(self, at: int | None = None, epoch: int = 1, checkpoint: str = CHECKPOINT) -> None:
        row = clock_batch(self.now if at is None else at, epoch, checkpoint)
        self.log.append(f"updates.{self.stream.name}", row)

    def read(self) -> None:
        topics = ["queries", f"updates.{self.stream.name}"]
        entries = [entry for topic in topics for entry in self.log.read(topic, self.position)]
        entries.sort(key=lambda entry: entry.position)
        if entries:
            self.position = entries[-1].position
            outputs = self.shard.apply(entries)
            self.log.append_packed([(output.topic, output.payload) for output in outputs])

    def deliver(self) -> None:
        for name, core in self.sources.items():
            for entry in self.log.read(f"grants.{self.stream.name}", self.granted[name]):
                self.granted[name] = entry.position
                core.grant(read_grants(unpack(entry.payload)), self.now)
            core.advance(self.now)
            self.flush(name)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += SECOND
            self.deliver()
            self.clock()
            self.read()

    def answers(self, query: str, group: str = "") -> list[Answer]:
        found = [
            Answer(**row) for entry in self.log.read(f"answers.{query}") for row in unpack(entry.payload).to_pylist()
        ]
        return [answer for answer in found if answer.group == group]

    def rows(self, topic: str) -> list[dict]:
        return [row for entry in self.log.read(topic) for row in unpack(entry.payload).to_pylist()]

    def summary(self) -> dict:
        record = self.log.latest(f"status.{self.stream.name}", "summary/0")
        assert record is not None
        return json.loads(record.body)
