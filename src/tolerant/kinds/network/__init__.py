"""Planning: aggregates over a network of aggregators; the core is `tolerant.planning`."""

from __future__ import annotations

from tolerant.kinds.network.factory import NetworkFactory
from tolerant.kinds.network.select import check, covers
from tolerant.sql.query_kind import QueryKind
from tolerant.sql.statements import AggregateSelect
from tolerant.streams import Stream


def _is_network(relation: object) -> bool:
    return isinstance(relation, Stream) and relation.networked


KIND = QueryKind(
    name="planning",
    title="aggregates over a network of aggregators",
    selects=(AggregateSelect,),
    covers=covers,
    check=check,
    hosts=_is_network,
    shards=NetworkFactory.of,
    explain="tolerant.cli.explain_network:explained",
)
