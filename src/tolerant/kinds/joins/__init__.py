"""Joins: new result rows of a join of two tables as they appear; the core is `tolerant.joins`."""

from __future__ import annotations

from tolerant.kinds.joins.factory import PairFactory
from tolerant.kinds.joins.select import BandJoinSelect, EqualityJoinSelect, JoinSelect, check, recognise
from tolerant.sql.pipeline_inputs import AppendOnlyJoinInput, JoinInput
from tolerant.sql.query_kind import QueryKind


def _is_pair(relation: object) -> bool:
    return isinstance(relation, JoinInput) and not isinstance(relation, AppendOnlyJoinInput)


KIND: QueryKind[JoinSelect] = QueryKind(
    name="joins",
    title="new result rows of a join as they appear",
    selects=(EqualityJoinSelect, BandJoinSelect),
    recognise=recognise,
    check=check,
    templates=True,
    hosts=_is_pair,
    shards=PairFactory.of,
    shard_query="tolerant.kinds.joins.joins:Joins.over",
    listener="tolerant.kinds.joins.listener:JoinListenerFactory",
    explain="tolerant.cli.explain_joins:explained",
)
