"""Deletes rows that everybody has passed and that are older than their stream keeps them (`docs/design/pipeline.md`
§1).
"""

from __future__ import annotations

import threading

from tolerant.sql import Catalogue
from tolerant.streams import StreamOptions
from tolerant.transport import PipelineLog
from tolerant.transport.topics import TopicKind

_CHUNK = 500  # entries deleted in one transaction
_PAUSE = 0.02  # seconds between two, in which others can write
_OF_STREAM = (
    TopicKind.UPDATES,
    TopicKind.FEEDS,
    TopicKind.COPIES,
    TopicKind.REPORTS,
    TopicKind.PULLS,
    TopicKind.DEAD_LETTERS,
    TopicKind.GRANTS,
    TopicKind.SUMS,
    TopicKind.CONFLICTS,
    TopicKind.STATUS,
)
_OF_QUERY = (TopicKind.ANSWERS, TopicKind.CURRENT, TopicKind.NOTICES)


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

    What belongs to no stream that stands is kept as long as those that keep longest, and not less than by default. The
    records of batches only serve to restore shards: they go when no shard needs them any more.
    """
    kind, stream = TopicKind.of(topic), None
    if kind is TopicKind.BATCHES:
        return 0
    if kind in _OF_STREAM:
        stream = catalogue.streams.get(kind.owner(topic))
    elif kind in _OF_QUERY and (query := catalogue.queries.get(kind.owner(topic))):
        streams = (catalogue.streams.get(relation) for relation in query.select.relations)
        stream = next(filter(None, streams), None)
    if stream is not None:
        return stream.options.retention
    return max([StreamOptions().retention, *(kept.options.retention for kept in catalogue.streams.values())])
