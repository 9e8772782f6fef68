"""Identifies the pipeline that a query runs in: that of its stream, of its table, of two tables, or of its views."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from typing import ClassVar, Self

from tolerant.sql.spreads import Ranges, ranges_over
from tolerant.sql.statements import (
    AggregateSelect,
    BandJoinSelect,
    CreateTable,
    EqualityJoinSelect,
    KeepJoinSelect,
    Select,
    ViewSelect,
    relations,
)

# No stream or table has these in its name.
_JOINED, _APPEND_ONLY, _SUFFIX = "+", "~", "@"
_VIEWS = "views"
_BY_SUBSCRIPTION = "bands"

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

    @classmethod
    def of(cls, select: Select) -> Self:
        """The pipeline that a query with this select runs in."""
        if isinstance(select, AggregateSelect):
            return cls((select.stream,))
        names = tuple(sorted(relations(select)))
        if isinstance(select, ViewSelect):
            return cls(names, views=True)
        if isinstance(select, KeepJoinSelect | EqualityJoinSelect | BandJoinSelect):
            partitioning = _partitioning(select) if select.shards > 1 else ""
            return cls(names, isinstance(select, KeepJoinSelect), shards=select.shards, partitioning=partitioning)
        return cls(names)

    @property
    def by_value(self) -> bool:
        """Whether each row belongs to some of several shards, by what it is joined on: else all have every row."""
        return self.shards > 1 and self.partitioning != _BY_SUBSCRIPTION


def is_relation_name(text: str) -> bool:
    """Whether an id of a pipeline is just the name of a stream or table.

    >>> is_relation_name("stock"), is_relation_name("stock@views"), is_relation_name("lines~orders")
    (True, False, False)
    """
    return not any(mark in text for mark in (_JOINED, _APPEND_ONLY, _SUFFIX))


@dataclass(frozen=True)
class JoinInput:
    """Two tables with queries over both: one pipeline serves all of these, whichever table they name first.

    `tables` are in the order of their names. Queries with several shards have a pipeline of their own: one for what
    rows are joined on, with these columns, in the order of the tables, in `on`; or one for all band joins that are
    spread by subscriptions. Band joins that are spread by ranges have `ranges` too. See `PipelineId`.
    """

    append_only: ClassVar[bool] = False

    tables: tuple[CreateTable, CreateTable]
    shards: int = 1
    partitioning: str = ""
    on: tuple[str, str] = field(default=("", ""), compare=False)
    ranges: Ranges | None = field(default=None, compare=False)

    @classmethod
    def of(cls, one: CreateTable, other: CreateTable) -> Self:
        """The input of two tables, given in any order."""
        return cls((one, other) if one.name < other.name else (other, one))

    @property
    def id(self) -> PipelineId:
        """The id of its pipeline."""
        names = (self.tables[0].name, self.tables[1].name)
        return PipelineId(names, self.append_only, shards=self.shards, partitioning=self.partitioning)

    @property
    def name(self) -> str:
        """The id of its pipeline as text."""
        return str(self.id)

    @property
    def by_value(self) -> bool:
        """Whether each row belongs to some of several shards, by what it is joined on."""
        return self.id.by_value


class AppendOnlyJoinInput(JoinInput):
    """Two tables that only grow, with queries that keep some of their rows (`KEEP n ROWS`).

    It has a pipeline of its own beside the one that holds every row.
    """

    append_only: ClassVar[bool] = True


@dataclass(frozen=True)
class Views:
    """One or more tables with views over exactly these, in the order of their names: one pipeline serves them all."""

    tables: tuple[CreateTable, ...]

    @property
    def id(self) -> PipelineId:
        """The id of its pipeline."""
        return PipelineId(tuple(sorted(table.name for table in self.tables)), views=True)

    @property
    def name(self) -> str:
        """The id of its pipeline as text."""
        return str(self.id)


def join_input(pipeline: PipelineId, tables: Sequence[CreateTable], select: Select | None = None) -> JoinInput:
    """The input of a pipeline over these two tables; `select`: that of a query which runs there."""
    kind = AppendOnlyJoinInput if pipeline.append_only else JoinInput
    on = _compared(select) if isinstance(select, KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) else ("", "")
    ranges = ranges_over(select) if isinstance(select, BandJoinSelect) else None
    return kind(kind.of(*tables).tables, pipeline.shards, pipeline.partitioning, on, ranges)


def _partitioning(select: KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) -> str:
    """What distinguishes the pipeline of a query with several shards: by what its rows are spread."""
    columns: list[object] = [*_compared(select)]
    if isinstance(select, BandJoinSelect):
        ranges = ranges_over(select)
        if ranges is None:
            return _BY_SUBSCRIPTION
        columns += [ranges.left, *astuple(ranges.stretch)]
    return f"{zlib.crc32(json.dumps(columns).encode()):08x}"


def _compared(select: KeepJoinSelect | EqualityJoinSelect | BandJoinSelect) -> tuple[str, str]:
    """The columns that are compared, in the order of the names of their tables."""
    one, other = select.on
    return (one, other) if select.left < select.right else (other, one)
