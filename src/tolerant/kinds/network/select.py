"""Aggregates over a network of aggregators, split into part-queries; `WITHIN b`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tolerant.kinds.bounded.select import check as check_aggregate
from tolerant.sql.statements import AggregateSelect, CreateQuery

if TYPE_CHECKING:
    from tolerant.sql.catalogue import Catalogue


def covers(select: AggregateSelect, catalogue: Catalogue) -> bool:
    """`QueryKind.covers`."""
    return catalogue.stream_of(select).networked


def check(query: CreateQuery, catalogue: Catalogue) -> None:
    """`QueryKind.check`."""
    from tolerant.sql.networks import check_query  # it needs NumPy, which most statements do not

    check_aggregate(query, catalogue)
    select = AggregateSelect.of(query)
    check_query(query.name, select, catalogue.stream_of(select))
