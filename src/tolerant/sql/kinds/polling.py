"""Polling: aggregates over a stream that is asked for its values; `WITHIN b FIDELITY p`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tolerant.sql.errors import StatementError
from tolerant.sql.kinds import bounded
from tolerant.sql.kinds.kind import Kind
from tolerant.sql.named_items import named_keys
from tolerant.sql.statements import AggregateSelect, CreateQuery, Select
from tolerant.streams import Stream

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def _feeds(stream: Stream) -> bool:
    return stream.polled


def _covers(select: Select, catalogue: Catalogue) -> bool:
    return isinstance(select, AggregateSelect) and (select.fidelity < 1 or _feeds(catalogue.stream_of(select)))


def _check(query: CreateQuery, catalogue: Catalogue) -> None:
    bounded.KIND.check(query, catalogue)
    select = cast(AggregateSelect, query.select)
    stream = catalogue.stream_of(select)
    if not stream.polled:
        raise StatementError(
            f"FIDELITY is for streams that are polled; {stream.name} keeps every tolerance always",
            expected="no FIDELITY",
            found=f"FIDELITY {select.fidelity:g}",
            hint="leave FIDELITY out, or create the stream FROM 'http://…'",
            about=("FIDELITY",),
        )
    named_keys(select, stream)


KIND = Kind("polling", "aggregates over streams that are polled", True, _covers, check=_check, feeds=_feeds)
