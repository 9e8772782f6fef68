"""A local pipeline of a stream that is fed by the cores of sources."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tolerant.edge.source_core import SourceCore
from tolerant.queries import Answer
from tolerant.sql import parse
from tolerant.streams import SECOND, Stream
from tolerant.testing import LocalPipeline
from tolerant.transport.rows import clock_batch, read_grants, unpack

START = 1_000_000 * SECOND
TRAFFIC = "CREATE STREAM traffic (host STRING, kind STRING, rate DOUBLE) KEY (host, kind)"


def key(host: str, kind: str = "in") -> str:
    return json.dumps([host, kind], separators=(",", ":"))


class StreamPipeline(LocalPipeline):
    """`tick` also gives the sources their grants."""

    relation: Stream
    shard: Any

    def __init__(self, *statements: str, stream: str = TRAFFIC) -> None:
        self.sources: dict[str, SourceCore] = {}
        self.granted: dict[str, int] = {}
        super().__init__([parse(text) for text in (stream, *statements)], now=START)

    @property
    def stream(self) -> Stream:
        return self.relation

    def start_source(self, name: str, epoch: int = 1) -> SourceCore:
        self.sources[name] = SourceCore(name, epoch, self.stream.options)
        self.granted[name] = 0
        return self.sources[name]

    def set(self, source: str, **values: float) -> None:
        core = self.sources[source]
        handles = core.register([key(host) for host in values])
        core.offer(handles, np.array(list(values.values()), np.float64), self.now)
        self.append_updates(source)

    def append_updates(self, source: str) -> None:
        batch = self.sources[source].drain()
        if batch is not None:
            self.log.append(f"updates.{self.stream.name}", batch)

    def clock(self, at: int | None = None, epoch: int = 1, checkpoint: str = "checkpoint") -> None:
        row = clock_batch(self.now if at is None else at, epoch, checkpoint)
        self.log.append(f"updates.{self.stream.name}", row)

    def advance(self) -> None:
        for name, core in self.sources.items():
            for entry in self.log.read(f"grants.{self.stream.name}", self.granted[name]):
                self.granted[name] = entry.position
                core.grant(read_grants(unpack(entry.payload)), self.now)
            core.advance(self.now)
            self.append_updates(name)

    def answers(self, query: str, group: str = "") -> list[Answer]:
        answers = [Answer(**row) for row in self.rows(f"answers.{query}")]
        return [answer for answer in answers if answer.group == group]

    def summary(self) -> dict:
        record = self.log.latest(f"status.{self.stream.name}", "summary/0")
        assert record is not None
        return json.loads(record.body)
