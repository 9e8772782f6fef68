"""Explains a missing reply: no pipeline runs on the log, or one does and is slow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa

from tolerant.streams import SECOND
from tolerant.transport import Log, rows
from tolerant.transport.changes import CLOCK
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import alive, pipelines
from tolerant.transport.records import read_json
from tolerant.transport.topics import TopicKind

_WITH_CLOCK_ROWS = (TopicKind.UPDATES, TopicKind.CHANGES)
_ENTRIES = 100  # that are read at a time


def why_no_reply(log: Log, position: int, timeout: float) -> str:
    """Explain why what was appended at `position` has had no reply in `timeout` seconds.

    A running pipeline keeps appending clock rows, so one after the position tells a slow pipeline from none.
    """
    if _is_running(log, position):
        return (
            f"no reply in {timeout:g} s, though a pipeline runs: it is slow, or busy with what came before; what was "
            "sent stands in the log and takes effect when the pipeline gets there"
        )
    reached = _newest_watermark(log)
    since = "has run on this log yet" if reached is None else f"since {_moment(reached)}"
    return (
        f"no reply in {timeout:g} s: no pipeline {since}; what was sent stands in the log and takes effect when "
        "`tolerant run` is started on it"
    )


def _is_running(log: Log, position: int) -> bool:
    """Return whether a pipeline is alive by its heartbeat, or a clock row follows the position."""
    if any(alive(log, pipeline, wall_clock()) for pipeline in pipelines(log)):
        return True
    topics = [topic for topic in log.topics() if TopicKind.of(topic) in _WITH_CLOCK_ROWS]
    while entries := log.read(topics, position, limit=_ENTRIES):
        position = entries[-1].position
        if any(_has_clock(entry.payload) for entry in entries):
            return True
    return False


def _has_clock(payload: bytes) -> bool:
    try:
        return CLOCK in rows.unpack(payload).column("kind").cast(pa.string()).to_pylist()
    except (ValueError, KeyError, pa.ArrowException):
        return False  # a dead letter to the pipeline


def _newest_watermark(log: Log) -> int | None:
    """Return the newest watermark of any pipeline; None: there is none."""
    return max(_watermarks(log), default=None)


def _watermarks(log: Log) -> Iterator[int]:
    for topic in log.topics():
        record = log.latest(topic, "summary/0") if TopicKind.STATUS.matches(topic) else None
        summary = read_json(record.body, f"what stands in {topic}") if record is not None else None
        if isinstance(summary, dict) and isinstance(summary.get("watermark"), int):
            yield summary["watermark"]


def _moment(at: int) -> str:
    return f"{datetime.fromtimestamp(at / SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"
