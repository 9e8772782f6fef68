"""Whether the pipeline of a query is in service, so that an old answer is not taken for a current one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tolerant.client.statements import standing
from tolerant.queries import Answer
from tolerant.sql import home_of
from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import Outage as Outage
from tolerant.transport.heartbeats import outage

CHECK = 0.5
"""Seconds between two looks at a pipeline's heartbeat."""


def pipeline_outage(log: Log, pipeline: str) -> Outage | None:
    """Why the answers of a pipeline are not current now; None: they are, or it has never run."""
    return outage(log, pipeline, wall_clock())


def query_outage(log: Log, query: str) -> Outage | None:
    """`pipeline_outage` of the pipeline that answers a query; None for a query that does not exist."""
    definition = standing(log).queries.get(query)
    return pipeline_outage(log, home_of(definition.select)) if definition else None


def mark_outage(answers: Iterable[Answer], state: Outage | None) -> list[Answer]:
    """The answers as they may be used now: while the pipeline is out of service none is settled."""
    if state is None:
        return list(answers)
    return [replace(answer, stale=True, no_pipeline_since=state.since) for answer in answers]


class OutageMonitor:
    """Follows whether the pipeline of a query is in service. `state`: the outage that lasts, or None."""

    def __init__(self, log: Log, query: str) -> None:
        self._log, self._query = log, query
        self.state = query_outage(log, query)
        self._checked = time.monotonic()

    def check(self) -> bool:
        """Look at the heartbeat, if the last look is old; whether an outage has begun or ended."""
        if time.monotonic() - self._checked < CHECK:
            return False
        before, self.state = self.state, query_outage(self._log, self._query)
        self._checked = time.monotonic()
        return (before is None) != (self.state is None)

    def mark(self, answers: Iterable[Answer]) -> list[Answer]:
        """`mark_outage` with the outage that lasts."""
        return mark_outage(answers, self.state)


def outage_text(state: Outage) -> str:
    """An outage in a few words.

    >>> outage_text(Outage("traffic", 0))
    'no pipeline has processed it yet'
    >>> outage_text(Outage("traffic", 1_700_000_000_000_000))
    'no pipeline since 2023-11-14 22:13:20 UTC'
    """
    if not state.since:
        return "the pipeline is starting" if state.alive else "no pipeline has processed it yet"
    since = f"{datetime.fromtimestamp(state.since / SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if state.alive:
        return f"the pipeline is behind: nothing after {since} is processed"
    return f"no pipeline since {since}{' (stopped)' if state.stopped else ''}"
