"""Planning: aggregates over a network of aggregators, split into part-queries; `WITHIN b`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.kinds.kind import Kind
from tolerant.sql.statements import AggregateSelect, Select
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _feeds(stream: Stream) -> bool:
    return stream.uri is not None and stream.uri.endswith(".toml")


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, AggregateSelect) and _feeds(catalogue.stream_of(select))


KIND = Kind("planning", "aggregates over a network of aggregators", False, _covers, feeds=_feeds)
