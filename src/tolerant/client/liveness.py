"""Checks whether the pipeline of a query is in service, so that an old answer is not mistaken for a current one."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from tolerant.queries import Answer
from tolerant.sql import PipelineId
from tolerant.sql.catalogue_reader import CatalogueReader
from tolerant.streams import SECOND
from tolerant.transport import Log
from tolerant.transport.common import wall_clock
from tolerant.transport.heartbeats import Outage as Outage
from tolerant.transport.heartbeats import outage

CHECK = 0.5
"""Seconds between two reads of a pipeline's heartbeat."""


def pipeline_outage(log: Log, pipeline: str) -> Outage | None:
    """Return why the answers of a pipeline are not current; None: they are, or it has never run."""
    return outage(log, pipeline, wall_clock())


def query_outage(log: Log, query: str, statements: CatalogueReader | None = None) -> Outage | None:
    """Return the outage of the pipeline that answers a query; a query that does not exist counts as dropped.
    `statements`: a reader of the log, for who asks again.
    """
    definition = (statements or CatalogueReader(log)).current().queries.get(query)
    return pipeline_outage(log, str(PipelineId.of(definition.select))) if definition else Outage(query, 0, dropped=True)


def mark_outage(answers: Iterable[Answer], state: Outage | None) -> list[Answer]:
    """Mark answers as stale while the pipeline is out of service (`state`)."""
    if state is None:
        return list(answers)
    return [replace(answer, stale=True, no_pipeline_since=state.since) for answer in answers]


class OutageMonitor:
    """Monitors whether the pipeline of a query is in service. `state`: the current outage, or None."""

    def __init__(self, log: Log, query: str) -> None:
        self._log, self._query, self._statements = log, query, CatalogueReader(log)
        self.state = query_outage(log, query, self._statements)
        self._checked = time.monotonic()

    def check(self) -> bool:
        """Read the heartbeat, if the last read is old enough; return whether an outage has begun or ended."""
        if time.monotonic() - self._checked < CHECK:
            return False
        before, self.state = self.state, query_outage(self._log, self._query, self._statements)
        self._checked = time.monotonic()
        return (before is None) != (self.state is None)

    def mark(self, answers: Iterable[Answer]) -> list[Answer]:
        """Mark answers with the current outage: `mark_outage`."""
        return mark_outage(answers, self.state)


def outage_text(state: Outage) -> str:
    """Describe an outage in a few words.

    >>> outage_text(Outage("traffic", 0))
    'no pipeline has processed it yet'
    >>> outage_text(Outage("traffic", 1_700_000_000_000_000))
    'no pipeline since 2023-11-14 22:13:20 UTC'
    >>> outage_text(Outage("inbound", 0, dropped=True))
    'the query has been dropped'
    """
    if state.dropped:
        return "the query has been dropped"
    if not state.since:
        return "the pipeline is starting" if state.alive else "no pipeline has processed it yet"
    since = f"{datetime.fromtimestamp(state.since / SECOND, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if state.alive:
        return f"the pipeline is behind: nothing after {since} is processed"
    return f"no pipeline since {since}{' (stopped)' if state.stopped else ''}"
