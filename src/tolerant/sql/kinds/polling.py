"""Polling: aggregates over a stream that is asked for its values; `WITHIN b FIDELITY p`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.sql.kinds.kind import Kind
from tolerant.sql.statements import AggregateSelect, Select
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _feeds(stream: Stream) -> bool:
    return stream.uri is not None and stream.uri.startswith(("http://", "https://"))


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, AggregateSelect) and (select.fidelity < 1 or _feeds(catalogue.stream_of(select)))


KIND = Kind("polling", "streams that are polled, and FIDELITY below 1", False, _covers, feeds=_feeds)
