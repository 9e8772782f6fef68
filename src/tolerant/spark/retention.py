"""Deletes rows that everybody has passed and that are older than their stream keeps them (`specs/0-pipeline.md` §1)."""

from __future__ import annotations

import threading

from tolerant.sql import Catalogue, relations
from tolerant.streams import StreamOptions
from tolerant.transport import PipelineLog

_CHUNK = 500  # entries deleted in one transaction
_PAUSE = 0.02  # seconds between two, in which others can write
_OF_STREAM = (
    "updates.", "feeds.", "copies.", "reports.", "pulls.", "dead.", "grants.", "forms.", "conflicts.", "status.",
)  # fmt: skip
_OF_QUERY = ("answers.", "current.", "notices.")


def tidy(log: PipelineLog, catalogue: Catalogue, now: int, stopping: threading.Event) -> int:
    """Delete from every topic what is too old by the wall clock `now` (microseconds); how many entries that were."""
    count = 0
    for topic in log.topics():
        before = now - retention(topic, catalogue)
        while not stopping.is_set():
            deleted = log.trim(topic, before, _CHUNK)
            count += deleted
            if deleted < _CHUNK:
                break
            stopping.wait(_PAUSE)
    return count


def retention(topic: str, catalogue: Catalogue) -> int:
    """How long rows of a topic are kept, microseconds: as long as the stream that they belong to says.

    What belongs to no stream that stands is kept as long as those that keep longest, and not less than by default.
    """
    kind, _, name = topic.partition(".")
    stream = None
    if f"{kind}." in _OF_STREAM:
        stream = catalogue.streams.get(name.partition(".")[0] if kind == "copies" else name)
    elif f"{kind}." in _OF_QUERY and name in catalogue.queries:
        streams = (catalogue.streams.get(relation) for relation in relations(catalogue.queries[name].select))
        stream = next(filter(None, streams), None)
    if stream is not None:
        return stream.options.retention
    return max([StreamOptions().retention, *(held.options.retention for held in catalogue.streams.values())])
