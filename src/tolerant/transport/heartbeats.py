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
from tolerant.transport.log import HEARTBEATS, Log
from tolerant.transport.records import records_of
from tolerant.transport.rows import compacted

INTERVAL = SECOND
"""Microseconds between two heartbeats."""

LEASE = 10 * SECOND
"""A pipeline that has processed nothing for longer is out of service: what it published last is no longer current."""


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

    `alive`: the process runs, but it is starting or behind. `stopped`: it was stopped in order.
    """

    pipeline: str
    since: int
    alive: bool = False
    stopped: bool = False


def heartbeat_batch(heartbeats: Iterable[tuple[Heartbeat, int]]) -> pa.RecordBatch:
    """Heartbeats with their versions, as rows of their topic."""
    return compacted([(beat.pipeline, version, json.dumps(asdict(beat)).encode()) for beat, version in heartbeats])


def latest_heartbeat(log: Log, pipeline: str) -> Heartbeat | None:
    """The newest heartbeat of a pipeline; None if there is none, or none that can be read."""
    record = log.latest(HEARTBEATS, pipeline)
    if record is None:
        return None
    try:
        body = json.loads(record.body)
        return Heartbeat(pipeline, int(body["at"]), int(body["processed"]), bool(body["stopped"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def pipelines(log: Log) -> list[str]:
    """The pipelines that have a heartbeat, dead ones included."""
    return sorted({key for key, _, body in records_of(log, HEARTBEATS) if body is not None})


def alive(log: Log, pipeline: str, now: int) -> bool:
    """Whether the process of a pipeline runs at `now`, by the wall clock, however far behind it is."""
    heartbeat = latest_heartbeat(log, pipeline)
    return heartbeat is not None and _is_alive(heartbeat, now)


def _is_alive(heartbeat: Heartbeat, now: int) -> bool:
    return not heartbeat.stopped and now - heartbeat.at <= LEASE


def outage(log: Log, pipeline: str, now: int) -> Outage | None:
    """Why the answers of a pipeline are not current at `now`, by the wall clock; None: they are.

    A log without a heartbeat is one that `tolerant run` has never served: its shards are driven by hand.
    """
    heartbeat = latest_heartbeat(log, pipeline)
    if heartbeat is None:
        return None
    runs = _is_alive(heartbeat, now)
    if runs and now - heartbeat.processed <= LEASE:
        return None
    return Outage(pipeline, heartbeat.processed, runs, heartbeat.stopped)
