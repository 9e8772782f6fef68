"""Heartbeats of pipelines: how whoever reads a log tells a live pipeline from a dead one.

`tolerant run` writes a row per pipeline and second to the compacted topic `heartbeats`: key = the pipeline's name,
version = (its epoch, a counter), so that a process that was taken over cannot overwrite its successor.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

from tolerant.streams import SECOND
from tolerant.transport.log import Log
from tolerant.transport.records import records_of
from tolerant.transport.rows import compacted
from tolerant.transport.topics import HEARTBEATS

INTERVAL = SECOND
"""Microseconds between two heartbeats."""

LEASE = 10 * SECOND
"""A pipeline that has processed nothing for longer is out of service: what it published last is no longer current."""


_LATEST = 250_000_000_000 * SECOND  # in the year 9892


@dataclass(frozen=True)
class Heartbeat:
    """What a pipeline says of itself; times are the wall clock's, in microseconds.

    `processed`: everything that was in the log by then has been processed and published; 0: nothing ever.
    """

    pipeline: str
    at: int
    processed: int = 0
    stopped: bool = False


@dataclass(frozen=True)
class Outage:
    """Why the answers of a pipeline are not current: nothing that came after `since` has been processed.

    `alive`: the process runs, but it is starting or behind. `stopped`: it was stopped in order. `dropped`: the query
    that was asked for has been dropped.
    """

    pipeline: str
    since: int
    alive: bool = False
    stopped: bool = False
    dropped: bool = False


def heartbeat_batch(heartbeats: Iterable[tuple[Heartbeat, int]]) -> pa.RecordBatch:
    """Heartbeats with their versions, as rows of their topic."""
    return compacted([(beat.pipeline, version, json.dumps(asdict(beat)).encode()) for beat, version in heartbeats])


def latest_heartbeat(log: Log, pipeline: str) -> Heartbeat | None:
    """The newest heartbeat of a pipeline; None if there is none. One that cannot be read is as old as can be: it must
    not make a dead pipeline look alive.
    """
    record = log.latest(HEARTBEATS, pipeline)
    if record is None:
        return None
    try:
        body = json.loads(record.body)
        at, processed = int(body["at"]), int(body["processed"])
        if not (0 <= at < _LATEST and 0 <= processed < _LATEST):
            raise ValueError("a time that no calendar has")
        return Heartbeat(pipeline, at, processed, bool(body["stopped"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Heartbeat(pipeline, 0)


def pipelines(log: Log) -> list[str]:
    """The pipelines that have a heartbeat, dead ones included."""
    return sorted({key for key, _, body in records_of(log, HEARTBEATS) if body is not None})


def alive(log: Log, pipeline: str, now: int) -> bool:
    """Whether the process of a pipeline runs at `now`, by the wall clock, however far behind it is."""
    heartbeat = latest_heartbeat(log, pipeline)
    return heartbeat is not None and _is_alive(heartbeat, now)


def _is_alive(heartbeat: Heartbeat, now: int) -> bool:
    return not heartbeat.stopped and _is_recent(heartbeat.at, now)


def _is_recent(at: int, now: int) -> bool:
    """Whether a time is at most a lease away; one that is further ahead is of a clock that has been set back since."""
    return abs(now - at) <= LEASE


def outage(log: Log, pipeline: str, now: int) -> Outage | None:
    """Why the answers of a pipeline are not current at `now`, by the wall clock; None: they are.

    A log without a heartbeat is one that `tolerant run` has never served: its shards are driven by hand.
    """
    heartbeat = latest_heartbeat(log, pipeline)
    if heartbeat is None:
        return None
    runs = _is_alive(heartbeat, now)
    if runs and _is_recent(heartbeat.processed, now):
        return None
    return Outage(pipeline, heartbeat.processed, runs, heartbeat.stopped)
