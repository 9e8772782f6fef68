"""Aggregates over a stream that is asked for its values; `WITHIN b FIDELITY p`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.kinds.bounded.select import check as check_aggregate
from tolerant.sql.errors import StatementError
from tolerant.sql.named_items import named_keys
from tolerant.sql.statements import AggregateSelect, CreateQuery

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def covers(select: AggregateSelect, catalogue: Catalogue) -> bool:
    """`QueryKind.covers`: FIDELITY is for polled streams, whatever stream it is asked of."""
    return select.fidelity < 1 or catalogue.stream_of(select).polled


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    check_aggregate(query, catalogue)
    select = AggregateSelect.of(query)
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
