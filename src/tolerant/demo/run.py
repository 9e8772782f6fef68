"""The demo itself: statements, source processes and a pipeline on one log, played through in trace time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tolerant.client import Client, StatementClient
from tolerant.client.answer_listener import current_answers
from tolerant.demo.audit import Audit, Series, audit
from tolerant.demo.pipeline import log_uri
from tolerant.demo.sources import BEGIN, TICK, TraceClock, time_of
from tolerant.demo.sums import BackgroundComparison, Cost, Growth, aggregates, sent
from tolerant.demo.traffic import STREAM, Shape, generate, statements
from tolerant.demo.view import Moment
from tolerant.queries import Aggregate, Answer
from tolerant.sql import CreateQuery, CreateStream
from tolerant.traces import Trace
from tolerant.transport import Log, open_log
from tolerant.transport.topics import status_topic

AHEAD = 3
"""Boundaries that the sources may be ahead of the pipeline, so that grants reach them while they are of use."""
_LOOK = 0.02  # seconds between two looks at the pipeline


class Pipeline(Protocol):
    """Whatever runs the stream: Spark in the demo, a `LocalPipeline` in its tests."""

    def check(self) -> None:
        """Raise what went wrong, if anything has."""
        ...

    def stop(self) -> None:
        """End cleanly."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What the demo saw. `samples`: (event time, messages so far, both ways). `first_answer`, `seconds`: wall time."""

    shape: Shape
    trace: Trace
    queries: dict[Series, Aggregate]
    answers: tuple[Answer, ...]
    costs: tuple[Cost, ...]
    growth: Mapping[str, Growth]
    audit: Audit
    times: NDArray[np.int64]
    samples: tuple[tuple[int, int], ...]
    boundaries: int
    first_answer: float
    seconds: float


def perform(
    folder: Path,
    shape: Shape,
    start: Callable[[Log], Pipeline],
    *,
    began: float,
    show: Callable[[Moment], None] = lambda moment: None,
) -> Outcome:
    """Play the whole trace and check every promise.

    `start(log)` gives the pipeline, running or starting; `began`: wall time, seconds, that answers are timed from.
    The log stays in `folder`, to be looked at.
    """
    log = open_log(log_uri(folder), create=True)
    conductor = TraceClock(log, shape)
    stage = _Stage(log, shape, conductor, began, show)
    create, queries = statements(shape)
    stage.say(create)
    conductor.start()
    pipeline = start(log)
    try:
        stage.play(pipeline, queries)
        conductor.stop()
        return stage.outcome(create + queries)
    finally:
        conductor.stop()
        pipeline.stop()
        log.close()


class _Stage:
    """Where it is played: the log, and what has been seen so far."""

    def __init__(
        self, log: Log, shape: Shape, conductor: TraceClock, began: float, show: Callable[[Moment], None]
    ) -> None:
        self._log, self._shape, self._conductor, self._began, self._show = log, shape, conductor, began, show
        self._trace = generate(shape)
        self._changed = np.cumsum((np.diff(self._trace.values, axis=0) != 0).sum(axis=1))
        self._moment = Moment(of=(shape.ticks - 1) // shape.period)
        self._client = Client(log)
        self._position = log.end()
        self._samples: list[tuple[int, int]] = []
        self._first_answer: float | None = None
        self._summary: dict[str, int] = {}
        self._comparison: BackgroundComparison | None = None

    def say(self, text: str) -> None:
        """Append the statements of a text."""
        StatementClient(self._log).register(text)

    def play(self, pipeline: Pipeline, queries: str) -> None:
        """The sources' first values, then the queries, then tick after tick, never far ahead of the pipeline."""
        self._moment.items = self._conductor.ready()
        self._conductor.play_to(0)
        self.say(queries)
        self._moment.stage = "starting Spark"
        last, period = self._shape.ticks - 1, self._shape.period
        step = max(1, period // 2)  # sources take grants after each
        for tick in range(step, last + step, step):
            clock = self._conductor.play_to(min(tick, last))
            self._wait(pipeline, clock - AHEAD * period * TICK)
        # Past the last tick by more than the latency allowance, so that its answers are published, and past the end of
        # an adjustment period, so that the pipeline publishes its counts.
        end = time_of(last + 2 * period)
        for _ in range(2):  # a clock row that is far ahead of the last one waits for one that bears it out
            self._conductor.clock(end)
        self._wait(pipeline, time_of(last + period))

    def _wait(self, pipeline: Pipeline, watermark: int) -> None:
        while True:
            pipeline.check()
            self._look()
            if self._summary.get("watermark", 0) >= watermark or (not self._summary and watermark < BEGIN):
                return
            time.sleep(_LOOK)

    def _look(self) -> None:
        record = self._log.latest(status_topic(STREAM), "summary/0")
        moment = self._moment
        if record is not None:
            summary = json.loads(record.body)
            if summary["watermark"] != self._summary.get("watermark"):
                self._summary = summary
                self._count()
        if self._first_answer is None and current_answers(self._log, "inbound"):
            self._first_answer = time.time() - self._began
            moment.stage, moment.first_answer = "running", self._first_answer
            self._comparison = BackgroundComparison(self._shape)  # no sooner: Spark needs the processors until now
        moment.elapsed = time.time() - self._began
        self._show(moment)

    def _count(self) -> None:
        summary, moment = self._summary, self._moment
        moment.messages = sum(
            summary[kind] for kind in ("update", "hello", "heartbeat", "ack", "gone", "form_request", "grants", "forms")
        )
        watermark = summary["watermark"]
        self._samples.append((watermark, moment.messages))
        ticks = min(max((watermark - BEGIN) // TICK, 0), self._shape.ticks - 1)
        moment.boundaries = int(ticks // self._shape.period)
        moment.readings = int(self._changed[ticks - 1]) if ticks else 0
        for name in ("logins", "inbound", "syns", "lookups", "outside", "by_host"):
            for answer in current_answers(self._log, name):
                (moment.hosts if name == "by_host" else moment.answers)[answer.group or name] = answer

    def outcome(self, text: str) -> Outcome:
        """What was seen, checked and counted."""
        from tolerant.sql import parse_many

        statements = parse_many(text)
        stream = next(statement.stream for statement in statements if isinstance(statement, CreateStream))
        created = [statement for statement in statements if isinstance(statement, CreateQuery)]
        queries = aggregates(created, stream, self._trace.items)
        answers = tuple(answer for query in created for answer in self._client.history(query.name))
        times = np.array([time_of(tick) for tick in range(self._shape.ticks)], np.int64)
        assert self._first_answer is not None
        assert self._comparison is not None
        comparison = self._comparison.result()
        costs = (*comparison.costs, sent(self._log, STREAM, self._summary["grants"], self._summary["forms"]))
        return Outcome(
            shape=self._shape,
            trace=self._trace,
            queries=queries,
            answers=answers,
            costs=costs,
            growth=comparison.growth,
            audit=audit(queries, answers, self._trace, times),
            times=times,
            samples=tuple(self._samples),
            boundaries=self._summary["boundaries"],
            first_answer=self._first_answer,
            seconds=time.time() - self._began,
        )
