"""Names the topics of a log, and recognises them.

A topic is called `<kind>.<owner>`, where the owner is a stream, table, query or pipeline; a few topics that the whole
log shares have a plain name. No other module puts such a name together or takes one apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Self

from tolerant.streams import Stream

QUERIES = "queries"
"""The topic of statements: never deleted from, read by every pipeline."""

REPLIES_TOPIC = "replies"
"""The topic of what became of each statement: rows follow `rows.REPLIES`."""

EPOCHS = "epochs"
"""The compacted topic of epochs: key `source/<stream>/<name>` or `pipeline/<stream>`, version = epoch, body = owner."""

POSITIONS = "positions"
"""The compacted topic of what each checkpoint has passed: key = the checkpoint's id, version = the position, body =
JSON `{"stream": …, "topics": [topics it reads]}`. `register` and `pass_position` write it, `trim` respects it."""

HEARTBEATS = "heartbeats"
"""The compacted topic of pipelines' heartbeats (`tolerant.transport.heartbeats`): key = the pipeline's name."""

SEVERAL = "*"
"""Not a topic: an entry that is appended to it has rows of several compacted topics, `rows.SEVERAL`."""


class TopicKind(StrEnum):
    """What the topics of one owner after the other have in common: the part of their name before the first dot.

    >>> TopicKind.STATUS.matches("status.rates"), TopicKind.STATUS.owners(["queries", "status.rates", "sums.rates"])
    (True, ['rates'])
    """

    # of a stream
    UPDATES = "updates"
    FEEDS = "feeds"
    COPIES = "copies"
    REPORTS = "reports"
    PULLS = "pulls"
    GRANTS = "grants"
    SUMS = "sums"
    CONFLICTS = "conflicts"
    MODELS = "models"
    # of a table
    CHANGES = "changes"
    # of a pipeline
    STATUS = "status"
    DEAD_LETTERS = "dead_letters"
    SUBSCRIPTIONS = "subscriptions"
    ROWS = "rows"
    REFRESHES = "refreshes"
    QUARANTINE = "quarantine"
    BATCHES = "batches"
    # of a query
    ANSWERS = "answers"
    CURRENT = "current"
    NOTICES = "notices"
    CHANNELS = "channels"
    PUSHES = "pushes"

    @classmethod
    def of(cls, topic: str) -> Self | None:
        """The kind of a topic; None if it has a plain name or one that no module of this project gives."""
        prefix, dot, _ = topic.partition(".")
        return cls(prefix) if dot and prefix in _PREFIXES else None

    def matches(self, topic: str) -> bool:
        """Whether a topic is of this kind."""
        return topic.startswith(f"{self}.")

    def owner(self, topic: str) -> str:
        """The stream, table, query or pipeline that a topic of this kind belongs to.

        >>> TopicKind.COPIES.owner("copies.rates.north"), TopicKind.CHANGES.owner("changes.orders")
        ('rates', 'orders')
        """
        owner = topic.removeprefix(f"{self}.")
        return owner.partition(".")[0] if self is TopicKind.COPIES else owner

    def owners(self, topics: Iterable[str]) -> list[str]:
        """The owners of those of the topics that are of this kind, in their order."""
        return [self.owner(topic) for topic in topics if self.matches(topic)]


_PREFIXES = frozenset(TopicKind)


def _prefixes(*kinds: TopicKind) -> tuple[str, ...]:
    return tuple(f"{kind}." for kind in kinds)


_COMPACTED = _prefixes(
    TopicKind.GRANTS,
    TopicKind.SUMS,
    TopicKind.CONFLICTS,
    TopicKind.STATUS,
    TopicKind.CURRENT,
    TopicKind.ROWS,
    TopicKind.MODELS,
    TopicKind.QUARANTINE,
)
_KEPT = _prefixes(TopicKind.CHANGES, TopicKind.SUBSCRIPTIONS)
_COMPACTED_NAMES = (EPOCHS, POSITIONS, HEARTBEATS)


def is_compacted(topic: str) -> bool:
    """Whether the log keeps only the newest row per key of this topic."""
    return topic in _COMPACTED_NAMES or topic.startswith(_COMPACTED)


def is_kept(topic: str) -> bool:
    """Whether the log never deletes from this topic: every row of it stays in force."""
    return topic == QUERIES or topic.startswith(_KEPT)


# -- of a stream ---------------------------------------------------------------------------------------------------


def updates_topic(stream: str) -> str:
    """The topic that a stream's pipeline reads rows and clock rows from."""
    return f"{TopicKind.UPDATES}.{stream}"


def feeds_topic(stream: str) -> str:
    """The topic that the sources of a networked stream write to, and aggregators read."""
    return f"{TopicKind.FEEDS}.{stream}"


def source_topic(stream: Stream) -> str:
    """The topic that a stream's sources write to: that of its pipeline, or the one that aggregators read."""
    return feeds_topic(stream.name) if stream.networked else updates_topic(stream.name)


def copies_topic(stream: str, aggregator: str) -> str:
    """The topic of the copies that an aggregator sends to those below it."""
    return f"{TopicKind.COPIES}.{stream}.{aggregator}"


def reports_topic(stream: str) -> str:
    """The topic in which aggregators report how their items move."""
    return f"{TopicKind.REPORTS}.{stream}"


def pulls_topic(stream: str) -> str:
    """The topic of a polled stream's pulls."""
    return f"{TopicKind.PULLS}.{stream}"


def grants_topic(stream: str) -> str:
    """The compacted topic of the filter widths sent to a stream's sources; of a networked stream, of its plan."""
    return f"{TopicKind.GRANTS}.{stream}"


def sums_topic(stream: str) -> str:
    """The compacted topic of the sums that sources are to filter instead of their items."""
    return f"{TopicKind.SUMS}.{stream}"


def conflicts_topic(stream: str) -> str:
    """The compacted topic of items that two sources report."""
    return f"{TopicKind.CONFLICTS}.{stream}"


def models_topic(stream: str) -> str:
    """The compacted topic of the model that a stream's poller has learned."""
    return f"{TopicKind.MODELS}.{stream}"


# -- of a table ----------------------------------------------------------------------------------------------------


def changes_topic(table: str) -> str:
    """The topic of a table's changes."""
    return f"{TopicKind.CHANGES}.{table}"


def lookup_topic(table: str, digest: str) -> str:
    """The compacted topic of the rows of a table's file, by key, for lookups; `digest`, of the file, fixes them."""
    return f"{TopicKind.ROWS}.{table}@{digest}"


# -- of a pipeline, by its stream, its table or its id (`sql.pipeline_ids`) ----------------------------------------


def status_topic(pipeline: str) -> str:
    """The compacted topic of a pipeline's figures."""
    return f"{TopicKind.STATUS}.{pipeline}"


def dead_letters_topic(pipeline: str) -> str:
    """The topic of rows that a pipeline could not use."""
    return f"{TopicKind.DEAD_LETTERS}.{pipeline}"


def subscriptions_topic(pipeline: str) -> str:
    """The topic of the subscriptions to all templates of a pipeline, which reads this one topic while templates come
    and go.
    """
    return f"{TopicKind.SUBSCRIPTIONS}.{pipeline}"


def rows_topic(pipeline: str) -> str:
    """The compacted topic of a table's current rows, by key; of several tables', by table and key (`row_key`)."""
    return f"{TopicKind.ROWS}.{pipeline}"


def refreshes_topic(pipeline: str) -> str:
    """The topic of requests for the views of a pipeline."""
    return f"{TopicKind.REFRESHES}.{pipeline}"


def quarantine_topic(pipeline: str) -> str:
    """The compacted topic of the entries that a pipeline skips."""
    return f"{TopicKind.QUARANTINE}.{pipeline}"


def batches_topic(pipeline: str) -> str:
    """The topic of what a pipeline's batches were."""
    return f"{TopicKind.BATCHES}.{pipeline}"


# -- of a query ----------------------------------------------------------------------------------------------------


def answers_topic(query: str) -> str:
    """The topic of a query's answers: of what changed, result rows, or the rows on its channels."""
    return f"{TopicKind.ANSWERS}.{query}"


def current_topic(query: str) -> str:
    """The compacted topic of a query's current answer, by group; of a view's rows."""
    return f"{TopicKind.CURRENT}.{query}"


def notices_topic(template: str) -> str:
    """The topic of a template's notices."""
    return f"{TopicKind.NOTICES}.{template}"


def channels_topic(query: str) -> str:
    """The topic of a query's channel table."""
    return f"{TopicKind.CHANNELS}.{query}"


def pushes_topic(view: str) -> str:
    """The topic of a view's pushes."""
    return f"{TopicKind.PUSHES}.{view}"
