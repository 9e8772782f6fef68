"""Identifies the pipeline that a query runs in: that of its stream, of its table, of two tables, or of its views."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tolerant.sql.select import Select

# No stream or table has these in its name.
_JOINED, _APPEND_ONLY, _SUFFIX = "+", "~", "@"
_VIEWS = "views"
BY_SUBSCRIPTION = "bands"
"""The partitioning of band joins whose subscriptions are spread: every shard has all rows."""

_TEXT = re.compile(r"([^@]*?)(?:@(?:(views)|([1-9][0-9]*)\.([a-z0-9]+)))?")


@dataclass(frozen=True)
class PipelineId:
    """Which pipeline: its status, dead letters and subscriptions are under `str(id)`.

    relations: a stream, a table, or several tables in the order of their names.
    append_only: for queries that keep some of the rows of tables that only grow (`KEEP n ROWS`).
    views: for the views over exactly these tables.
    shards: how many it has (`WITH (shards = n)`).
    partitioning: with several shards what distinguishes pipelines over the same tables: "bands" where subscriptions
        are spread and every shard has all rows, else a digest of the columns (and ranges) by which rows are spread.

    >>> str(PipelineId(("lines", "orders"))), str(PipelineId(("lines", "orders"), append_only=True))
    ('lines+orders', 'lines~orders')
    >>> str(PipelineId(("lines", "orders"), views=True)), str(PipelineId(("stock",)))
    ('lines+orders@views', 'stock')
    >>> PipelineId.parse("lines+orders@4.bands")
    PipelineId(relations=('lines', 'orders'), append_only=False, views=False, shards=4, partitioning='bands')
    """

    relations: tuple[str, ...]
    append_only: bool = False
    views: bool = False
    shards: int = 1
    partitioning: str = ""

    def __str__(self) -> str:
        names = (_APPEND_ONLY if self.append_only else _JOINED).join(self.relations)
        if self.views:
            return f"{names}{_SUFFIX}{_VIEWS}"
        return f"{names}{_SUFFIX}{self.shards}.{self.partitioning}" if self.shards > 1 else names

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id that `str` wrote.

        Raises:
            ValueError: the text is no id of a pipeline.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"expected the id of a pipeline, such as lines+orders@4.bands, got {text!r:.80}")
        names, views, shards, partitioning = match.groups()
        append_only = _APPEND_ONLY in names
        split = tuple(names.split(_APPEND_ONLY if append_only else _JOINED))
        return cls(split, append_only, views is not None, int(shards or 1), partitioning or "")

    @staticmethod
    def of(select: Select) -> PipelineId:
        """The pipeline that a query with this select runs in."""
        return select.pipeline

    @property
    def by_value(self) -> bool:
        """Whether each row belongs to some of several shards, by what it is joined on: else all have every row."""
        return self.shards > 1 and self.partitioning != BY_SUBSCRIPTION


def is_relation_name(text: str) -> bool:
    """Whether an id of a pipeline is just the name of a stream or table.

    >>> is_relation_name("stock"), is_relation_name("stock@views"), is_relation_name("lines~orders")
    (True, False, False)
    """
    return not any(mark in text for mark in (_JOINED, _APPEND_ONLY, _SUFFIX))
