"""Bounded aggregates: `SUM/AVG/MIN/MAX/COUNT` over a stream, `WITHIN b`; the core is `tolerant.filters`."""

from __future__ import annotations

from tolerant.kinds.bounded.factory import BoundedFactory
from tolerant.kinds.bounded.select import check, recognise
from tolerant.sql.query_kind import QueryKind
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import Stream


def _is_fed_by_sources(relation: object) -> bool:
    return isinstance(relation, Stream) and relation.uri is None


KIND = QueryKind(
    name="bounded",
    title="aggregates over a stream",
    selects=(AggregateSelect,),
    recognise=recognise,
    check=check,
    hosts=_is_fed_by_sources,
    shards=BoundedFactory.of,
    explain="tolerant.cli.explain_bounded:explained",
)
