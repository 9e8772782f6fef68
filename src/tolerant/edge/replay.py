"""`tolerant replay`: a recorded trace, offered as if it happened now, or in trace time as fast as the pipeline
follows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from tolerant.edge.keys import item_of_name
from tolerant.edge.source import Source
from tolerant.traces import Trace
from tolerant.transport import Log, open_log
from tolerant.transport.common import wall_clock
from tolerant.transport.log import START
from tolerant.transport.records import skipping
from tolerant.transport.rows import NO_TIME, clock_batch, unpack

AHEAD = 2
"""In trace time: so many boundaries may be replayed before the pipeline has passed the one that it is waited for."""

_LOOK = 0.02  # seconds between two looks at the pipeline's status
_BACK = 256  # entries of the log looked through at first for the newest clock row


@dataclass(frozen=True)
class Replayed:
    """What a replay did: ticks and values offered, event times of the first and the last tick, and whether a pipeline
    followed.
    """

    ticks: int
    values: int
    start: int
    end: int
    followed: bool


def replay(
    path: str | Path,
    stream: str,
    log: str | Log,
    speed: float | Literal["max"] = 1.0,
    seconds: float | None = None,
    *,
    name: str | None = None,
    patience: float = 60.0,
    each: Callable[[int, int], None] | None = None,
    waiting: Callable[[float], None] | None = None,
) -> Replayed:
    """Offer the values of a trace file (see `Trace.read`) to `stream`, a tick of the file each tick of the stream.

    speed: ticks come so many times as fast as the stream's `tick` says, stamped with the wall clock; "max": in trace
        time, with clock rows of its own (the pipeline must run with `--clock log`), as fast as the pipeline follows.
        Then grants reach the filters at most a few boundaries late, as they would in real life; where no pipeline
        follows for `patience` seconds, the rest is replayed without waiting.
    seconds: end after so many seconds of the wall clock.
    each: called with (ticks done, ticks in all).
    waiting: called again and again while the pipeline does not get on, with the seconds since it last did.

    An item of the file named `web-1/in` or `["web-1","in"]` is the item ("web-1", "in") of a stream with two key
    columns.

    Raises:
        ValueError: the file is not a trace, or an item does not fit the stream's key.
    """
    if speed != "max" and not (isinstance(speed, int | float) and 0 < speed < float("inf")):
        raise ValueError(f"speed must be a positive number or 'max', got {speed!r}")
    trace = Trace.read(path)
    opened = open_log(log) if isinstance(log, str) else log
    deadline = time.monotonic() + seconds if seconds is not None else float("inf")
    try:
        run = _in_trace_time if speed == "max" else _in_real_time
        name = name or f"replay/{Path(path).stem}"
        job = _Job(trace, stream, opened, name, speed, deadline, patience)
        job.each, job.waiting = each or job.each, waiting or job.waiting
        return run(job)
    finally:
        if isinstance(log, str):
            opened.close()


@dataclass
class _Job:
    trace: Trace
    stream: str
    log: Log
    name: str
    speed: float | str
    deadline: float
    patience: float
    each: Callable[[int, int], None] = lambda done, total: None
    waiting: Callable[[float], None] = lambda seconds: None
    values: int = 0

    def offer(self, source: Source, handles: np.ndarray, tick: int) -> None:
        row = self.trace.values[tick]
        present = ~np.isnan(row)
        source.set_many(handles[present], row[present])
        self.values += int(present.sum())
        self.each(tick + 1, self.trace.ticks)

    def handles(self, source: Source) -> np.ndarray:
        texts = [item_of_name(name, source.stream) for name in self.trace.items]
        if len(set(texts)) < len(texts):
            twice = next(text for k, text in enumerate(texts) if text in texts[:k])
            raise ValueError(f"two columns of the trace name the same item {twice!r}")
        return source.register(texts)

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.deadline


def _in_real_time(job: _Job) -> Replayed:
    with Source(job.stream, job.log, job.name) as source:
        handles = job.handles(source)
        interval = source.stream.options.tick / 1e6 / float(job.speed)
        begun, start, tick = time.monotonic(), wall_clock(), 0
        while tick < job.trace.ticks and not job.over:
            time.sleep(max(0.0, begun + tick * interval - time.monotonic()))
            job.offer(source, handles, tick)
            tick += 1
    return Replayed(tick, job.values, start, wall_clock(), followed=True)


def _in_trace_time(job: _Job) -> Replayed:
    now = [0]
    with Source(job.stream, job.log, job.name, clock=lambda: now[0]) as source:
        handles = job.handles(source)
        options = source.stream.options
        pace = _Pace(job)
        # On a boundary, after everything that the log's clock has passed: time never goes back.
        begin = max(wall_clock(), newest_clock(job.log, job.stream) + 1)
        start = (begin // options.boundary + 1) * options.boundary
        tick = 0
        while tick < job.trace.ticks and not job.over:
            now[0] = start + tick * options.tick
            job.offer(source, handles, tick)
            # What is due before the next tick is said before the clock passes it.
            source.advance(now[0])
            _pass(job, source, now, now[0] + options.tick - 1)
            job.log.append(f"updates.{job.stream}", clock_batch(now[0]))
            if tick % options.period == 0:
                pace.wait(now[0] - AHEAD * options.boundary - options.latency)
            tick += 1
        end = now[0]
        # The answers up to the last tick come out when the clock has passed it by the latency.
        _pass(job, source, now, end + options.latency + options.boundary)
        job.log.append(f"updates.{job.stream}", clock_batch(now[0]))
        pace.wait(end - options.boundary)
    return Replayed(tick, job.values, start, end, pace.followed)


def _pass(job: _Job, source: Source, now: list[int], until: int) -> None:
    """Let trace time pass up to `until`, stopping wherever the source has something to do."""
    while now[0] < until:
        due = source.due()
        now[0] = until if due is None else max(now[0] + 1, min(due, until))
        source.advance(now[0])


class _Pace:
    """Waits for the pipeline, as long as there is one that gets on."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self.followed = True

    def wait(self, horizon: int) -> None:
        """Return when the pipeline's horizon has reached `horizon`, or it has not moved for the job's patience."""
        seen, moved = self._horizon(), time.monotonic()
        while self.followed and seen < horizon and not self._job.over:
            time.sleep(_LOOK)
            newest = self._horizon()
            if newest > seen:
                seen, moved = newest, time.monotonic()
            elif time.monotonic() - moved > self._job.patience:
                self.followed = False
            self._job.waiting(time.monotonic() - moved)

    def _horizon(self) -> int:
        record = self._job.log.latest(f"status.{self._job.stream}", "summary/0")
        with skipping("the status of the stream"):
            return NO_TIME if record is None else int(json.loads(record.body)["horizon"])
        return NO_TIME


def newest_clock(log: Log, stream: str) -> int:
    """The greatest time of the newest clock row that stands in the stream's topic, looked for from its end; or
    NO_TIME.
    """
    topic, end, span = f"updates.{stream}", log.end(), _BACK
    while True:
        entries = log.read(topic, max(START, end - span))
        for entry in reversed(entries):
            times = _clock_times(entry.payload)
            if times:
                return max(times)
        if span >= end:
            return NO_TIME
        span *= 4


def _clock_times(payload: bytes) -> list[int]:
    try:
        batch = unpack(payload)
        rows = zip(batch.column("kind").to_pylist(), batch.column("at").to_pylist(), strict=True)
        return [at for kind, at in rows if kind == "clock" and at is not None and at != NO_TIME]
    except (ValueError, KeyError):
        return []
