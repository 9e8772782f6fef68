"""Polling: aggregates over a stream that is asked for its values; the core is `tolerant.polling`."""

from __future__ import annotations

from tolerant.kinds.polled.factory import PolledFactory
from tolerant.kinds.polled.select import check, covers
from tolerant.sql.query_kind import QueryKind
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import Stream


def _is_polled(relation: object) -> bool:
    return isinstance(relation, Stream) and relation.polled


KIND = QueryKind(
    name="polling",
    title="aggregates over streams that are polled",
    selects=(AggregateSelect,),
    covers=covers,
    check=check,
    hosts=_is_polled,
    shards=PolledFactory.of,
    explain="tolerant.cli.explain_polled:explained",
)
