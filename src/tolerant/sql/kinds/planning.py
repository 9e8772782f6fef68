"""Planning: aggregates over a network of aggregators, split into part-queries; `WITHIN b`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tolerant.sql.kinds import bounded
from tolerant.sql.kinds.kind import Kind
from tolerant.sql.statements import AggregateSelect, CreateQuery, Select
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _feeds(stream: Stream) -> bool:
    return stream.networked


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, AggregateSelect) and _feeds(catalogue.stream_of(select))


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    from tolerant.sql.networks import check_query  # it needs NumPy, which most statements do not

    bounded.KIND.check(query, catalogue)
    select = cast(AggregateSelect, query.select)
    check_query(query.name, select, catalogue.stream_of(select))


KIND = Kind("planning", "aggregates over a network of aggregators", True, _covers, check=_check, feeds=_feeds)
